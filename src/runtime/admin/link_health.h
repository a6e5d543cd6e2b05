// The health of the links of a job as values: their paths, and the verdicts. The report, the C API
// and its callback, and the status of an NCCL process show these. Copies, so that they outlive a
// turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/wire/wire.h"
#include "runtime/link/link.h"
#include "runtime/peers/job_map.h"

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

// Returns the shortest one-way delay of the link's data paths that are up. It contains the
// difference between the two clocks, so it can be negative.
TimeNs shortest_one_way(const Link& link);
// Returns the name of the NIC at the far end, which is that of `peer`.
std::string peer_nic_of(const RankInfo& peer, const Path& path);
// Returns a path without its peer's number and host. `shortest`: shortest_one_way() of its link.
// `started`: when the job began.
PathInfo path_info(const RankInfo& peer, const Path& path, TimeNs shortest, TimeNs started,
                   TimeNs now);

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
  friend bool operator==(const VerdictInfo&, const VerdictInfo&) = default;
};

// Returns the verdict, with the ranks of the job and without its place.
VerdictInfo verdict_info(const JobMap& job, const Verdict& verdict);

}  // namespace r2ccl
