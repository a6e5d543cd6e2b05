#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/wire/wire.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

bool fuzz_data_header(std::span<const std::byte, kDataHeaderBytes> bytes) {
  const auto decoded = decode_data_header(bytes);
  if (!decoded.ok()) return false;
  const DataHeader& header = decoded.value().header;
  R2CCL_CHECK(header.payload_bytes <= limits::kChunkBytesMax);
  R2CCL_CHECK(header.state_bytes <= limits::kCarriedStateBytesMax);
  if (!decoded.value().known) return true;
  if (header.type == FrameType::chunk) {
    R2CCL_CHECK(header.chunk_bytes <= limits::kChunkBytesMax);
    R2CCL_CHECK(header.message_bytes <= limits::kMessageBytesMax);
    R2CCL_CHECK(header.offset <= header.message_bytes);
    R2CCL_CHECK(header.payload_bytes <= header.message_bytes - header.offset);
  }
  std::array<std::byte, kDataHeaderBytes> again;
  encode(header, again);
  const auto second = decode_data_header(again);
  R2CCL_CHECK(second.ok() && second.value().known && second.value().header == header);
  return true;
}

bool fuzz_control_body(std::span<const std::byte> bytes) {
  const auto decoded = decode_control_body(bytes);
  if (!decoded.ok()) return false;
  const ControlFrame& frame = decoded.value();
  R2CCL_CHECK(frame.paths.size() <= limits::kPathsMax);
  for (const NoticeReport& notice : frame.notices) {
    R2CCL_CHECK(notice.bytes.size() <= limits::kNoticeBytesMax);
  }
  for (const ChannelReport& channel : frame.channels) {
    for (const PartialMessage& partial : channel.partial) {
      R2CCL_CHECK(partial.bitmap.size() <= limits::kAckBitmapChunks / 8);
    }
  }
  std::vector<std::byte> again;
  encode(frame, again);
  // Nothing grows: a reader with a bounded body holds bounded memory.
  R2CCL_CHECK(again.size() <= kControlHeaderBytes + bytes.size());
  const auto second = decode_control_body(std::span(again).subspan(kControlHeaderBytes));
  R2CCL_CHECK(second.ok() && second.value() == frame);
  return true;
}

bool fuzz_carried_state(std::span<const std::byte> bytes) {
  const auto decoded = decode_carried_state(bytes);
  if (!decoded.ok()) return false;
  const ControlFrame& frame = decoded.value();
  R2CCL_CHECK(frame.notices.empty() && !frame.goodbye && frame.ping == 0 && frame.pong == 0);
  std::vector<std::byte> again;
  encode_carried_state(frame, again);
  R2CCL_CHECK(again.size() <= bytes.size());
  const auto second = decode_carried_state(again);
  R2CCL_CHECK(second.ok() && second.value() == frame);
  return true;
}

}  // namespace

bool fuzz_wire(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const auto mode = std::to_integer<unsigned>(input.front()) % 4;
  input = input.subspan(1);
  if (mode == 0 && input.size() >= kDataHeaderBytes) {
    return fuzz_data_header(input.first<kDataHeaderBytes>());
  }
  if (mode == 1 && input.size() >= kControlHeaderBytes) {
    const auto body = decode_control_header(input.first<kControlHeaderBytes>());
    R2CCL_CHECK(!body.ok() || body.value() <= limits::kControlBodyBytesMax);
    return body.ok();
  }
  if (mode == 3) return fuzz_carried_state(input);
  return mode == 2 && fuzz_control_body(input);
}

}  // namespace r2ccl
