// A call of the user that may be incomplete, with all details that a message shows.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "plan/plan.h"
#include "runtime/collective/blocker.h"

namespace r2ccl {

struct PendingCall {
  enum class Kind : uint8_t { collective, send, receive };
  Kind kind = Kind::collective;
  PlanKey key;          // a Send or Recv sets only count and type
  Rank peer = kNoRank;  // set for a Send or Recv
  // Counts from 1, among the collectives, or among the Sends to or the Recvs from the peer.
  uint64_t number = 0;
  std::string name;  // the caller's; empty: none
  friend bool operator==(const PendingCall&, const PendingCall&) = default;
};

// Returns "AllReduce 11 "layer3.grad" (262144 float32, sum)" or "Recv 5 (1000 float32) from rank
// 2".
std::string describe(const PendingCall& call);

}  // namespace r2ccl
