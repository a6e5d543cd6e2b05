// The listening Unix socket of one communicator: the file and who may come in.
//
// A name appears in the directory only once somebody listens behind it, so a name whose connect is
// refused belongs to a process that is gone, and anybody may remove it.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "runtime/admin/status_path.h"
#include "transport/tcp/fork_guard.h"

namespace r2ccl {

class StatusSocket {
 public:
  // Makes the directory when it is missing, removes what dead processes left there, and listens.
  static Result<StatusSocket> open(const std::string& directory, const StatusName& name);
  StatusSocket(StatusSocket&& other) noexcept = default;
  StatusSocket& operator=(StatusSocket&& other) = delete;
  // Removes the name, except in a forked child, whose it is not.
  ~StatusSocket();

  struct Accepted {
    GuardedFd connection;   // not valid: nobody waits, or `error`
    int error = 0;          // an errno value: descriptors or memory have run out
    bool stranger = false;  // another user's process, which was sent away
  };
  // Does not block, and nor does what it returns. Strangers are all but this user and root.
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
