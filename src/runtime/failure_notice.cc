#include "runtime/failure_notice.h"

#include <utility>

#include "base/printable.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/rank_list_codec.h"

namespace r2ccl {

namespace {

// On the wire. The first two have the numbers of their codes.
enum class FailureKind : uint8_t { mismatch = 5, remote = 6, departed = 7 };

FailureKind kind_of(const Failure& failure) {
  if (failure.departed) return FailureKind::departed;
  return failure.why.code() == Code::invalid_usage ? FailureKind::mismatch : FailureKind::remote;
}

}  // namespace

std::vector<std::byte> encode(const Failure& failure) {
  const std::string text = printable_text(failure.why.message(), kFailureTextBytesMax);
  std::vector<std::byte> body;
  ByteWriter out(body);
  out.put(static_cast<uint8_t>(kind_of(failure)));
  put_ranks(out, failure.why.ranks());
  out.put_bytes(std::as_bytes(std::span(text)));
  return body;
}

Failure decode_failure(std::span<const std::byte> body) {
  if (body.empty()) return {{Code::remote, "a rank failed"}};
  ByteReader in(body);
  const auto kind = static_cast<FailureKind>(in.get<uint8_t>());
  const Code code = kind == FailureKind::mismatch ? Code::invalid_usage : Code::remote;
  std::vector<Rank> ranks = get_ranks(in);
  const Status why(code, printable_text(in.get_bytes(in.remaining()), kFailureTextBytesMax));
  return {why.with_ranks(std::move(ranks)), kind == FailureKind::departed};
}

}  // namespace r2ccl
