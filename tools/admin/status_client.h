// Finds the status sockets of running jobs on this host (status_query.h asks them).
#pragma once

#include <sys/types.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "runtime/admin/status_path.h"

namespace r2ccl::tools {

// A directory where a user's processes may have their sockets.
struct StatusPlace {
  std::string directory;
  uid_t owner = 0;
};

// A rank's socket; the rank may be gone.
struct StatusSocketFile {
  std::string path;
  uid_t owner = 0;
  StatusName name;
};

// Where the processes of `uid` are looked for: a login, a launcher and sudo each have another idea
// of XDG_RUNTIME_DIR, so the usual places are all looked at. For root also every other user's.
std::vector<StatusPlace> status_places(const char* (*get)(const char* name), uid_t uid);

struct StatusSockets {
  std::vector<StatusSocketFile> files;  // by communicator and rank
  std::vector<std::string> problems;    // directories that are not to be trusted
};
StatusSockets find_status_sockets(const std::vector<StatusPlace>& places);

// Linux has no higher ones.
inline constexpr int kPidMax = 4 * 1024 * 1024;

// All ranks of one communicator that have a socket of one user on this host. Sockets of two users
// are never one job: a stranger may call its socket as a rank of the job would.
struct LocalJob {
  uint64_t comm = 0;
  uid_t owner = 0;
  std::vector<StatusSocketFile> files;
  bool operator<(const LocalJob& other) const {
    return std::tie(comm, owner) < std::tie(other.comm, other.owner);
  }
};
// Those of process `pid` (0: any) whose id begins with `comm`.
std::vector<LocalJob> choose_jobs(const StatusSockets& found, uint32_t pid,
                                  const std::string& comm);

// Whether `uid` is another user, who could slow or mislead the caller (only root asks others).
bool is_foreign(uid_t uid);
// The user's name and number, for messages.
std::string user_text(uid_t uid);

}  // namespace r2ccl::tools
