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
    Field("uptime_ms", &RankSummary::uptime_ms, "time since the communicator was begun")
        .metric("r2ccl_rank_uptime_seconds", "Time since the communicator was begun.", 1e-3),
    Field("operations", &RankSummary::operations, "operations that ended well on the rank")
        .metric("r2ccl_operations_total", "Operations that ended well on this rank."),
    Field("mirrored_bytes", &RankSummary::hedged,
          "payload sent once more while its path was overdue (hedged), over all paths")
        .metric("r2ccl_hedged_bytes_total", "Payload sent once more while its path was overdue."),
    Field("replayed_bytes", &RankSummary::retransmitted,
          "payload sent again because its path had died (retransmitted)")
        .metric("r2ccl_retransmitted_bytes_total",
                "Payload sent again because its path went down."),
    Field("verdicts", &RankSummary::verdicts, "how many it knows"),
    Field("corruptions", &RankSummary::corruptions, "the sum of its paths' `corruptions`"),
    Field("log_lines_dropped", &RankSummary::log_lines_dropped,
          "lines of its log that were lost: its reader was slow or gone, or the disk full")
        .metric("r2ccl_log_lines_dropped_total",
                "Lines of the log that were lost: its reader was slow or gone, or the disk full."),
    Field("error", &RankSummary::error,
          "the cause that ended the communicator, in words; empty while it works"),
    Field("in", &RankSummary::call,
          "the call that the rank has waited in for longest, in words; empty: none"),
    Field("in_ms", &RankSummary::call_ms, "for how long it has waited in it"),
    Field("waits_for", &RankSummary::waits_for,
          "the rank that holds this call up, in words; empty: none is known"),
    Field("waits_for_rank", blocking_rank, "its number; -1: none is known"),
};

// A NIC.
inline constexpr std::tuple kLineFields{
    Field("name", &RankSummary::Line::name,
          "the NIC; `shm` (shared memory) or `lo` to ranks of the same host"),
    Field("up", &RankSummary::Line::up, "whether it is up and has carrier"),
    Field("tx_bytes", &RankSummary::Line::sent, "sent, as in the report"),
    Field("rx_bytes", &RankSummary::Line::received, "received, likewise"),
    Field("delay_ms", &RankSummary::Line::delay_us, thousandth, "of its best path; 0: unknown"),
    Field("loss_percent", &RankSummary::Line::loss_ppm, percent,
          "the share of lost packets, over its paths"),
    Field("paths_up", &RankSummary::Line::paths_up, "how many of its paths are up"),
    Field("paths_suspect", &RankSummary::Line::paths_suspect, "are suspect"),
    Field("paths_proving", &RankSummary::Line::paths_validating, "are being validated"),
    Field("paths_down", &RankSummary::Line::paths_down, "are down"),
    Field("drained", &RankSummary::Line::drained,
          "whether an operator took it [out of service](drain.md)"),
    Field("paths_drained", &RankSummary::Line::paths_drained,
          "how many of its paths rest because a NIC at one of their ends is drained"),
    Field("idle", &RankSummary::Line::idle, words_of,
          "why it has not served since the start; empty: it has"),
};

// A path that is not up though it should be.
inline constexpr std::tuple kTroubleFields{
    Field("peer", &RankSummary::Trouble::peer, "the other rank"),
    Field("nic", &RankSummary::Trouble::nic_name, "the local NIC"),
    Field("peer_nic", &RankSummary::Trouble::peer_nic_name, "the NIC at the other end"),
    Field("state", &RankSummary::Trouble::phase, "as in the report"),
    Field("since_ms", &RankSummary::Trouble::since_ms, "for how long it has not been up"),
    Field("cause", &RankSummary::Trouble::cause, "`down_cause` of the report"),
    Field("peer_cause", &RankSummary::Trouble::peer_cause, "`down_peer_cause` of the report"),
    Field("opens", &RankSummary::Trouble::dials, "as in the report"),
    Field("next_attempt_ms", &RankSummary::Trouble::next_attempt_ms, "as in the report"),
    Field("penalty", &RankSummary::Trouble::penalty_milli, thousandth, "as in the report"),
    Field("returns", &RankSummary::Trouble::returns, "as in the report"),
};

// A connected path through a third rank.
inline constexpr std::tuple kRelayFields{
    Field("peer", &RankSummary::Relay::peer, "the other rank"),
    Field("via", &RankSummary::Relay::via,
          "the rank that relays; -1 at the end that does not open the path, which knows only the "
          "host"),
    Field("via_host", &RankSummary::Relay::via_host, "its host; empty: not known"),
    Field("state", shown_state, "as in the report"),
    Field("opens", &RankSummary::Relay::dials, "as in the report"),
    Field("tx_bytes", &RankSummary::Relay::sent, "as in the report"),
    Field("rx_bytes", &RankSummary::Relay::received, "as in the report"),
};

}  // namespace r2ccl::schema
