#include "transport/shm/shm_connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace r2ccl {

ShmConnection::ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                             const Endpoint& remote)
    : all_(std::move(all)), socket_(std::move(socket)), poll_id_(socket_.get()), remote_(remote) {
  receive_segment();
  all_->emplace(poll_id_, this);  // last: it would keep a pointer if the lines above failed
}

ShmConnection::ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                             const Endpoint& remote, ShmSegment segment)
    : all_(std::move(all)), socket_(std::move(socket)), poll_id_(socket_.get()), remote_(remote) {
  attach(std::move(segment), ShmEnd::dialing);
  all_->emplace(poll_id_, this);
}

ShmConnection::ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                             const Endpoint& remote, int error)
    : error_(error),
      all_(std::move(all)),
      socket_(std::move(socket)),
      poll_id_(socket_.get()),
      remote_(remote),
      state_(ConnectState::failed) {
  all_->emplace(poll_id_, this);
}

ShmConnection::~ShmConnection() {
  all_->erase(poll_id_);
  if (!socket_.valid()) {
    segment_.release();  // a forked child: neither the socket nor the mapping is there
  } else if (segment_.mapped()) {
    writer_.close();
  }
}

void ShmConnection::attach(ShmSegment segment, ShmEnd end) {
  segment_ = std::move(segment);
  writer_ = segment_.writer(end);
  reader_ = segment_.reader(end);
}

void ShmConnection::receive_segment() {
  const ReceivedFile received = receive_shm_file(socket_.get());
  if (received.error == EAGAIN) return;
  ShmSegment segment;
  const int error = received.error != 0 ? received.error : segment.map(received.file.get());
  if (error != 0) {
    fail(error);
  } else {
    attach(std::move(segment), ShmEnd::accepting);
  }
}

IoResult ShmConnection::fail(int error) {
  if (error_ == 0) error_ = error;
  return {.kind = IoKind::failed, .bytes = 0, .error = error_};
}

IoResult ShmConnection::read(std::span<const iovec> slices) {
  R2CCL_CHECK(!slices.empty());
  if (!socket_.valid()) return fail(EBADF);
  if (!segment_.mapped() && error_ == 0) receive_segment();
  if (!segment_.mapped()) return error_ != 0 ? fail(error_) : IoResult{};
  const bool last = ended() || error_ != 0;  // before the read: it then finds all bytes there are
  const ShmRingReader::Moved moved = reader_.read(slices);
  if (moved.index == ShmIndex::impossible) return fail(EPROTO);
  if (moved.wake) ring_bell();
  if (moved.bytes > 0) return {.kind = IoKind::progressed, .bytes = moved.bytes, .error = 0};
  return last ? fail(ECONNRESET) : IoResult{};
}

IoResult ShmConnection::write(std::span<const iovec> slices) {
  R2CCL_CHECK(!slices.empty());
  if (!socket_.valid()) return fail(EBADF);
  if (!segment_.mapped() && error_ == 0) receive_segment();
  if (error_ != 0) return fail(error_);
  if (!segment_.mapped()) return {};
  if (ended()) return fail(EPIPE);
  const ShmRingWriter::Moved moved = writer_.write(slices);
  if (moved.index == ShmIndex::impossible) return fail(EPROTO);
  if (moved.wake) ring_bell();
  if (moved.bytes == 0) return {};
  return {.kind = IoKind::progressed, .bytes = moved.bytes, .error = 0};
}

void ShmConnection::set_waiting(bool on, bool want_write) {
  if (!attached()) return;
  reader_.set_waiting(on);
  if (want_write) writer_.set_waiting(on);
}

void ShmConnection::on_socket_ready() {
  if (error_ != 0) return;
  if (!segment_.mapped()) return receive_segment();
  std::array<std::byte, 64> bells;  // the poller reports further ones again
  const ssize_t count = recv(socket_.get(), bells.data(), bells.size(), MSG_DONTWAIT);
  const bool blocked = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  if (count <= 0 && !blocked) peer_gone_ = true;
}

// A full socket holds bells that the other end has not taken, which will wake it as well.
void ShmConnection::ring_bell() {
  const std::byte bell{};
  const ssize_t sent = send(socket_.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) peer_gone_ = true;
}

}  // namespace r2ccl
