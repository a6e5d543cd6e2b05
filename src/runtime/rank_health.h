// The health of a rank's network as values: its paths, and the verdicts. The report, the C API and
// its callback show these. Copies, so that they outlive a turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/wire/wire.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

// The state of a path as an operator sees it: its phase, unless it rests on purpose.
enum class ShownState : uint8_t {
  down = 0,
  validating = 1,
  up = 2,
  suspect = 3,
  drained = 4,  // a NIC at one of its ends is out of service
  standby = 5,  // a fallback that its link does not need now
};
ShownState shown_state(const Path& path);
const char* to_string(ShownState state);

struct PathInfo {
  Rank peer;
  std::string peer_host;
  std::string nic;
  std::string peer_nic;  // as `nic`: "shm", "lo" and "oob" are the same at both ends
  std::string remote;
  ShownState state = ShownState::down;
  bool drained = false;
  uint64_t incarnation = 0;
  TimeNs state_age = 0;
  uint64_t bytes_per_second = 0;  // 0: not measured yet
  TimeNs round_trip = 0;          // of its control stream; 0: not measured yet
  // How much longer its one-way delay is than the shortest one of the link's data paths that are
  // up; negative: not known.
  TimeNs one_way_excess = -1;
  uint64_t sent = 0;  // as Path::total_bytes_sent()
  uint64_t received = 0;
  uint64_t retransmitted = 0;  // payload that was sent again because this path failed
  uint64_t packets_sent = 0;
  uint64_t packets_lost = 0;
  uint32_t loss_ppm = 0;
  uint64_t suspicions = 0;
  uint64_t downs = 0;
  uint64_t returns = 0;
};

// By peer, and in the order of the link's paths. The list has the same paths for the whole life of
// the rank, but for relay paths: each joins it at its first connection.
std::vector<PathInfo> path_infos(RankRuntime& rank);
// Returns the name of the NIC at the peer's end.
std::string peer_nic_of(RankRuntime& rank, Rank peer, const Path& path);

struct VerdictInfo {
  size_t place = 0;  // in the list of verdicts
  Rank rank;
  Scope scope = Scope::nic;
  DownCause kind = DownCause::none;
  std::string host;  // empty for a rail
  std::string nic;
  std::string peer_host;  // only for a pair
  std::string peer_nic;
  Rank process;
  TimeNs detected = -1;  // negative: there was nothing to count from
  uint32_t loss_ppm = 0;
  uint64_t retransmitted = 0;
  TimeNs stall = 0;
  TimeNs wall = 0;
};

// Returns whether the verdict is on a host, or a process, of this communicator.
bool concerns(RankRuntime& rank, const Verdict& verdict);
// Returns the places of those in the job's list.
std::vector<size_t> verdicts_of(RankRuntime& rank);
// Requires that there is a verdict at this place. The ranks are those of the communicator.
VerdictInfo verdict_info(RankRuntime& rank, size_t place);

}  // namespace r2ccl
