// The health of the links of a job as values: their paths (schema/path.h), and the verdicts. The
// report, the C API and its callback, and the status of an NCCL process show these. Copies, so that
// they outlive a turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/wire/wire.h"
#include "runtime/link/link.h"
#include "runtime/peers/job_map.h"
#include "schema/path.h"

namespace r2ccl {

ShownState shown_state(const Path& path);

// Returns the shortest one-way delay of the link's data paths that are up. It contains the
// difference between the two clocks, so it can be negative.
TimeNs shortest_one_way(const Link& link);
// Returns the name of the NIC at the far end, which is that of `peer`.
std::string peer_nic_of(const RankInfo& peer, const Path& path);
// Returns a path of the link without its peer's number and host. `shortest`: shortest_one_way() of
// the link. `started`: when the job began.
PathInfo path_info(const RankInfo& peer, const Link& link, const Path& path, TimeNs shortest,
                   TimeNs started, const Clock& clock);

struct VerdictInfo {
  size_t place = 0;  // in the list of verdicts
  Rank rank;
  Scope scope = Scope::nic;
  DownCause kind = DownCause::none;
  std::string host;  // empty for a rail
  std::string nic;
  std::string peer_host;  // only for a pair
  std::string peer_nic;
  Rank process = kNoRank;
  TimeNs detected = -1;  // negative: there was nothing to count from
  uint32_t loss_ppm = 0;
  uint64_t retransmitted = 0;
  TimeNs stall = 0;
  TimeNs wall = 0;
  friend bool operator==(const VerdictInfo&, const VerdictInfo&) = default;
};

namespace schema {

inline std::optional<Rank> process_of(const VerdictInfo& verdict) {
  return verdict.scope == Scope::process ? std::optional(verdict.process) : std::nullopt;
}
inline std::optional<double> loss_percent_of(const VerdictInfo& verdict) {
  return verdict.kind == DownCause::lossy ? std::optional(percent(verdict.loss_ppm)) : std::nullopt;
}

inline constexpr std::tuple kVerdictFields{
    Field("rank", &VerdictInfo::rank,
          "The rank whose evidence decided; -1: it is none of this communicator."),
    Field("scope", &VerdictInfo::scope,
          "`nic`: a NIC, its cable or its port; `pair`: one of two NICs or hosts, or the network "
          "between them; `rail`: the switch that connects this NIC of all hosts; `host`: no NIC of"
          " a host is reached; `process`: a rank's process died. [blame.md](blame.md) has the "
          "evidence for each."),
    Field("host", &VerdictInfo::host, "The host of the faulty component; empty for a rail."),
    Field("nic", &VerdictInfo::nic,
          "The faulty NIC; for a rail its name on the first host; empty for a host, a process and "
          "a pair of hosts."),
    Field("peer_host", &VerdictInfo::peer_host,
          "For a pair: the fault may as well be at this host, or between the two; else empty."),
    Field("peer_nic", &VerdictInfo::peer_nic, "For a pair: the NIC at that end."),
    Field("process", process_of, "For a process: its rank; else null."),
    Field("kind", &VerdictInfo::kind,
          "`interface_down`, `carrier_lost`, `address_lost`, `connection_lost`, `silent`, "
          "`stalled`; `lossy`: packets get lost, and nothing is down for it; `tampered`: bytes "
          "between the pair are changed, repeated or left out again and again, and nothing is down"
          " for it; `src/protocol/wire/wire.h` (`DownCause`) gives the evidence for each."),
    Field("detected_ms", &VerdictInfo::detected, known_ms,
          "From sending the oldest frame that was never acknowledged to the decision of `rank`; "
          "null when it had none in flight, and the kernel, the peer or an unanswered probe "
          "reported the fault."),
    Field("loss_percent", loss_percent_of,
          "For `lossy`: the share of its packets that got lost when it was named; else null."),
    Field("replayed_bytes", &VerdictInfo::retransmitted,
          "Payload sent again on other paths because of it."),
    Field("stall_ms", &VerdictInfo::stall, to_ms, "The delay of the most delayed chunk."),
    Field("at", &VerdictInfo::wall, utc_text, "UTC, by the clock of the deciding rank."),
};

}  // namespace schema

// Returns the verdict, with the ranks of the job and without its place.
VerdictInfo verdict_info(const JobMap& job, const Verdict& verdict);

}  // namespace r2ccl
