// Writes the frames of one data connection, one at a time, straight from the sender's memory.
//
// When the message of a half-written frame ends its bytes may be freed, but the frame must still be
// finished for the stream to stay readable. If another path delivered the message, the rest comes
// from a pad, which the receiver discards. If it was cancelled here the receiver does not know, and
// would take a pad for data: the rest then comes from a copy. Where the memory cannot be read,
// there is neither: the frame is abandoned, and the connection carries no data any more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/wire/header_tag.h"
#include "protocol/wire/wire.h"
#include "transport/transport.h"

namespace r2ccl {

class FrameWriter {
 public:
  // `tag`: of the headers that go.
  explicit FrameWriter(const HeaderTag& tag) : tag_(tag) {}

  const HeaderTag& tag() const { return tag_; }
  bool busy() const { return busy_; }
  bool abandoned() const { return abandoned_; }
  // Legal when not busy. `payload` has header.payload_bytes bytes, or is empty for a frame of
  // padding.
  void start(const DataHeader& header, std::span<const std::byte> payload);
  // Writes until the frame is done (progressed), or nothing more can be written (blocked, failed).
  IoResult flush(Connection& connection);
  // From now on nothing is read from this message's memory. Legal when the receiver has it all.
  void pad(ChannelId channel, MessageNo message);
  // From now on nothing is read from the memory of this channel's messages. They may be read one
  // last time in here; false when they cannot be, and the frame is abandoned.
  [[nodiscard]] bool keep(ChannelId channel);
  // The memory that flush() is still to read.
  std::span<const std::byte> unwritten() const;

 private:
  HeaderTag tag_;
  std::array<std::byte, kDataHeaderBytes> header_bytes_{};
  DataHeader header_;
  const std::byte* payload_ = nullptr;  // null: padding
  std::vector<std::byte> kept_;         // what keep() has copied
  size_t written_ = 0;                  // of header and payload together
  bool busy_ = false;
  bool abandoned_ = false;
};

}  // namespace r2ccl
