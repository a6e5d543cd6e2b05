#include "runtime/failure_notice.h"

#include "base/printable.h"
#include "runtime/notice.h"

namespace r2ccl {

std::vector<std::byte> encode_failure_notice(const Status& why) {
  const std::string text = printable_text(why.message(), kFailureTextBytesMax);
  const Code told = why.code() == Code::invalid_usage ? why.code() : Code::remote;
  std::vector<std::byte> body{static_cast<std::byte>(told)};
  const auto bytes = std::as_bytes(std::span(text));
  body.insert(body.end(), bytes.begin(), bytes.end());
  return make_notice(NoticeKind::failure, body);
}

Status decode_failure(std::span<const std::byte> body) {
  if (body.empty()) return {Code::remote, "a rank failed"};
  const bool usage = body[0] == static_cast<std::byte>(Code::invalid_usage);
  return {usage ? Code::invalid_usage : Code::remote,
          printable_text(body.subspan(1), kFailureTextBytesMax)};
}

}  // namespace r2ccl
