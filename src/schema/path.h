// A path as the report, the C API and the metrics show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "base/ids.h"
#include "schema/field.h"
#include "schema/forms.h"

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
constexpr const char* to_string(ShownState state) {
  constexpr const char* kWords[] = {"down", "proving", "up", "suspect", "drained", "standby"};
  return kWords[static_cast<size_t>(state)];
}

struct PathInfo {
  Rank peer;
  std::string peer_host;
  std::string nic;
  std::string peer_nic;  // as `nic`: "shm", "lo" and "oob" are the same at both ends
  std::string remote;
  ShownState state = ShownState::down;
  bool drained = false;
  uint64_t incarnation = 0;
  double megabytes_per_second = 0;  // measured, or the first guess
  uint64_t bytes_per_second = 0;    // 0: not measured yet
  TimeNs base_delay = 0;
  // How much longer its one-way delay is than the shortest one of the link's data paths that are
  // up; negative: not known.
  TimeNs one_way_excess = -1;
  uint64_t window_bytes = 0;
  TimeNs round_trip = 0;  // its control stream has it; 0: not measured yet
  uint32_t loss_ppm = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_lost = 0;
  uint64_t sent = 0;  // as Path::total_bytes_sent()
  uint64_t received = 0;
  uint64_t retransmitted = 0;  // payload that was sent again because this path failed
  TimeNs state_age = 0;
  uint64_t suspicions = 0;
  uint64_t downs = 0;
  uint64_t returns = 0;
  uint64_t corruptions = 0;
  TimeNs down_at = -1;  // by the wall clock; negative: never
  const char* down_cause = "";
  const char* down_peer_cause = "";
  std::string down_why;
  double penalty = 0;
  bool opens = false;
  TimeNs next_attempt = 0;  // from now
  std::string attempt;
};

namespace schema {

inline constexpr std::tuple kPathFields{
    Field("peer", &PathInfo::peer, "The other rank."),
    Field("nic", &PathInfo::nic,
          "The local NIC; `shm` (shared memory) or `lo` between ranks of one host, `oob` for the "
          "control stream over the management network, `relay` through a third rank: listed once "
          "it has been used ([decision 31](decisions/0031-a-third-rank-relays.md))."),
    Field("peer_nic", &PathInfo::peer_nic,
          "The NIC at the other end; as `nic` where that is no NIC."),
    Field("remote", &PathInfo::remote,
          "Address and port of the other end, or of the rank that relays; `shm` and a number in "
          "shared memory."),
    Field("state", &PathInfo::state,
          "`down`, `proving` (connected, being validated), `up`, `suspect` (overdue: carries "
          "nothing new but probes), `drained` (at rest because a NIC at one of its ends is "
          "drained, connected or not), `standby` (the path over lo while shared memory is up; the "
          "relay path while another path is).")
        .metric({"r2ccl_path_state", "Always 1; the label state has the path's present state.", 0}),
    Field("drained", &PathInfo::drained,
          "A NIC at one of its ends is drained; with a `state` other than `drained` it is in use "
          "all the same, because its link has no other."),
    Field("incarnation", &PathInfo::incarnation,
          "Grows by at least one each time the path is connected."),
    Field("rate_MBps", &PathInfo::megabytes_per_second, "Its delivery rate, in 10^6 bytes/s.")
        .metric({"r2ccl_path_rate_bytes_per_second", "The path's measured delivery rate.", 1e6,
                 "rate_measured"}),
    Field("rate_measured", &PathInfo::bytes_per_second, is_positive,
          "Whether that is a measured rate; else it is the first guess."),
    Field("base_delay_ms", &PathInfo::base_delay, to_ms,
          "The time from sending to acknowledgement on the empty path (min_rtt)."),
    Field("one_way_excess_ms", &PathInfo::one_way_excess, known_ms,
          "The path's one-way delay less that of the quickest path to this peer.")
        .metric("r2ccl_path_one_way_excess_seconds", 1e-3),
    Field("window_bytes", &PathInfo::window_bytes, "The bytes that may be in flight on it."),
    Field("lane_rtt_ms", &PathInfo::round_trip, to_ms,
          "Smoothed round trip of the path's control stream.")
        .metric("r2ccl_path_round_trip_seconds", 1e-3, "lane_rtt_ms"),
    Field("loss_percent", &PathInfo::loss_ppm, percent,
          "The share of lost packets: this end sent them in the last 4 s on both connections, the "
          "kernel sent them again, and the peer had not got them; 0 also where the transport "
          "cannot tell.")
        .metric({"r2ccl_path_loss_ratio", "Share of lost packets among those sent in the last 4 s.",
                 1e-2}),
    Field("packets_sent", &PathInfo::packets_sent,
          "Packets sent on the path, by the kernel's count.")
        .metric("r2ccl_path_packets_sent_total"),
    Field("packets_lost", &PathInfo::packets_lost,
          "Packets lost on the path, by the kernel's count.")
        .metric("r2ccl_path_packets_lost_total"),
    Field("tx_bytes", &PathInfo::sent, "Sent over the path's data connection.")
        .metric("r2ccl_path_transmit_bytes_total"),
    Field("rx_bytes", &PathInfo::received, "Received over the path's data connection.")
        .metric("r2ccl_path_receive_bytes_total"),
    Field("replayed_bytes", &PathInfo::retransmitted,
          "Payload sent again because this path went down.")
        .metric("r2ccl_path_retransmitted_bytes_total"),
    Field("state_ms", &PathInfo::state_age, to_ms, "Time since the path's state began.")
        .metric("r2ccl_path_state_seconds", 1e-3),
    Field("suspicions", &PathInfo::suspicions, "How often the path was suspect.")
        .metric("r2ccl_path_suspicions_total"),
    Field("downs", &PathInfo::downs, "How often the path went down after it had been up.")
        .metric("r2ccl_path_downs_total"),
    Field("returns", &PathInfo::returns, "How often the path was up again.")
        .metric("r2ccl_path_returns_total"),
    Field("corruptions", &PathInfo::corruptions,
          "Connections of the path that ended by bytes that were changed on the way.")
        .metric("r2ccl_path_corruptions_total"),
    Field("down_at", &PathInfo::down_at, utc_if_ever,
          "When it last went down, UTC; empty: it never did."),
    Field("down_cause", &PathInfo::down_cause,
          "The cause that this end saw then, as a verdict's `kind`. Three kinds have no verdict: "
          "`peer_notice`; `corrupted` (bytes were changed, repeated or left out on the way; three "
          "of these in a minute are the verdict `tampered`); `protocol` (the peer made an "
          "impossible statement)."),
    Field("down_peer_cause", &PathInfo::down_peer_cause,
          "For a `peer_notice`: the cause that the peer saw."),
    Field("down_why", &PathInfo::down_why, "The cause in words."),
    Field("penalty", &PathInfo::penalty,
          "For its failures: 1 for one just now, half of that 30 s later; beyond 2.5 it has to "
          "wait."),
    Field("opens", &PathInfo::opens, "Whether this end opens it; else the peer does."),
    Field("next_attempt_ms", &PathInfo::next_attempt, to_ms,
          "Time until this end tries again, if it is down."),
    Field("attempt", &PathInfo::attempt,
          "Why the last attempt to bring it up failed; empty once it is up."),
};

}  // namespace schema
}  // namespace r2ccl
