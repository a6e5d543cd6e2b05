#include "runtime/point_to_point/tagged_frame.h"

#include <algorithm>

#include "protocol/wire/byte_io.h"

namespace r2ccl {

std::vector<std::byte> encode(const TaggedFrame& frame) {
  std::vector<std::byte> bytes;
  bytes.reserve(kTaggedHeaderBytes + frame.payload.size());
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(frame.kind));
  out.put(static_cast<uint8_t>(frame.type));
  out.put(uint16_t{0});
  out.put(static_cast<uint32_t>(frame.tag));
  out.put(frame.number);
  out.put(frame.bytes);
  out.put(frame.taken);
  out.put_bytes(frame.payload);
  return bytes;
}

Result<TaggedFrame> decode_tagged_frame(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  TaggedFrame frame;
  const auto kind = in.get<uint8_t>();
  frame.kind = static_cast<TaggedFrame::Kind>(kind);
  frame.type = static_cast<DataType>(in.get<uint8_t>());
  const auto zero = in.get<uint16_t>();
  frame.tag = static_cast<int32_t>(in.get<uint32_t>());
  frame.number = in.get<uint64_t>();
  frame.bytes = in.get<uint64_t>();
  frame.taken = in.get<uint64_t>();
  const bool typed = std::ranges::find(kDataTypes, frame.type) != kDataTypes.end();
  if (in.bad() || zero != 0 || !typed || kind < static_cast<uint8_t>(TaggedFrame::Kind::whole) ||
      kind > static_cast<uint8_t>(TaggedFrame::Kind::credit)) {
    return Status(Code::remote, "sends a malformed frame of tagged messages");
  }
  if (frame.kind != TaggedFrame::Kind::whole) return frame;
  if (frame.bytes > kTaggedWholeMax || frame.bytes > in.remaining()) {
    return Status(Code::remote, "sends a tagged message that its frame does not hold");
  }
  frame.payload = in.get_bytes(frame.bytes);
  return frame;
}

}  // namespace r2ccl
