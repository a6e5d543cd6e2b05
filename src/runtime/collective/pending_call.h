// A call of the user that may be incomplete, with all details that a message shows.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "plan/plan.h"
#include "runtime/collective/blocker.h"

namespace r2ccl {

struct PendingCall {
  enum class Kind : uint8_t { collective, send, receive, send_tagged, receive_tagged };
  Kind kind = Kind::collective;
  PlanKey key;          // a Send or Recv, tagged or not, sets only count and type
  Rank peer = kNoRank;  // set for a Send or Recv
  int32_t tag = 0;      // set for a tagged one
  // Counts from 1, among the collectives, or among the calls of this kind to or from the peer.
  uint64_t number = 0;
  std::string name;  // the caller's; empty: none
  friend bool operator==(const PendingCall&, const PendingCall&) = default;
};

// Returns "AllReduce 11 "layer3.grad" (262144 float32, sum)", "Recv 5 (1000 float32) from rank 2"
// or "RecvTagged 5 (tag 7, up to 1000 float32) from rank 2".
std::string describe(const PendingCall& call);

}  // namespace r2ccl
