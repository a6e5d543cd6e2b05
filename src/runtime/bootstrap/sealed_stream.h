// Whole messages over one connection that has passed its handshake, encrypted and authenticated
// with the keys of the session, and numbered, so that none can be read, forged, repeated, swapped
// or left out unnoticed. A message travels as records of bounded size: memory grows only with what
// the peer has proved to have sent.
//
//   record: type(1) last(1) 0(2) bytes(4) number(8)  those bytes, encrypted  tag(16)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "protocol/wire/locked_bytes.h"
#include "runtime/connection/handshake_io.h"

namespace r2ccl {

class SealedStream {
 public:
  using Body = std::shared_ptr<const std::vector<std::byte>>;
  // A received message, which may hold a secret.
  struct Message {
    Message() = default;
    Message(Message&&) = default;
    Message& operator=(Message&&) = default;
    ~Message() { crypto::wipe(body); }
    uint8_t type = 0;
    std::vector<std::byte> body;
  };

  // `body_bytes_max` bounds what the peer may send in one message.
  SealedStream(EstablishedConnection established, uint32_t body_bytes_max);

  // The body is shared, not copied: one table goes to many ranks.
  void send(uint8_t type, Body body);
  void send(uint8_t type, LockedBytes body);
  bool wants_write() const { return !output_.empty() || !record_.empty(); }
  // Moves what can be moved now. An error means that the connection is of no more use; messages
  // that came before it are still handed out by next().
  Status pump();
  std::optional<Message> next();
  Connection& connection() { return *connection_; }

 private:
  static constexpr size_t kHeaderBytes = 16;
  static constexpr size_t kRecordBytesMax = 16 * 1024;
  // One of the bodies is set.
  struct Outgoing {
    uint8_t type = 0;
    Body body;
    LockedBytes secret;
    size_t sealed = 0;  // bytes of it that are in records already

    std::span<const std::byte> bytes() const {
      return body != nullptr ? std::span<const std::byte>(*body) : secret.bytes();
    }
  };

  Status write_output();
  // Makes the next record of the first message.
  void make_record();
  Status read_input();
  // Takes from the front of input_ what is whole.
  Status parse();
  Status open_record(std::span<const std::byte> header, std::span<const std::byte> sealed);

  std::unique_ptr<Connection> connection_;
  crypto::Wiped<32> send_key_;
  crypto::Wiped<32> receive_key_;
  const uint32_t body_bytes_max_;
  std::deque<Outgoing> output_;
  std::vector<std::byte> record_;  // what is being written
  size_t record_sent_ = 0;
  uint64_t next_out_ = 0;
  uint64_t next_in_ = 0;
  std::vector<std::byte> input_;  // less than one record, plus one read
  Message partial_;               // of which some records are here
  std::deque<Message> received_;
};

}  // namespace r2ccl
