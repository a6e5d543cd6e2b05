// One simulated TCP connection: a stream each way, a handshake, and the reactions of the two
// kernels to lost packets. Times and orders of magnitude follow Linux.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/fabric/nic.h"
#include "sim/fabric/poller.h"
#include "sim/fabric/stream.h"
#include "sim/fabric/tamper.h"
#include "transport/transport.h"

namespace r2ccl::sim {

class Network;
class SimHost;

enum class SideState : uint8_t {
  absent,        // this kernel does not know the connection
  connecting,    // the first packet is sent, and no answer has arrived
  syn_received,  // answered; the connection waits for the last packet of the handshake
  established,   // bytes flow; on the listening side perhaps not yet accepted
  failed,        // no more bytes arrive; the process can still read the bytes that have arrived
  orphaned,      // the process died; its kernel sends the written bytes, and then the end
  closed,        // no state is left, and a reset answers every packet
};

// The two ends of a connection.
struct FlowSpec {
  SimNic* from = nullptr;
  SimNic* to = nullptr;  // null: no NIC has that address
  Endpoint local;
  Endpoint remote;
  uint32_t unsent_low_water = 0;
};

enum class CutKind : uint8_t {
  reset,   // both ends see ECONNRESET at that byte
  silent,  // from that byte on no packet arrives, either way
};

class Flow {
 public:
  Flow(Network& network, uint64_t id, const FlowSpec& spec);

  uint64_t id() const { return id_; }
  SimNic* nic(int side) const { return sides_[index(side)].nic; }
  const Endpoint& endpoint(int side) const { return sides_[index(side)].endpoint; }
  SideState state(int side) const { return sides_[index(side)].state; }
  int error(int side) const { return sides_[index(side)].error; }
  const Stream& stream_from(int side) const { return streams_[index(side)]; }
  bool silenced() const { return silenced_ || homeless_; }

  // --- the process at `side` ---
  void start_connect();
  void refuse(int error);  // instead: the connect fails at once
  void attach(int side, SimHost& process, int poll_id);
  bool attached_to(int side, const SimHost& process) const;
  IoResult read(int side, std::span<const iovec> slices);
  IoResult write(int side, std::span<const iovec> slices);
  // Writes, and leaves the bytes of the last slice where they are.
  IoResult send(int side, std::span<const iovec> slices);
  void release(int side) { stream(side).release(); }
  size_t skip(int side, size_t most);
  // Whether the bytes can stay in place: in shared memory, or with NICs that read and write.
  bool in_place() const;
  // Gives the NIC the memory behind the first `skip` bytes of `slices`, in place of the earlier
  // memory. fence() takes it away.
  void post(int side, std::span<const iovec> slices, size_t skip);
  void fence(int side) { at(side).posted.clear(); }
  bool readable(int side) const;
  bool writable(int side) const;
  ConnectionInfo info(int side) const;
  // The process has destroyed the connection object: an abortive close.
  void close(int side);
  // The process has died.
  void orphan(int side);

  // --- faults ---
  void reset();  // at both ends, at once
  // Ends delivery of the bytes from `side` at byte `offset` of the stream.
  void cut(int side, uint64_t offset, CutKind kind);
  void fail(int side, int error);
  // The addresses of a NIC have changed.
  void look_at_addresses();
  // Orders tampering with bytes that `side` writes from now on.
  void tamper(int side, Tamper tamper) {
    tampering_[index(side)].order(std::move(tamper), stream(side));
  }

  // --- the network ---
  // Returns the segment to send now that the NIC is free.
  std::optional<Segment> on_turn(int side);
  void after_turn(int side);
  void on_segment(int to, const Segment& segment);
  TimeNs keep_order(int side, TimeNs arrival);

 private:
  struct Side {
    SideState state = SideState::absent;
    SimNic* nic = nullptr;
    Endpoint endpoint;
    SimHost* process = nullptr;  // set while a connection object exists
    int poll_id = -1;
    int error = 0;
    bool has_turn = false;      // queued at the NIC, or sending
    TimeNs last_arrival = 0;    // arrival of this side's last segment
    std::vector<iovec> posted;  // the NIC writes into this memory
    uint64_t posted_from = 0;   // from this byte of the incoming stream on
    // The retransmission timer. At most one event is scheduled, and it re-schedules itself.
    TimeNs deadline = kNever;
    bool timer_scheduled = false;
    uint32_t backoff = 0;
    uint32_t unanswered = 0;
    TimeNs answered_at = 0;  // last answer of the other kernel
  };
  static size_t index(int side) { return static_cast<size_t>(side); }
  Side& at(int side) { return sides_[index(side)]; }
  Stream& stream(int side) { return streams_[index(side)]; }

  void land(int side, uint64_t end);
  void on_taken(int side);
  void become(int side, SideState next);
  void touch(int side);
  void discard(int side);
  void forget_if_over();
  bool over(int side) const;

  // Delivers a small packet (no payload) to the other side after the latency, if it gets through.
  template <typename OnArrival>
  void send_packet(int from, OnArrival on_arrival);
  void send_ack(int from);
  void send_reset(int from);
  void on_ack(int side, const StreamAck& ack);
  void on_probe(int side);
  void on_reset(int side);
  void on_cut();

  void send_handshake();
  void retry_handshake(TimeNs after);
  void on_syn();
  void on_syn_ack();
  void on_handshake_end();

  void pump(int side);
  void arm_timer(int side);
  void schedule_timer(int side);
  void on_timer(int side);
  void note_answer(int side);
  void keep_alive(int side);
  bool in_use(int side) const;
  void expect_notice(int reader);
  void follow_taken(int side, uint64_t from);

  Network& network_;
  const uint64_t id_;
  std::array<Side, 2> sides_;  // 0 connects, 1 listens
  std::array<Stream, 2> streams_;
  std::array<Tampering, 2> tampering_;  // by sending side
  bool silenced_ = false;
  bool homeless_ = false;  // a NIC has lost the address of its end
  CutKind cut_kind_ = CutKind::reset;
};

}  // namespace r2ccl::sim
