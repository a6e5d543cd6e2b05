// Writes the frames of one data connection, one at a time, straight from the sender's memory.
//
// When the message of a half-written frame ends, its memory may be freed, but the writer must
// finish the frame to keep the stream readable. If another path delivered the message, the writer
// finishes with padding, which the receiver discards. If this end cancelled the message, the
// receiver does not know that and would take padding for data, so the writer copies the remainder
// first. If the memory cannot be read, the writer abandons the frame, and the connection carries no
// data any more.
#pragma once

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
  // `tag`: the tag of the outgoing headers.
  explicit FrameWriter(const HeaderTag& tag) : tag_(tag) {}

  const HeaderTag& tag() const { return tag_; }
  bool busy() const { return busy_; }
  bool abandoned() const { return abandoned_; }
  // Requires that no frame is under way. `payload` has header.payload_bytes bytes, or is empty for
  // a frame of padding. `state` has header.state_bytes bytes; the writer fills in the tag.
  // `in_place`: the payload goes by Connection::send(), so it may be read after the frame.
  void start(const DataHeader& header, std::span<const std::byte> payload,
             std::span<const std::byte> state = {}, bool in_place = false);
  // Writes until the frame is complete (progressed), or no more can be written (blocked, failed).
  IoResult flush(Connection& connection);
  // Stops reading this message's memory: finishes the frame with padding. Requires that the
  // receiver has the whole message.
  void finish_with_padding(ChannelId channel, MessageNo message);
  // Stops reading the memory of this channel's messages: copies the remainder of the frame. Returns
  // false when the memory cannot be read; then the frame is abandoned.
  [[nodiscard]] bool copy_remainder(ChannelId channel);
  // Returns the memory that flush() is still to read.
  std::span<const std::byte> unwritten() const;

 private:
  HeaderTag tag_;
  std::vector<std::byte> head_;  // the header and the carried state
  DataHeader header_;
  const std::byte* payload_ = nullptr;  // null: padding
  bool in_place_ = false;               // goes by Connection::send(), unless it is a copy
  std::vector<std::byte> remainder_;    // of the frame, as copied by copy_remainder()
  size_t written_ = 0;                  // bytes written of head and payload together
  bool busy_ = false;
  bool abandoned_ = false;
};

}  // namespace r2ccl
