// A call of the user with its memory and its end, as every layer from the C API down takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "base/types.h"
#include "plan/plan.h"
#include "runtime/collective/pending_call.h"

namespace r2ccl {

struct Operation {
  // Called once, from inside a pass, a failure or the call that starts the operation; not called if
  // there is no memory to start it.
  using Done = std::function<void(const Status&)>;

  PlanKey key;  // a Send or Recv sets count and type; the executor sets in_place from the pointers
  // Null where this rank does not use them. A Send has the input alone, a Recv the output.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Done done;
  Scalar scalar{};     // of a pre-multiplied sum; this rank's own, so no part of the key
  std::string name{};  // the caller's, for messages; empty: none
  PendingCall::Kind kind = PendingCall::Kind::collective;
  Rank peer = kNoRank;         // of a Send or Recv
  int32_t tag = 0;             // of a tagged one
  size_t* received = nullptr;  // set to the elements of a tagged Recv before its end, unless null

  // A Send or Recv of whole elements; with_tag() makes it a tagged one.
  static Operation send(Rank peer, std::span<const std::byte> bytes, DataType type, Done done = {});
  static Operation receive(Rank peer, std::span<std::byte> bytes, DataType type, Done done = {});
  Operation with_tag(int32_t wanted, size_t* into = nullptr) &&;

  // Returns the details that a message shows, without the call's number.
  PendingCall pending() const { return {kind, key, peer, tag, 0, name}; }
  // Returns the memory of a Send or Recv.
  std::span<const std::byte> sent_bytes() const { return {input, bytes()}; }
  std::span<std::byte> received_bytes() const { return {output, bytes()}; }

 private:
  size_t bytes() const { return key.count * size_of(key.type); }
  static Operation transfer(PendingCall::Kind kind, Rank peer, size_t bytes, DataType type,
                            Done&& done);
};

}  // namespace r2ccl
