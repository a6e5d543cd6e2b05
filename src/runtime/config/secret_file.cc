#include "runtime/config/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace r2ccl {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Status unreadable(int error) {
  return {Code::invalid_argument, "cannot read the file: " + std::string(std::strerror(error))};
}

// Returns the number of bytes read, at most out.size(), or a negative errno.
ssize_t read_all(int fd, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = read(fd, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

Status check_keeping(const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return unreadable(EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return {Code::invalid_argument, "it is not a regular file"};
  }
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return {Code::invalid_argument, "it belongs to another user (uid " +
                                        std::to_string(info.st_uid) +
                                        "): it must be yours or root's"};
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return {Code::invalid_argument, "other users can read or change the file: chmod 600 it"};
  }
  return {};
}

}  // namespace

Result<LockedBytes> read_secret_file(const std::string& name) {
  // Without O_NONBLOCK, opening a FIFO would block until a writer opens it.
  const File file(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.fd() < 0) return unreadable(errno);
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return unreadable(errno);
  R2CCL_RETURN_IF_ERROR(check_keeping(info));
  ssize_t got = 0;
  // Room for the end of the line and for one byte too many.
  const LockedBytes all = LockedBytes::make(
      kSecretTextBytesMax + 3, [&](std::span<std::byte> out) { got = read_all(file.fd(), out); });
  if (got < 0) return unreadable(static_cast<int>(-got));
  auto text = all.bytes().first(static_cast<size_t>(got));
  while (!text.empty() && (text.back() == std::byte{'\n'} || text.back() == std::byte{'\r'})) {
    text = text.first(text.size() - 1);
  }
  return text.empty() ? LockedBytes() : LockedBytes::copy_of(text);
}

Status write_secret_file(const std::string& name, const LockedBytes& text) {
  const File file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.fd() < 0) return system_error("cannot make " + name, errno);
  for (const auto part : {text.bytes(), std::as_bytes(std::span("\n", 1))}) {
    for (size_t done = 0; done < part.size();) {
      const ssize_t put = write(file.fd(), part.data() + done, part.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return system_error("cannot write " + name, errno);
      done += static_cast<size_t>(put);
    }
  }
  return {};
}

}  // namespace r2ccl
