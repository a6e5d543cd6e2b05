#include "runtime/config/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <string>

namespace r2ccl {
namespace {

// Files of a rank that has no NIC but the loopback, while the ranks meet: 13, and 3 more in the
// process where they meet. With more NICs it needs some more, and names the NIC that lacks one.
constexpr rlim_t kFilesOfARank = 16;

// Counts the files that this process may still open, up to `enough`.
rlim_t room(rlim_t limit, rlim_t enough) {
  rlim_t free = 0;
  for (rlim_t file = 0; file < limit && free < enough; ++file) {
    if (fcntl(static_cast<int>(file), F_GETFD) < 0) ++free;
  }
  return free;
}

}  // namespace

Status check_open_files(int32_t rank_count) {
  rlimit limit{};
  if (rank_count <= 1 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t needed = kFilesOfARank + static_cast<rlim_t>(rank_count);  // one for each peer
  const rlim_t free = room(limit.rlim_cur, needed);
  if (free >= needed) return {};
  return {Code::system, "this process may open " + std::to_string(free) +
                            " more files, and a rank of " + std::to_string(rank_count) +
                            " needs at least " + std::to_string(needed) +
                            ": raise its limit of open files, which is " +
                            std::to_string(limit.rlim_cur) + " (ulimit -n)"};
}

}  // namespace r2ccl
