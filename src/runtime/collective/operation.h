// A call of the user with its memory and its end, as every layer from the communicator down takes
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/collective/executor.h"
#include "runtime/collective/pending_call.h"

namespace r2ccl {

struct Operation {
  // Called once, from inside a turn, a failure or the call that starts the operation.
  using Done = std::function<void(const Status&)>;

  PendingCall call;  // its number is not known yet
  // Null where this rank does not use them. A Send has the input alone, a Recv the output.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Scalar scalar{};             // as CollectiveCall
  size_t* received = nullptr;  // set to the elements of a tagged Recv before its end, unless null
  Done done;

  static Operation collective(CollectiveCall&& call);
  // A Send or Recv of whole elements; with_tag() makes it a tagged one.
  static Operation send(Rank peer, std::span<const std::byte> bytes, DataType type, Done done = {});
  static Operation receive(Rank peer, std::span<std::byte> bytes, DataType type, Done done = {});
  Operation with_tag(int32_t tag, size_t* into = nullptr) &&;

  // Returns the memory of a Send or Recv.
  std::span<const std::byte> sent_bytes() const { return {input, bytes()}; }
  std::span<std::byte> received_bytes() const { return {output, bytes()}; }

 private:
  size_t bytes() const { return call.key.count * size_of(call.key.type); }
  static Operation transfer(PendingCall::Kind kind, Rank peer, size_t bytes, DataType type,
                            Done&& done);
};

}  // namespace r2ccl
