// A call of the user that may not be complete, with all that a message says of it.
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
  PlanKey key;          // of a Send or Recv only its count and type
  Rank peer = kNoRank;  // of a Send or Recv
  // From 1, among the collectives, or among the Sends to or the Recvs from the peer.
  uint64_t number = 0;
  friend bool operator==(const PendingCall&, const PendingCall&) = default;
};

// "AllReduce 11 (262144 float32, sum)", "Recv 5 (1000 float32) from rank 2".
std::string describe(const PendingCall& call);

}  // namespace r2ccl
