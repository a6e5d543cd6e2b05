// A rank's summary of its state, for another rank that asks. It fits into one notice, however many
// paths the rank has. It has no names of NICs and hosts, because every rank has every other's rank
// info.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"
#include "protocol/wire/wire.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/collective/blocker.h"
#include "runtime/engine/idle_nics.h"
#include "runtime/query/reachability.h"

namespace r2ccl {

// Stands for shared memory, to ranks of the same host.
inline constexpr NicId kShmNic{UINT16_MAX - 1};

struct RankSummary {
  // A data NIC of the rank, summed over its paths.
  struct Line {
    NicId nic;  // to ranks of the same host: kShmNic, or kNoNic for the loopback interface
    bool up = true;
    uint64_t sent = 0;
    uint64_t received = 0;
    uint32_t delay_us = 0;  // the shortest of its usable paths; 0: unknown
    uint32_t paths_up = 0;
    uint32_t paths_suspect = 0;
    uint32_t paths_validating = 0;
    uint32_t paths_down = 0;
    bool drained = false;              // an operator took it out of service
    uint32_t paths_drained = 0;        // paths at rest because an end's NIC is drained
    uint32_t loss_ppm = 0;             // packets lost of a million sent recently, over its paths
    IdleCause idle = IdleCause::none;  // why it has not served since the start; none: it has
    std::string name{};                // empty until it is shown, as all names here
    friend bool operator==(const Line&, const Line&) = default;
  };
  // A path that is not up, and should be.
  struct Trouble {
    Rank peer;
    NicId nic;
    NicId peer_nic;
    PathPhase phase = PathPhase::down;
    DownCause cause = DownCause::none;
    DownCause peer_cause = DownCause::none;  // cause seen by the peer, if it reported first
    bool dials = false;                      // this end opens it
    uint32_t since_ms = 0;                   // time in this state
    uint32_t next_attempt_ms = 0;            // at the end that opens it
    uint32_t penalty_milli = 0;              // one recent failure: 1000
    uint32_t returns = 0;                    // how often it came back
    std::string nic_name{};
    std::string peer_nic_name{};
    friend bool operator==(const Trouble&, const Trouble&) = default;
  };
  // A connected path to a rank of another host that goes through a rank of a third one.
  struct Relay {
    Rank peer;
    // The rank that relays, at the end that opens the path. The other end knows only its host, so
    // this is any rank of that one. kNoRank: not known.
    Rank via = kNoRank;
    bool dials = false;    // this end opens it
    bool standby = false;  // an ordinary path has returned
    PathPhase phase = PathPhase::down;
    uint64_t sent = 0;
    uint64_t received = 0;
    std::string via_host{};
    friend bool operator==(const Relay&, const Relay&) = default;
  };

  uint64_t uptime_ms = 0;
  uint64_t operations = 0;  // operations that ended well
  uint64_t hedged = 0;
  uint64_t retransmitted = 0;
  uint32_t verdicts = 0;
  std::string error;  // the error that ended the communicator
  std::string call;   // description of the call that has waited longest; empty: none
  uint32_t call_ms = 0;
  Blocker blocker;        // the blocker of that call
  std::string waits_for;  // its description
  std::vector<Line> nics;
  std::vector<Trouble> troubles;  // paths that are down come first
  uint32_t troubles_left_out = 0;
  std::vector<Relay> relays;  // by peer
  uint32_t relays_left_out = 0;
  uint32_t corruptions = 0;  // connections that ended by bytes that were changed on the way
  uint32_t log_lines_dropped = 0;
  friend bool operator==(const RankSummary&, const RankSummary&) = default;
};

inline constexpr size_t kSummaryLinesMax = limits::kNicsMax + 2;
inline constexpr size_t kSummaryTroublesMax = 18;
inline constexpr size_t kSummaryErrorBytesMax = 236;
inline constexpr size_t kSummaryCallBytesMax = 80;

// Truncates each list and text to its bound and records the number of omitted entries. The relays
// get the room that the other lists leave.
std::vector<std::byte> encode(RankSummary summary);
// Ignores bytes that a later version appends.
Result<RankSummary> decode_rank_summary(std::span<const std::byte> bytes);

// By rank.
using RankTable = std::span<const RankInfo* const>;

// Returns one entry of the job's status: the rank of `rank_table[rank]` at `host`, and its summary
// if it answered.
std::string member_json(RankTable rank_table, Rank rank, const std::string& host,
                        Reachability reachability, const RankSummary* summary);

}  // namespace r2ccl
