// The observations that the tests of the fault localiser make.
#pragma once

#include <string>
#include <vector>

#include "protocol/diagnosis/fault_localiser.h"

namespace r2ccl {

inline NicName nic(uint32_t host, int index = 0) {
  return {host, "nic" + std::to_string(index)};
}

// Returns an observation. Rank r runs on host r. `wall` orders reports.
inline Observation seen(uint32_t observer, uint32_t peer, DownCause cause, int index = 0,
                        TimeNs wall = 100) {
  Observation o;
  o.observer = Rank(static_cast<int32_t>(observer));
  o.peer = Rank(static_cast<int32_t>(peer));
  o.near = nic(observer, index);
  o.far = nic(peer, index);
  o.cause = cause;
  o.wall = wall;
  o.detected_us = 1000;
  o.retransmitted_bytes = 10;
  o.stall_us = 5;
  o.since_up_us = 60'000'000;
  return o;
}

inline Observation told(uint32_t observer, uint32_t peer, DownCause peer_cause, int index = 0) {
  Observation o = seen(observer, peer, DownCause::peer_notice, index);
  o.peer_cause = peer_cause;
  return o;
}

// Returns `count` hosts with four NICs each.
inline std::vector<size_t> hosts(size_t count) {
  return std::vector<size_t>(count, 4);
}

}  // namespace r2ccl
