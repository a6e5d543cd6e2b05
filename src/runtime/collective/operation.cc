#include "runtime/collective/operation.h"

#include <utility>

#include "base/check.h"

namespace r2ccl {

using Kind = PendingCall::Kind;

Operation Operation::collective(CollectiveCall&& call) {
  Operation operation;
  operation.call.key = std::move(call.key);
  operation.call.name = std::move(call.name);
  operation.input = call.input;
  operation.output = call.output;
  operation.scalar = call.scalar;
  operation.done = std::move(call.done);
  return operation;
}

Operation Operation::transfer(Kind kind, Rank peer, size_t bytes, DataType type, Done&& done) {
  R2CCL_CHECK(bytes % size_of(type) == 0);
  Operation operation;
  operation.call.kind = kind;
  operation.call.peer = peer;
  operation.call.key.count = bytes / size_of(type);
  operation.call.key.type = type;
  operation.done = std::move(done);
  return operation;
}

Operation Operation::send(Rank peer, std::span<const std::byte> bytes, DataType type, Done done) {
  Operation operation = transfer(Kind::send, peer, bytes.size(), type, std::move(done));
  operation.input = bytes.data();
  return operation;
}

Operation Operation::receive(Rank peer, std::span<std::byte> bytes, DataType type, Done done) {
  Operation operation = transfer(Kind::receive, peer, bytes.size(), type, std::move(done));
  operation.output = bytes.data();
  return operation;
}

Operation Operation::with_tag(int32_t tag, size_t* into) && {
  call.kind = call.kind == Kind::send ? Kind::send_tagged : Kind::receive_tagged;
  call.tag = tag;
  received = into;
  return std::move(*this);
}

}  // namespace r2ccl
