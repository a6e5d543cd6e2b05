// One path's control stream: authenticated control frames over a small connection of its own.
// Frames are snapshots. When the connection cannot take one now, the caller makes a newer one
// later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/wire/handshake.h"
#include "protocol/wire/header_tag.h"
#include "protocol/wire/wire.h"
#include "transport/transport.h"

namespace r2ccl {

class ControlStream {
 public:
  // All streams of one thread share `read_buffer`, at least kReadBytes, which hold nothing between
  // two calls, and `spare`, the memory of the frame that was last written whole.
  ControlStream(std::unique_ptr<Connection> connection, const Session& session,
                std::vector<std::byte> leftover, std::span<std::byte> read_buffer,
                std::vector<std::byte>& spare);

  Connection& connection() { return *connection_; }

  // False while an earlier frame is still being written. Nothing is queued behind it.
  bool can_send() const { return out_.empty(); }
  // Fills in the sequence number and writes as many bytes as the connection takes.
  IoResult send(ControlFrame& frame);
  // Writes the last frame of the stream behind an unfinished one, without memory: `memory` has room
  // for the frame and its MAC. After `blocked` the caller repeats the call with the same frame.
  IoResult send_last(ControlFrame& frame, std::vector<std::byte>& memory);
  // Writes the rest of an unfinished frame.
  IoResult flush();
  uint64_t frames_sent() const { return sent_; }

  struct Received {
    Status status;  // an error: corrupted() tells whether the wire or the peer made it
    IoResult end;   // the reason why reading stopped
  };
  // The bounds of one call of receive(), so that other connections get their turn. The call ends
  // with the read that reaches either bound.
  static constexpr size_t kReadBytes = 16 * 1024;
  static constexpr size_t kBytesPerTurn = 128 * 1024;
  static constexpr size_t kFramesPerTurn = 64;
  // Appends the frames that have arrived. `end` is `progressed` when a bound ended the call: then
  // more may have arrived, and the poller reports it.
  Received receive(std::vector<ControlFrame>& frames);
  uint64_t frames_received() const { return received_; }
  // True when the stream ended with a frame that the peer did not send here: the bytes were
  // changed, repeated or dropped on the way.
  bool corrupted() const { return corrupted_; }

 private:
  Status parse_all(std::span<const std::byte> bytes, std::vector<ControlFrame>& frames);
  // Parses the frames that are whole, and returns the number of their bytes.
  Result<size_t> parse(std::span<const std::byte> bytes, std::vector<ControlFrame>& frames);
  Status corrupt(const char* what);
  void seal(const ControlFrame& frame, std::vector<std::byte>& out) const;

  std::unique_ptr<Connection> connection_;
  std::array<std::byte, kMacKeyBytes> send_key_;
  std::array<std::byte, kMacKeyBytes> receive_key_;
  HeaderTag send_tag_;
  HeaderTag receive_tag_;
  std::span<std::byte> read_buffer_;
  std::vector<std::byte> partial_;  // the beginning of a frame whose rest has not arrived
  std::vector<std::byte>& spare_;
  std::vector<std::byte> out_;
  size_t out_done_ = 0;
  size_t last_done_ = 0;  // bytes of the last frame that were written
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  bool corrupted_ = false;
};

}  // namespace r2ccl
