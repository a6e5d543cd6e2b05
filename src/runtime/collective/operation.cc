#include "runtime/collective/operation.h"

#include <utility>

#include "base/check.h"

namespace r2ccl {

using Kind = PendingCall::Kind;

Operation Operation::transfer(Kind kind, Rank peer, size_t bytes, DataType type, Done&& done) {
  R2CCL_CHECK(bytes % size_of(type) == 0);
  Operation operation;
  operation.kind = kind;
  operation.peer = peer;
  operation.key.count = bytes / size_of(type);
  operation.key.type = type;
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

Operation Operation::with_tag(int32_t wanted, size_t* into) && {
  R2CCL_CHECK(kind == Kind::send || kind == Kind::receive);
  kind = kind == Kind::send ? Kind::send_tagged : Kind::receive_tagged;
  tag = wanted;
  received = into;
  return std::move(*this);
}

}  // namespace r2ccl
