// The frames that ranks exchange about tagged messages (docs/wire.md). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "base/types.h"

namespace r2ccl {

struct TaggedFrame {
  enum class Kind : uint8_t {
    whole = 1,     // a message, with its payload
    announce = 2,  // a message whose payload waits for a grant
    grant = 3,     // a Recv has met the message `number` of the reader: its payload may come
    credit = 4,    // only `taken` counts
  };
  Kind kind = Kind::credit;
  DataType type = DataType::int32;  // of a message
  int32_t tag = 0;                  // of a message
  uint64_t number = 0;              // counts the messages to one peer, from 0
  uint64_t bytes = 0;               // size of the message
  uint64_t taken = 0;               // charge of all whole messages that Recvs here have taken
  std::span<const std::byte> payload = {};  // of a whole message
};

inline constexpr size_t kTaggedHeaderBytes = 32;
// The largest message that travels inside its frame: the link copies such a frame when it is
// posted.
inline constexpr uint64_t kTaggedWholeMax = limits::kBufferedSendBytesMax - kTaggedHeaderBytes;
// Returns the credit that a whole message takes: the memory that keeps it.
constexpr uint64_t charge_of(uint64_t bytes) {
  return bytes + limits::kTaggedMessageOverhead;
}

std::vector<std::byte> encode(const TaggedFrame& frame);
// Requires at least kTaggedHeaderBytes. The payload refers to `bytes`, which may be longer than the
// frame.
Result<TaggedFrame> decode_tagged_frame(std::span<const std::byte> bytes);

}  // namespace r2ccl
