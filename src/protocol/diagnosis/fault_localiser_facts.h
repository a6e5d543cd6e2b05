// The facts that follow from one observation by itself, for the parts of the fault localiser.
#pragma once

#include <algorithm>
#include <utility>

#include "protocol/diagnosis/fault_localiser.h"

namespace r2ccl {

inline bool touches(const Observation& o, const NicName& nic) {
  return o.near == nic || o.far == nic;
}

// Returns the NIC that this is first-hand evidence of, or the word of its own host; null: neither.
inline const NicName* subject(const Observation& o) {
  if (direct(o.cause)) return &o.near;
  return o.cause == DownCause::peer_notice && direct(o.peer_cause) ? &o.far : nullptr;
}

inline bool is_about(const Observation& o, const NicName& nic) {
  return subject(o) != nullptr && *subject(o) == nic;
}

inline std::pair<NicName, NicName> pair_of(const NicName& a, const NicName& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

inline bool is_of(const Observation& o, const NicName& a, const NicName& b) {
  return touches(o, a) && touches(o, b);
}

// Returns whether both report the loss of the same incarnation of a path, from one end or from
// both.
inline bool is_of_same_loss(const Observation& a, const Observation& b) {
  const bool same_link = std::minmax(a.observer, a.peer) == std::minmax(b.observer, b.peer);
  return same_link && is_of(a, b.near, b.far) && a.incarnation == b.incarnation;
}

inline TimeNs since_up_ns(const Observation& o) {
  return static_cast<TimeNs>(std::min<uint64_t>(o.since_up_us, kNever / kMicrosecond)) *
         kMicrosecond;
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
