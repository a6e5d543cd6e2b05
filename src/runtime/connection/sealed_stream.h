// Sends whole messages over one connection after its handshake, encrypted and authenticated with
// the keys of the session. Messages are numbered, so an attacker cannot read, forge, repeat, swap
// or drop one unnoticed. A message travels as records of bounded size: memory grows only with
// authenticated bytes.
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

  // `body_bytes_max` bounds the message that the peer may send. open() must follow.
  explicit SealedStream(uint32_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}
  SealedStream(EstablishedConnection established, uint32_t body_bytes_max);
  // Takes the connection over. It needs no memory, so a connection that a poller watches is not
  // closed by a failure.
  void open(EstablishedConnection established) noexcept;

  // Shares the body and does not copy it: one table goes to many ranks.
  void send(uint8_t type, Body body);
  void send(uint8_t type, LockedBytes body);
  bool wants_write() const { return !output_.empty() || !record_.empty(); }
  // Reads and writes as much as possible now. After an error the connection is useless; next()
  // still returns the messages that arrived before it.
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
    size_t sealed = 0;  // number of its bytes that are in records already

    std::span<const std::byte> bytes() const {
      return body != nullptr ? std::span<const std::byte>(*body) : secret.bytes();
    }
  };

  Status write_output();
  // Encrypts the next record of the first message.
  void make_record();
  Status read_input();
  // Takes the complete records from the front of input_.
  Status parse();
  Status open_record(std::span<const std::byte> header, std::span<const std::byte> sealed);

  std::unique_ptr<Connection> connection_;
  crypto::Wiped<32> send_key_;
  crypto::Wiped<32> receive_key_;
  const uint32_t body_bytes_max_;
  std::deque<Outgoing> output_;
  std::vector<std::byte> record_;  // the record being written
  size_t record_sent_ = 0;
  uint64_t next_out_ = 0;
  uint64_t next_in_ = 0;
  std::vector<std::byte> input_;  // less than one record, plus one read
  Message partial_;               // the message whose last record is still missing
  std::deque<Message> received_;
};

}  // namespace r2ccl
