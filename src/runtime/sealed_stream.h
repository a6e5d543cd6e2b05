// Whole messages over one connection that has passed its handshake, each under a MAC of the session
// and numbered, so that none can be forged, repeated, swapped or left out unnoticed.
//
//   type(1) 0(3) body bytes(4) number(8)  body  MAC(16)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "runtime/handshake_io.h"

namespace r2ccl {

class SealedStream {
 public:
  using Body = std::shared_ptr<const std::vector<std::byte>>;
  struct Message {
    uint8_t type = 0;
    std::vector<std::byte> body;
  };

  // `body_bytes_max` bounds what the peer may send in one message.
  SealedStream(EstablishedConnection established, uint32_t body_bytes_max);

  // The body is shared, not copied: one table goes to many ranks.
  void send(uint8_t type, Body body);
  bool wants_write() const { return !output_.empty(); }
  // Moves what can be moved now. An error means that the connection is of no more use; messages
  // that came before it are still handed out by next().
  Status pump();
  std::optional<Message> next();
  Connection& connection() { return *connection_; }

 private:
  static constexpr size_t kHeaderBytes = 16;
  struct Outgoing {
    std::array<std::byte, kHeaderBytes> header;
    Body body;
    std::array<std::byte, kMacBytes> mac;
    size_t sent = 0;
  };

  Status write_output();
  Status read_input();
  // Takes from the front of input_ what is whole.
  Status parse();

  std::unique_ptr<Connection> connection_;
  const Session session_;
  const uint32_t body_bytes_max_;
  std::deque<Outgoing> output_;
  uint64_t next_out_ = 0;
  uint64_t next_in_ = 0;
  std::vector<std::byte> input_;  // less than one message, plus one read
  std::deque<Message> received_;
};

}  // namespace r2ccl
