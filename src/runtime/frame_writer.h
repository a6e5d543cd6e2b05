// Writes the frames of one data connection, one at a time, straight from the sender's memory.
//
// When the message of a half-written frame ends (another path delivered it, or it was cancelled)
// its bytes may be freed, but the frame must still be finished for the stream to stay readable: the
// rest then comes from a pad, which the receiver discards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/wire.h"
#include "transport/transport.h"

namespace r2ccl {

class FrameWriter {
 public:
  bool busy() const { return busy_; }
  // Legal when not busy. `payload` has header.payload_bytes bytes, or is empty for a frame of
  // padding.
  void start(const DataHeader& header, std::span<const std::byte> payload);
  // Writes until the frame is done (progressed), or nothing more can be written (blocked, failed).
  IoResult flush(Connection& connection);
  // From now on nothing is read from this message's memory.
  void pad(ChannelId channel, MessageNo message);
  void pad(ChannelId channel);

 private:
  std::array<std::byte, kDataHeaderBytes> header_bytes_{};
  DataHeader header_;
  const std::byte* payload_ = nullptr;  // null: padding
  size_t written_ = 0;                  // of header and payload together
  bool busy_ = false;
};

}  // namespace r2ccl
