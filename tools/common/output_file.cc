#include "tools/common/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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
  std::ofstream out(path);
  out << text;
  out.close();
  return out ? Status::ok_status() : Status(Code::system, "cannot write " + path);
}

}  // namespace r2ccl::tools
