// Drives one handshake over one connection, at either end and for any purpose.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "protocol/wire/handshake.h"
#include "transport/transport.h"

namespace r2ccl {

// An authenticated connection and the bytes that were read beyond its handshake.
struct EstablishedConnection {
  std::unique_ptr<Connection> connection;
  Session session;
  std::vector<std::byte> leftover;
  NicId came_by = kNoNic;  // at the accepting end: the NIC of the listener
};

class HandshakeIo {
 public:
  HandshakeIo(std::unique_ptr<Connection> connection, std::unique_ptr<Handshake> handshake)
      : connection_(std::move(connection)), handshake_(std::move(handshake)) {}

  enum class Progress : uint8_t { running, done, failed };
  // Reads and writes as much as possible now.
  Progress pump();

  bool wants_write() const { return !handshake_->output().empty(); }
  // Returns true once this end has said something. The accepting end speaks second: it has answered
  // a whole greeting then.
  bool has_spoken() const { return has_spoken_; }
  Connection& connection() { return *connection_; }
  // Requires the state `failed`. Does not name the peer: the dialing end knows it, and the
  // accepting end asks the connection.
  const Status& error() const { return error_; }
  // Requires the state `done`; callable once.
  EstablishedConnection take();

 private:
  Progress fail(Status why);
  bool write_output();
  bool read_input();

  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Handshake> handshake_;
  std::vector<std::byte> leftover_;
  Status error_;
  bool has_spoken_ = false;
};

}  // namespace r2ccl
