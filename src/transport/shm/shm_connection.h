// Connection through shared memory. A Unix-domain socket beside it carries no data: it hands over
// the memory, wakes the other end, and ends when the other process does.
#pragma once

#include <memory>
#include <unordered_map>

#include "base/fork_guard.h"
#include "transport/shm/shm_segment.h"
#include "transport/transport.h"

namespace r2ccl {

// Payload of at least so many bytes stays in place. With less, a system call costs more than the
// second copy.
inline constexpr size_t kShmInPlaceBytes = size_t{64} << 10;

class ShmConnection;

// The state that the connections of one transport share.
struct ShmConnections {
  std::unordered_map<int, ShmConnection*> live;  // by poll id
  // Whether this process lets others read its memory, and whether it reads theirs. The latter is
  // false once that has failed.
  bool in_place = true;
  bool fetches = true;
};

class ShmConnection final : public Connection {
 public:
  // Takes a connected socket whose other end has been sent the file of `segment`.
  ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket, const Endpoint& remote,
                ShmSegment segment);
  // Takes a socket that did not connect, because of `error`.
  ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket, const Endpoint& remote,
                int error);
  // Takes a socket that accept() returned. The file may still be on its way.
  ShmConnection(std::shared_ptr<ShmConnections> all, GuardedFd socket, const Endpoint& remote);
  ~ShmConnection() override;

  ConnectState connect_state() override { return state_; }
  int connect_error() const override { return state_ == ConnectState::failed ? error_ : 0; }
  IoResult read(std::span<const iovec> slices) override;
  IoResult write(std::span<const iovec> slices) override;
  IoResult send(std::span<const iovec> slices) override;
  void release() noexcept override;
  bool sends_in_place(size_t bytes) const override;
  size_t skip(size_t most) override;
  // The kernel holds no bytes, and answers for the peer at once: a stopped process is not dead, and
  // a dead one has closed its socket.
  ConnectionInfo info() const override {
    return {.smoothed_rtt_ns = 0, .unsent_bytes = 0, .packets = {}, .unanswered_ns = 0};
  }
  Endpoint remote() const override { return remote_; }
  int poll_id() const override { return poll_id_; }

  // --- for the poller ---
  // Returns whether this connection was opened before a fork, in whose child it has no memory.
  bool in_forked_child() const { return !socket_.valid(); }
  // Require !in_forked_child().
  bool readable() const {
    if (error_ != 0 || peer_gone_) return true;
    return segment_.mapped() &&
           (reader_.has_bytes() || reader_.closed() || incoming_.ready(reader_.tail()));
  }
  bool writable() const {
    if (error_ != 0 || peer_gone_) return true;
    return segment_.mapped() && (writer_.has_space() || reader_.closed());
  }
  // Asks the other end to ring the bell, for bytes and also for space with `want_write`. The caller
  // must then look again before it sleeps.
  void set_waiting(bool on, bool want_write);
  // Requires that the socket is readable: takes the file or the bell, or notes the end.
  void on_socket_ready();

 private:
  IoResult fail(int error);
  void attach(ShmSegment segment, ShmEnd end);
  void receive_segment();
  void meet_peer();
  IoResult fail_fetch(int error);
  int fetch(std::span<const iovec> slices, size_t left, size_t& bytes);
  void ring_bell();
  // Returns whether the rings may be touched: they are here, and this is no forked child.
  bool attached() const { return segment_.mapped() && socket_.valid(); }
  bool ended() const { return peer_gone_ || reader_.closed(); }

  // The poller looks at the first five of all connections in each turn.
  int error_ = 0;           // the first error; bytes that arrived before it can still be read
  bool peer_gone_ = false;  // the socket has ended
  ShmSegment segment_;      // mapped from attach() on
  ShmRingReader reader_;    // these four are valid while it is mapped
  ShmRingWriter writer_;
  ShmReferenceReader incoming_;
  ShmReferenceWriter outgoing_;
  std::shared_ptr<ShmConnections> all_;
  GuardedFd socket_;
  const int poll_id_;
  Endpoint remote_;
  ConnectState state_ = ConnectState::established;
  ShmEnd end_ = ShmEnd::accepting;
  bool met_peer_ = false;  // it is known whether this process can read the peer's memory
};

}  // namespace r2ccl
