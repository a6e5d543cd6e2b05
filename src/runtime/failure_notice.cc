#include "runtime/failure_notice.h"

#include "base/printable.h"
#include "runtime/link/notice.h"

namespace r2ccl {

namespace {

// On the wire. The first two have the numbers of their codes.
enum class FailureKind : uint8_t { mismatch = 5, remote = 6, departed = 7 };

FailureKind kind_of(const Failure& failure) {
  if (failure.departed) return FailureKind::departed;
  return failure.why.code() == Code::invalid_usage ? FailureKind::mismatch : FailureKind::remote;
}

}  // namespace

Notice encode_failure_notice(const Failure& failure) {
  const std::string text = printable_text(failure.why.message(), kFailureTextBytesMax);
  std::vector<std::byte> body{static_cast<std::byte>(kind_of(failure))};
  const auto bytes = std::as_bytes(std::span(text));
  body.insert(body.end(), bytes.begin(), bytes.end());
  return make_notice(NoticeKind::failure, body);
}

Failure decode_failure(std::span<const std::byte> body) {
  if (body.empty()) return {{Code::remote, "a rank failed"}};
  const auto kind = static_cast<FailureKind>(body[0]);
  const Code code = kind == FailureKind::mismatch ? Code::invalid_usage : Code::remote;
  return {{code, printable_text(body.subspan(1), kFailureTextBytesMax)},
          kind == FailureKind::departed};
}

}  // namespace r2ccl
