// The listening Unix socket of one communicator: its file and its access control.
//
// A name appears in the directory only once a process listens behind it. So a name whose connect is
// refused belongs to a dead process, and any process may remove it.
#pragma once

#include <cstdint>
#include <string>

#include "base/fork_guard.h"
#include "base/status.h"
#include "runtime/admin/status_path.h"

namespace r2ccl {

class StatusSocket {
 public:
  // Creates the directory if it is missing, removes the sockets of dead processes, and listens.
  static Result<StatusSocket> open(const std::string& directory, const StatusName& name);
  StatusSocket(StatusSocket&& other) noexcept = default;
  StatusSocket& operator=(StatusSocket&& other) = delete;
  // Removes the name, except in a forked child, which does not own it.
  ~StatusSocket();

  struct Accepted {
    GuardedFd connection;   // not valid: no client waits, or `error`
    int error = 0;          // an errno value: descriptors or memory have run out
    bool stranger = false;  // another user's process, which was refused
  };
  // Does not block, and neither does the returned connection. Strangers are all users but this one
  // and root.
  Accepted accept() const;
  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }

 private:
  StatusSocket(GuardedFd socket, std::string path)
      : socket_(std::move(socket)), path_(std::move(path)) {}

  GuardedFd socket_;
  std::string path_;
};

}  // namespace r2ccl
