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

// A rank's socket; the rank may have ended.
struct StatusSocketFile {
  std::string path;
  uid_t owner = 0;
  StatusName name;
};

// Returns the directories that may hold the sockets of `uid`'s processes; for root, also every
// other user's. A login, a launcher and sudo set XDG_RUNTIME_DIR differently, so the list has all
// usual places.
std::vector<StatusPlace> status_places(const char* (*get)(const char* name), uid_t uid);

struct StatusSockets {
  std::vector<StatusSocketFile> files;  // by communicator and rank
  std::vector<std::string> problems;    // directories that do not deserve trust
};
StatusSockets find_status_sockets(const std::vector<StatusPlace>& places);

// Linux allows no higher process id.
inline constexpr int kPidMax = 4 * 1024 * 1024;

// All ranks of one communicator that have a socket of one user on this host. Sockets of two users
// are never one job: a foreign process may name its socket like a rank of the job.
struct LocalJob {
  uint64_t comm = 0;
  uid_t owner = 0;
  std::vector<StatusSocketFile> files;
  bool operator<(const LocalJob& other) const {
    return std::tie(comm, owner) < std::tie(other.comm, other.owner);
  }
};
// Returns the jobs of process `pid` (0: any) whose id begins with `comm`.
std::vector<LocalJob> choose_jobs(const StatusSockets& found, uint32_t pid,
                                  const std::string& comm);

// Returns whether `uid` is another user, whose processes could slow or mislead the caller. Only
// root asks the jobs of other users.
bool is_foreign(uid_t uid);
// Returns the user's name and number, for messages.
std::string user_text(uid_t uid);

}  // namespace r2ccl::tools
