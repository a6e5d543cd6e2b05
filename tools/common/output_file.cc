#include "tools/common/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/common/fd.h"

namespace r2ccl::tools {

Status check_writable(const std::string& option, const std::string& path) {
  if (path.empty() || path == "-") return Status::ok_status();
  const std::string context = option + " " + path;
  std::error_code error;
  // Does not open an existing file: the reader of a pipe would take the close for the end.
  if (std::filesystem::exists(path, error)) {
    if (std::filesystem::is_directory(path, error)) return system_error(context, EISDIR);
    if (access(path.c_str(), W_OK) != 0) return system_error(context, errno);
    return Status::ok_status();
  }
  const Fd made(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!made.valid()) return system_error(context, errno);
  unlink(path.c_str());
  return Status::ok_status();
}

Status write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return Status::ok_status();
  }
  errno = 0;
  std::ofstream out(path);
  if (!out) return system_error("cannot write " + path, errno);
  out << text;
  out.close();
  if (out) return Status::ok_status();
  const Status failed = system_error("cannot write " + path, errno);
  // A reader cannot tell a part of a text from the whole one.
  std::error_code error;
  if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) {
    std::filesystem::remove(path, error);
  }
  return failed;
}

namespace {

Status write_whole(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("write", errno);
    done += static_cast<size_t>(count);
  }
  return fchmod(fd, 0644) == 0 ? Status::ok_status() : system_error("chmod", errno);
}

}  // namespace

Status replace_file(const std::string& path, const std::string& text) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return {Code::invalid_argument, path + " is no regular file"};
  }
  // The collector of the node exporter reads *.prom only, so it does not see this name.
  const std::filesystem::path target(path);
  std::string fresh = target.parent_path() / ("." + target.filename().string() + ".XXXXXX");
  Status done;
  {
    const Fd file(mkostemp(fresh.data(), O_CLOEXEC));
    if (!file.valid()) return system_error(path, errno);
    done = write_whole(file.get(), text);
  }
  if (done.ok() && rename(fresh.c_str(), path.c_str()) != 0) done = system_error("rename", errno);
  if (!done.ok()) unlink(fresh.c_str());
  return done.with_context(path);
}

}  // namespace r2ccl::tools
