// What one observation says by itself: shared by the parts of the judge.
#pragma once

#include <utility>

#include "protocol/blame.h"

namespace r2ccl {

// The observer's own host saw what happened to its NIC.
inline bool direct(DownCause cause) {
  return cause == DownCause::interface_down || cause == DownCause::carrier_lost;
}

// The NIC that this is first-hand evidence of, or the word of its own host; null: neither.
inline const NicName* subject(const Observation& o) {
  if (direct(o.cause)) return &o.near;
  return o.cause == DownCause::peer_notice && direct(o.peer_cause) ? &o.far : nullptr;
}

inline std::pair<NicName, NicName> pair_of(const NicName& a, const NicName& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

inline DownCause finest(const Observation& o) {
  return o.cause == DownCause::peer_notice && o.peer_cause != DownCause::none ? o.peer_cause
                                                                              : o.cause;
}

}  // namespace r2ccl
