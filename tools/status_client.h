// Finds the status sockets of running jobs on this host and asks them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/status_path.h"

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

// All ranks of one communicator that have a socket on this host.
struct LocalJob {
  uint64_t comm = 0;
  std::vector<StatusSocketFile> files;
};
// Those of process `pid` (0: any) whose id begins with `comm`.
std::vector<LocalJob> choose_jobs(const StatusSockets& found, uint32_t pid,
                                  const std::string& comm);

struct StatusAnswer {
  enum class Kind : uint8_t {
    text,    // the text is there
    gone,    // nobody listens any more
    silent,  // it is there but gives no (whole) answer: `text` says why
  };
  Kind kind = Kind::silent;
  std::string text;
};
// Says `request` and reads to the end; no longer than `timeout_ns`.
StatusAnswer ask_status(const StatusSocketFile& file, const std::string& request, TimeNs timeout_ns,
                        const Clock& clock);

}  // namespace r2ccl::tools
