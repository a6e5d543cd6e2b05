#include "runtime/link/notice.h"

#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

// This bit of the first byte says that context and subject follow; without it the context is 0. The
// receiver of a notice needs the subject where it keeps the notice for later.
constexpr uint8_t kContextFollows = 0x80;

}  // namespace

Notice make_notice(NoticeKind kind, uint64_t subject, std::span<const std::byte> body,
                   ContextId context) {
  Notice notice;
  notice.slot = {static_cast<uint8_t>(kind), subject, context.value()};
  notice.bytes.reserve(body.size() + 1 + sizeof context + sizeof subject);
  ByteWriter out(notice.bytes);
  const bool first = context == ContextId();
  out.put(static_cast<uint8_t>(static_cast<uint8_t>(kind) | (first ? 0 : kContextFollows)));
  if (!first) {
    out.put(context.value());
    out.put(subject);
  }
  out.put_bytes(body);
  return notice;
}

NoticeView view_notice(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto first = in.get<uint8_t>();
  NoticeView notice;
  notice.kind = static_cast<NoticeKind>(first & ~kContextFollows);
  if ((first & kContextFollows) != 0) {
    notice.context = ContextId(in.get<uint64_t>());
    notice.subject = in.get<uint64_t>();
  }
  if (in.bad() || notice.context > kContextMax) return {};
  notice.body = in.get_bytes(in.remaining());
  return notice;
}

}  // namespace r2ccl
