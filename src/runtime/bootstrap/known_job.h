// The jobs that a process is in already, as it tells them to the processes that it meets. If all
// have one in common, the new communicator uses its links.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "protocol/wire/crypto.h"
#include "protocol/wire/handshake.h"

namespace r2ccl {

struct RankInfo;

struct KnownJob {
  std::array<std::byte, kJobIdBytes> run{};  // its RunIdentity::id
  Rank peer;                                 // the process's number there
  std::vector<Rank> parted;                  // peers whose links end, or have ended, here
  crypto::Hash proof{};                      // that this process has the key of the run
  friend bool operator==(const KnownJob&, const KnownJob&) = default;
};

// More of them would need a larger rank info, and a process is in few jobs.
inline constexpr size_t kKnownJobsMax = 4;
inline constexpr size_t kKnownJobPartedMax = 64;

// Sets the proof for the rank `self` of the meeting with this id.
void prove(KnownJob& known, const RunIdentity& run, std::span<const std::byte> meeting, Rank self);

// A job that all ranks of a meeting are in.
struct CommonJob {
  std::array<std::byte, kJobIdBytes> run{};
  std::vector<Rank> peers;  // the number there of each rank
};

// Returns the run of this process with that id, or null.
using FindRun = std::function<const RunIdentity*(std::span<const std::byte> id)>;

// Returns the first of rank 0's jobs that all ranks are in as different peers, whose links between
// them live at both ends, and whose key each has proved to have. All ranks find the same one. None,
// if there is none.
std::optional<CommonJob> find_common_job(std::span<const RankInfo> rank_table,
                                         std::span<const std::byte> meeting,
                                         const FindRun& find_run);

}  // namespace r2ccl
