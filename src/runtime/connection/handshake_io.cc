#include "runtime/connection/handshake_io.h"

#include <array>
#include <cstring>
#include <span>

namespace r2ccl {

HandshakeIo::Progress HandshakeIo::fail(Status why) {
  error_ = std::move(why);
  return Progress::failed;
}

HandshakeIo::Progress HandshakeIo::pump() {
  while (true) {
    if (!write_output()) return Progress::failed;
    switch (handshake_->state()) {
      case Handshake::State::failed:
        return fail(handshake_->error());
      case Handshake::State::done:
        return handshake_->output().empty() ? Progress::done : Progress::running;
      case Handshake::State::running:
        break;
    }
    const bool was_writing = wants_write();
    if (!read_input()) return error_.ok() ? Progress::running : Progress::failed;
    if (was_writing && wants_write()) return Progress::running;
  }
}

bool HandshakeIo::write_output() {
  while (!handshake_->output().empty()) {
    const auto output = handshake_->output();
    const iovec slice{const_cast<std::byte*>(output.data()), output.size()};
    const IoResult result = connection_->write(std::span(&slice, 1));
    if (result.kind == IoKind::blocked) return true;
    if (result.kind != IoKind::progressed) {
      fail({Code::remote, "connection lost during the handshake"});
      return false;
    }
    handshake_->sent(result.bytes);
    has_spoken_ = true;
  }
  return true;
}

// Returns true when the handshake has taken new bytes.
bool HandshakeIo::read_input() {
  std::array<std::byte, 2048> buffer;
  const iovec slice{buffer.data(), buffer.size()};
  const IoResult result = connection_->read(std::span(&slice, 1));
  if (result.kind == IoKind::blocked) return false;
  if (result.kind != IoKind::progressed) {
    fail({Code::remote, "connection lost during the handshake"});
    return false;
  }
  const std::span<const std::byte> input(buffer.data(), result.bytes);
  const size_t used = handshake_->consume(input);
  leftover_.assign(input.begin() + static_cast<ptrdiff_t>(used), input.end());
  return true;
}

EstablishedConnection HandshakeIo::take() {
  Session session = handshake_->session();  // first, because the copy may run out of memory
  return {std::move(connection_), std::move(session), std::move(leftover_)};
}

}  // namespace r2ccl
