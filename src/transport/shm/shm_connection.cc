#include "transport/shm/shm_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/shm/shm_socket.h"

namespace r2ccl {
ShmConnection::ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                             const Endpoint& remote)
    : all_(std::move(all)), socket_(std::move(socket)), poll_id_(socket_.get()), remote_(remote) {
  receive_segment();
  all_->live.emplace(poll_id_, this);  // last: it would keep a pointer if the lines above failed
}

ShmConnection::ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                             const Endpoint& remote, ShmSegment segment)
    : all_(std::move(all)), socket_(std::move(socket)), poll_id_(socket_.get()), remote_(remote) {
  attach(std::move(segment), ShmEnd::dialing);
  all_->live.emplace(poll_id_, this);
}

ShmConnection::ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket,
                             const Endpoint& remote, int error)
    : error_(error),
      all_(std::move(all)),
      socket_(std::move(socket)),
      poll_id_(socket_.get()),
      remote_(remote),
      state_(ConnectState::failed) {
  all_->live.emplace(poll_id_, this);
}

ShmConnection::~ShmConnection() {
  all_->live.erase(poll_id_);
  if (!socket_.valid()) {
    segment_.release();  // a forked child: neither the socket nor the mapping is there
  } else if (segment_.mapped()) {
    outgoing_.revoke();
    writer_.close();
  }
}

void ShmConnection::attach(ShmSegment segment, ShmEnd end) {
  segment_ = std::move(segment);
  writer_ = segment_.writer(end);
  reader_ = segment_.reader(end);
  outgoing_ = segment_.reference_writer(end);
  incoming_ = segment_.reference_reader(end);
  end_ = end;
  if (end == ShmEnd::accepting) segment_.introduce(end);
  meet_peer();
}

// Tries to read the other process's memory, and tells it whether that works.
void ShmConnection::meet_peer() {
  if (met_peer_) return;
  if (!all_->fetches) {
    met_peer_ = true;
    return;
  }
  const auto memory = segment_.peer_memory(end_, peer_process(socket_.get()));
  if (!memory) return;
  met_peer_ = true;
  const int error = memory->probe();
  if (error == 0) return incoming_.set_memory(*memory);
  all_->fetches = false;
  R2CCL_LOG(info,
            "shared memory copies each byte twice: a process may not read another's memory (%s)",
            std::strerror(error));
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

// Fetches from the next reference, which has `left` bytes left. Returns 0 or an errno value.
int ShmConnection::fetch(std::span<const iovec> slices, size_t left, size_t& bytes) {
  std::array<iovec, PeerMemory::kSlices> into;
  size_t count = 0;
  for (; count < std::min(slices.size(), into.size()) && bytes < left; ++count) {
    into[count] = slices[count];
    into[count].iov_len = std::min(slices[count].iov_len, left - bytes);
    bytes += into[count].iov_len;
  }
  return incoming_.fetch(std::span(into).first(count), bytes);
}

// Memory of a live process may be unreadable: a device's, say. So that no other connection fails as
// well, this process goes back to the rings.
IoResult ShmConnection::fail_fetch(int error) {
  if (error != ECONNRESET && error != ESRCH) {
    all_->fetches = false;
    for (const auto& [id, each] : all_->live) {
      if (each->attached()) each->incoming_.refuse();
    }
    R2CCL_LOG(warn, "cannot read the memory of another rank's process: %s", std::strerror(error));
  }
  return fail(error == ESRCH ? ECONNRESET : error);
}

IoResult ShmConnection::read(std::span<const iovec> slices) {
  R2CCL_CHECK(!slices.empty());
  if (!socket_.valid()) return fail(EBADF);
  if (!segment_.mapped() && error_ == 0) receive_segment();
  if (!segment_.mapped()) return error_ != 0 ? fail(error_) : IoResult{};
  if (!met_peer_) meet_peer();
  const bool last = ended() || error_ != 0;  // before the read: it then finds all bytes there are
  reader_.look();
  ShmReferenceReader::Next next = incoming_.next(reader_.tail());
  size_t fetched = 0;
  if (next.here) {
    if (const int error = fetch(slices, next.bytes, fetched); error != 0) {
      return fail_fetch(error);
    }
    next = incoming_.next(reader_.tail());
  }
  const ShmRingReader::Moved moved = reader_.read(slices, next.ring_bytes, fetched);
  if (moved.index == ShmIndex::impossible || next.index == ShmIndex::impossible) {
    return fail(EPROTO);
  }
  if (moved.wake) ring_bell();
  const size_t bytes = fetched + moved.bytes;
  if (bytes > 0) return {.kind = IoKind::progressed, .bytes = bytes, .error = 0};
  return last ? fail(ECONNRESET) : IoResult{};
}

size_t ShmConnection::skip(size_t most) {
  if (!attached() || error_ != 0) return 0;
  const ShmReferenceReader::Next next = incoming_.next(reader_.tail());
  if (!next.here) return 0;
  const size_t bytes = std::min(most, next.bytes);
  incoming_.skip(bytes);
  return bytes;
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

IoResult ShmConnection::send(std::span<const iovec> slices) {
  R2CCL_CHECK(!slices.empty());
  const iovec& last = slices.back();
  if (!sends_in_place(last.iov_len) || ended()) return write(slices);
  const std::span<const iovec> before = slices.first(slices.size() - 1);
  size_t bytes = 0;
  for (const iovec& slice : before) bytes += slice.iov_len;
  if (bytes > writer_.space()) return write(before);
  // Before the bytes that precede it, so that the reader finds both.
  outgoing_.add(writer_.head() + bytes,
                {static_cast<const std::byte*>(last.iov_base), last.iov_len});
  const bool wake = bytes > 0 ? writer_.write(before).wake : writer_.wake();
  if (wake) ring_bell();
  return {.kind = IoKind::progressed, .bytes = bytes + last.iov_len, .error = 0};
}

bool ShmConnection::sends_in_place(size_t bytes) const {
  return all_->in_place && bytes >= kShmInPlaceBytes && attached() && error_ == 0 &&
         outgoing_.ready();
}

void ShmConnection::release() noexcept {
  if (attached()) outgoing_.release();
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
  const ssize_t sent = ::send(socket_.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) peer_gone_ = true;
}

}  // namespace r2ccl
