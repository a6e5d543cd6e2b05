// One path's lane: authenticated control frames over a small connection of its own. Frames are
// snapshots, so when the connection cannot take one now the caller simply makes a newer one later.
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

class ControlLane {
 public:
  ControlLane(std::unique_ptr<Connection> connection, const Session& session,
              std::vector<std::byte> leftover);

  Connection& connection() { return *connection_; }

  // False while an earlier frame is still being written: nothing is queued behind it.
  bool can_send() const { return out_.empty(); }
  // Fills in the lane sequence, writes as much as goes.
  IoResult send(ControlFrame& frame);
  // Writes the rest of a frame that did not go at once.
  IoResult flush();
  uint64_t frames_sent() const { return sent_; }

  struct Received {
    Status status;  // an error: corrupted() says whether the wire made it, or the peer
    IoResult end;   // why reading stopped
  };
  // One call of receive() reads no more before other connections get their turn. It ends with the
  // read that reaches either bound.
  static constexpr size_t kReadBytes = 16 * 1024;
  static constexpr size_t kBytesPerTurn = 128 * 1024;
  static constexpr size_t kFramesPerTurn = 64;
  // Appends frames that have arrived. `end` is `progressed` when the turn ended first: then more
  // may have arrived, and the poller says so.
  Received receive(std::vector<ControlFrame>& frames);
  uint64_t frames_received() const { return received_; }
  // The stream ended with a frame that the peer did not send, or not here: its bytes were changed,
  // repeated or left out on the way.
  bool corrupted() const { return corrupted_; }

 private:
  Status parse(std::vector<ControlFrame>& frames);
  Status corrupt(const char* what);

  std::unique_ptr<Connection> connection_;
  std::array<std::byte, kMacKeyBytes> send_key_;
  std::array<std::byte, kMacKeyBytes> receive_key_;
  HeaderTag send_tag_;
  HeaderTag receive_tag_;
  std::vector<std::byte> in_;
  size_t in_used_ = 0;
  std::vector<std::byte> out_;
  size_t out_done_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  bool corrupted_ = false;
};

}  // namespace r2ccl
