#include "runtime/admin/status_socket.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace r2ccl {
namespace {

constexpr int kBacklog = 16;
// The number of entries that are checked for leftovers: a directory that a user filled must not
// delay a job.
constexpr int kEntriesMax = 4096;
// Another process may take an unfinished name for a leftover and remove it. The retries are
// bounded.
constexpr int kAttempts = 3;
constexpr std::string_view kUnfinished = ".new";

GuardedFd new_socket() {
  return GuardedFd::from(
      [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Returns true when no process listens behind the name, and none ever will.
bool is_dead(const std::string& path) {
  const auto address = address_of(path);
  const GuardedFd probe = new_socket();
  if (!address || !probe.valid()) return false;
  const auto* where = reinterpret_cast<const sockaddr*>(&*address);
  return connect(probe.get(), where, sizeof *address) != 0 && errno == ECONNREFUSED;
}

void remove_leftovers(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  if (open == nullptr) return;
  for (int i = 0; i < kEntriesMax; ++i) {
    const dirent* entry = readdir(open.get());
    if (entry == nullptr) return;
    std::string_view text = entry->d_name;
    if (text.ends_with(kUnfinished)) text.remove_suffix(kUnfinished.size());
    const auto name = parse_status_name(text);
    if (!name) continue;
    // Only an optimisation for living processes: in another namespace a process may have another
    // pid.
    if (kill(static_cast<pid_t>(name->pid), 0) == 0 || errno != ESRCH) continue;
    const std::string path = directory + "/" + entry->d_name;
    if (is_dead(path)) unlink(path.c_str());
  }
}

// Listens under another name first, then renames the socket.
int listen_at(const GuardedFd& socket, const sockaddr_un& unfinished, const std::string& path) {
  const char* name = unfinished.sun_path;
  unlink(name);  // left by an earlier process with this pid
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&unfinished), sizeof unfinished) != 0) {
    return errno;
  }
  // The directory keeps other users out. The user's umask must not keep the user out.
  if (chmod(name, 0600) == 0 && listen(socket.get(), kBacklog) == 0 &&
      rename(name, path.c_str()) == 0) {
    return 0;
  }
  const int error = errno;
  unlink(name);
  return error;
}

}  // namespace

Result<StatusSocket> StatusSocket::open(const std::string& directory, const StatusName& name) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error("making " + directory, errno);
  }
  R2CCL_RETURN_IF_ERROR(check_status_directory(directory, geteuid()));
  remove_leftovers(directory);
  const std::string path = directory + "/" + to_string(name);
  const auto unfinished = address_of(path + std::string(kUnfinished));
  if (!unfinished) {
    return Status(Code::system, path +
                                    " is too long for a socket: set XDG_RUNTIME_DIR to a "
                                    "directory with a shorter name");
  }
  int error = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    GuardedFd socket = new_socket();
    if (!socket.valid()) return system_error("socket", errno);
    error = listen_at(socket, *unfinished, path);
    if (error == 0) return StatusSocket(std::move(socket), path);
    if (error != ENOENT) break;
  }
  return system_error("listening at " + path, error);
}

StatusSocket::~StatusSocket() {
  if (socket_.valid()) unlink(path_.c_str());
}

StatusSocket::Accepted StatusSocket::accept() const {
  Accepted accepted;
  accepted.connection = GuardedFd::from(
      [this] { return accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (!accepted.connection.valid()) {
    const bool none = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    accepted.error = none ? 0 : errno;
    return accepted;
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  const int asked = getsockopt(accepted.connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length);
  if (asked != 0 || (peer.uid != geteuid() && peer.uid != 0)) {
    accepted.stranger = true;
    accepted.connection.reset();
  }
  return accepted;
}

}  // namespace r2ccl
