// The summary of a rank as the answers to `r2ccl status` show it.
#pragma once

#include <string>
#include <tuple>

#include "runtime/admin/rank_summary.h"
#include "schema/field.h"
#include "schema/forms.h"

namespace r2ccl::schema {

inline Rank blocking_rank(const RankSummary& summary) {
  return summary.blocker.rank;
}
inline const char* shown_state(const RankSummary::Relay& relay) {
  return relay.standby ? "standby" : to_string(relay.phase);
}

inline constexpr std::tuple kMemberFields{
    Field("uptime_ms", &RankSummary::uptime_ms, "Time since the communicator was begun.")
        .metric("r2ccl_rank_uptime_seconds", 1e-3),
    Field("operations", &RankSummary::operations, "Operations that ended well on this rank.")
        .metric("r2ccl_operations_total"),
    Field("mirrored_bytes", &RankSummary::hedged,
          "Payload sent once more while its path was overdue.")
        .metric("r2ccl_hedged_bytes_total"),
    Field("replayed_bytes", &RankSummary::retransmitted,
          "Payload sent again because its path went down.")
        .metric("r2ccl_retransmitted_bytes_total"),
    Field("verdicts", &RankSummary::verdicts, "How many it knows."),
    Field("corruptions", &RankSummary::corruptions, "The sum of its paths' `corruptions`."),
    Field("log_lines_dropped", &RankSummary::log_lines_dropped,
          "Lines of the log that were lost: its reader was slow or gone, or the disk full.")
        .metric("r2ccl_log_lines_dropped_total"),
    Field("error", &RankSummary::error,
          "The cause that ended the communicator, in words; empty while it works."),
    Field("in", &RankSummary::call,
          "The call that the rank has waited in for longest, in words; empty: none."),
    Field("in_ms", &RankSummary::call_ms, "For how long it has waited in it."),
    Field("waits_for", &RankSummary::waits_for,
          "The rank that holds this call up, in words; empty: none is known."),
    Field("waits_for_rank", blocking_rank, "Its number; -1: none is known."),
};

inline constexpr const char* kPathCounts = "How many of its paths are in that state.";
inline constexpr const char* kAsInReport = "As in the report.";

// A NIC.
inline constexpr std::tuple kLineFields{
    Field("name", &RankSummary::Line::name,
          "The NIC; `shm` (shared memory) or `lo` to ranks of the same host."),
    Field("up", &RankSummary::Line::up, "Whether it is up and has carrier."),
    Field("tx_bytes", &RankSummary::Line::sent, kAsInReport),
    Field("rx_bytes", &RankSummary::Line::received, kAsInReport),
    Field("delay_ms", &RankSummary::Line::delay_us, thousandth,
          "The delay of its best path; 0: unknown."),
    Field("loss_percent", &RankSummary::Line::loss_ppm, percent,
          "The share of lost packets, over its paths."),
    Field("paths_up", &RankSummary::Line::paths_up, kPathCounts),
    Field("paths_suspect", &RankSummary::Line::paths_suspect, kPathCounts),
    Field("paths_proving", &RankSummary::Line::paths_validating, kPathCounts),
    Field("paths_down", &RankSummary::Line::paths_down, kPathCounts),
    Field("drained", &RankSummary::Line::drained,
          "Whether an operator took it [out of service](drain.md)."),
    Field("paths_drained", &RankSummary::Line::paths_drained,
          "How many of its paths rest because a NIC at one of their ends is drained."),
    Field("idle", &RankSummary::Line::idle, words_of,
          "Why it has not served since the start; empty: it has."),
};

// A path that is not up though it should be.
inline constexpr std::tuple kTroubleFields{
    Field("peer", &RankSummary::Trouble::peer, "The other rank."),
    Field("nic", &RankSummary::Trouble::nic_name, "The local NIC."),
    Field("peer_nic", &RankSummary::Trouble::peer_nic_name, "The NIC at the other end."),
    Field("state", &RankSummary::Trouble::phase, kAsInReport),
    Field("since_ms", &RankSummary::Trouble::since_ms, "For how long it has not been up."),
    Field("cause", &RankSummary::Trouble::cause, "`down_cause` of the report."),
    Field("peer_cause", &RankSummary::Trouble::peer_cause, "`down_peer_cause` of the report."),
    Field("opens", &RankSummary::Trouble::dials, kAsInReport),
    Field("next_attempt_ms", &RankSummary::Trouble::next_attempt_ms, kAsInReport),
    Field("penalty", &RankSummary::Trouble::penalty_milli, thousandth, kAsInReport),
    Field("returns", &RankSummary::Trouble::returns, kAsInReport),
};

// A connected path through a third rank.
inline constexpr std::tuple kRelayFields{
    Field("peer", &RankSummary::Relay::peer, "The other rank."),
    Field("via", &RankSummary::Relay::via,
          "The rank that relays; -1 at the end that does not open the path, which knows only the "
          "host."),
    Field("via_host", &RankSummary::Relay::via_host, "Its host; empty: not known."),
    Field("state", shown_state, kAsInReport),
    Field("opens", &RankSummary::Relay::dials, kAsInReport),
    Field("tx_bytes", &RankSummary::Relay::sent, kAsInReport),
    Field("rx_bytes", &RankSummary::Relay::received, kAsInReport),
};

}  // namespace r2ccl::schema
