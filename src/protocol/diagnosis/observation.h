// The evidence that a rank gives of a path which it has lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/diagnosis/nic_name.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

// One end's report that a path which had been up went down. With NICs without a name it reports
// that the peer's process has died (`connection_lost`), or that its host is cut off (`silent`).
struct Observation {
  Rank observer;
  Rank peer;
  NicName near;  // the observer's end
  NicName far;
  Incarnation incarnation;            // of the path: the same in both ends' reports of one loss
  DownCause cause = DownCause::none;  // the observer's evidence; none: it takes its report back
  DownCause peer_cause = DownCause::none;  // the peer's evidence, when `cause` is peer_notice
  uint64_t detected_us = 0;
  uint64_t retransmitted_bytes = 0;
  uint64_t stall_us = 0;
  uint64_t since_up_us = 0;  // time since the path came up, when the report is sent
  uint64_t age_us = 0;       // time since the path was lost, then
  TimeNs wall = 0;
  friend bool operator==(const Observation&, const Observation&) = default;
};

std::vector<std::byte> encode(const Observation& observation);
Result<Observation> decode_observation(Rank observer, std::span<const std::byte> bytes);

inline NicPair pair_of(const Observation& o) {
  return pair_of(o.near, o.far);
}

// Returns the NIC that this is first-hand evidence of, or the word of its own host; null: neither.
inline const NicName* subject(const Observation& o) {
  if (direct(o.cause)) return &o.near;
  return o.cause == DownCause::peer_notice && direct(o.peer_cause) ? &o.far : nullptr;
}

// Returns whether both report the loss of the same incarnation of a path, from one end or from
// both.
inline bool is_of_same_loss(const Observation& a, const Observation& b) {
  const bool same_link = std::minmax(a.observer, a.peer) == std::minmax(b.observer, b.peer);
  return same_link && pair_of(a) == pair_of(b) && a.incarnation == b.incarnation;
}

// Returns the time for which a field of a report stands.
inline TimeNs from_us(uint64_t us) {
  return static_cast<TimeNs>(std::min<uint64_t>(us, kNever / kMicrosecond)) * kMicrosecond;
}

// Returns whether bytes were wrong. That is a fault of the network between two NICs at most, if not
// of a rank.
inline bool is_of_bytes(DownCause cause) {
  return cause == DownCause::corrupted || cause == DownCause::protocol;
}

// Returns the weight of the evidence: a direct report weighs most, then the word of a rank that saw
// the failure, then that of a rank that was told.
inline int weight(const Observation& o) {
  if (direct(o.cause)) return 3;
  if (subject(o) != nullptr) return 2;
  return o.cause == DownCause::peer_notice ? 0 : 1;
}

inline DownCause finest(const Observation& o) {
  return o.cause == DownCause::peer_notice && o.peer_cause != DownCause::none ? o.peer_cause
                                                                              : o.cause;
}

}  // namespace r2ccl
