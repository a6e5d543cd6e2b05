#include "nccl/meeting_messages.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl::nccl {
namespace {

Status malformed(const char* what) {
  return {Code::remote, std::string("malformed message of a connect: ") + what};
}

}  // namespace

Result<std::vector<std::byte>> encode(const Ask& ask) {
  const auto info = encode(ask.info);
  if (!info.ok()) return info.status();
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put_bytes(ask.process);
  out.put(ask.link);
  out.put(ask.listener);
  out.put_bytes(ask.attempt);
  out.put_bytes(info.value());
  R2CCL_CHECK(bytes.size() <= kMeetingBytesMax);
  return bytes;
}

Result<Ask> decode_ask(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Ask ask;
  std::ranges::copy(in.get_bytes(ask.process.size()), ask.process.begin());
  ask.link = in.get<uint64_t>();
  ask.listener = in.get<uint32_t>();
  std::ranges::copy(in.get_bytes(ask.attempt.size()), ask.attempt.begin());
  if (in.bad()) return malformed("it is cut short");
  auto info = decode_rank_info(in.get_bytes(in.remaining()));
  if (!info.ok()) return info.status();
  ask.info = std::move(info).value();
  return ask;
}

Result<LockedBytes> encode(const Answer& answer) {
  const auto info = encode(answer.info);
  if (!info.ok()) return info.status();
  R2CCL_CHECK(answer.token.bytes().size() == kRunTokenBytes);
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(answer.link);
  out.put(answer.connection);
  out.put_bytes(answer.token.bytes());
  out.put_bytes(info.value());
  R2CCL_CHECK(bytes.size() <= kMeetingBytesMax);
  LockedBytes sealed = LockedBytes::copy_of(bytes);
  crypto::wipe(bytes);
  return sealed;
}

Result<Answer> decode_answer(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Answer answer;
  answer.link = in.get<uint64_t>();
  answer.connection = in.get<uint32_t>();
  const auto token = in.get_bytes(kRunTokenBytes);
  if (in.bad()) return malformed("it is cut short");
  answer.token = LockedBytes::copy_of(token);
  auto info = decode_rank_info(in.get_bytes(in.remaining()));
  if (!info.ok()) return info.status();
  answer.info = std::move(info).value();
  return answer;
}

}  // namespace r2ccl::nccl
