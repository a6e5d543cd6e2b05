// The kernels' side of a connection: handshake, acknowledgements, retransmission, resets.
#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "sim/fabric/flow.h"
#include "sim/fabric/host.h"
#include "sim/fabric/listener.h"
#include "sim/fabric/machine.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kPacketBytes = 64;
// Linux: TCP_TIMEOUT_INIT, TCP_RTO_MIN, TCP_RTO_MAX, tcp_retries2, tcp_orphan_retries.
constexpr TimeNs kHandshakeRetry = 1 * kSecond;
constexpr TimeNs kTimeoutMin = 200 * kMillisecond;
constexpr TimeNs kTimeoutMax = 120 * kSecond;
constexpr uint32_t kUnansweredMax = 15;
constexpr uint32_t kUnansweredMaxOrphan = 8;

TimeNs timeout_after(uint32_t backoff) {
  return std::min(kTimeoutMin << std::min(backoff, 10U), kTimeoutMax);
}

}  // namespace

template <typename OnArrival>
void Flow::send_packet(int from, OnArrival on_arrival) {
  std::optional<TimeNs> arrival;
  if (!silenced()) arrival = network_.depart(nic(from), nic(1 - from), kPacketBytes);
  if (!arrival) {
    network_.engine().trace(TraceKind::packet_dropped, id_, static_cast<uint64_t>(from));
    return;
  }
  network_.engine().at(*arrival, [&network = network_, id = id_, from, on_arrival] {
    Flow* flow = network.find(id);
    if (flow == nullptr || flow->silenced()) return;
    if (!network.arrives(*flow->nic(from), *flow->nic(1 - from))) {
      network.engine().trace(TraceKind::packet_dropped, id, static_cast<uint64_t>(from));
      return;
    }
    on_arrival(*flow);
  });
}

// --- handshake ----------------------------------------------------------------------------------

void Flow::start_connect() {
  become(0, SideState::connecting);
  send_handshake();
  retry_handshake(kHandshakeRetry);
}

void Flow::refuse(int error) {
  become(0, SideState::connecting);
  fail(0, error);
}

void Flow::send_handshake() {
  if (at(0).state == SideState::connecting) {
    send_packet(0, [](Flow& flow) { flow.on_syn(); });
  } else {
    send_packet(0, [](Flow& flow) { flow.on_handshake_end(); });
  }
}

void Flow::retry_handshake(TimeNs after) {
  Engine& engine = network_.engine();
  engine.at(engine.now() + after, [&network = network_, id = id_, after] {
    Flow* flow = network.find(id);
    if (flow == nullptr) return;
    const bool client_waits = flow->at(0).state == SideState::connecting;
    const bool server_waits =
        flow->at(0).state == SideState::established && flow->at(1).state == SideState::syn_received;
    if (!client_waits && !server_waits) return;
    flow->send_handshake();
    flow->retry_handshake(std::min(2 * after, kTimeoutMax));
  });
}

void Flow::on_syn() {
  if (at(1).state == SideState::absent) {
    SimListener* listener = nic(1)->machine.find_listener(endpoint(1), *nic(1));
    if (listener == nullptr) {
      send_reset(1);
      return;
    }
    if (listener->full()) return;  // like Linux: the client will try again
    become(1, SideState::syn_received);
  }
  if (at(1).state == SideState::closed) return send_reset(1);
  send_packet(1, [](Flow& flow) { flow.on_syn_ack(); });
}

void Flow::on_syn_ack() {
  if (at(0).state == SideState::connecting) {
    become(0, SideState::established);
    note_answer(0);
    keep_alive(0);
    touch(0);
  }
  if (at(0).state == SideState::closed) return send_reset(0);
  send_handshake();
}

void Flow::on_handshake_end() {
  if (at(1).state != SideState::syn_received) return;
  SimListener* listener = nic(1)->machine.find_listener(endpoint(1), *nic(1));
  if (listener == nullptr) {
    send_reset(1);
    become(1, SideState::closed);
    return;
  }
  become(1, SideState::established);
  note_answer(1);
  keep_alive(1);
  listener->enqueue(id_);
}

// --- bytes --------------------------------------------------------------------------------------

void Flow::pump(int side) {
  const SideState state = at(side).state;
  const bool sends = state == SideState::established || state == SideState::orphaned;
  if (!sends || at(side).has_turn || stream(side).sendable() == 0) return;
  at(side).has_turn = true;
  network_.take_turn(*nic(side), {id_, side});
}

std::optional<Segment> Flow::on_turn(int side) {
  const SideState state = at(side).state;
  const bool sends = state == SideState::established || state == SideState::orphaned;
  if (!sends || stream(side).sendable() == 0) {
    at(side).has_turn = false;
    return std::nullopt;
  }
  const Segment segment = stream(side).take_segment(network_.engine().now());
  arm_timer(side);
  touch(side);  // few bytes are unsent: they may have fallen below the writer's low-water mark
  return segment;
}

void Flow::after_turn(int side) {
  at(side).has_turn = false;
  pump(side);
}

TimeNs Flow::keep_order(int side, TimeNs arrival) {
  at(side).last_arrival = std::max(at(side).last_arrival, arrival);
  return at(side).last_arrival;
}

void Flow::on_segment(int to, const Segment& segment) {
  if (silenced()) return;
  network_.engine().trace(TraceKind::segment_delivered, id_ * 2 + static_cast<uint64_t>(to),
                          segment.offset + segment.length);
  // Bytes after a lost handshake packet complete the handshake as well.
  if (at(to).state == SideState::syn_received) on_handshake_end();
  if (at(to).state != SideState::established) {
    // Bytes that were on their way when the connection failed arrive all the same.
    const uint64_t end = std::min(segment.offset + segment.length, stream(1 - to).written());
    if (segment.offset <= at(to).posted_from) land(to, end);
    send_reset(to);
    if (at(to).state == SideState::orphaned) become(to, SideState::closed);
    forget_if_over();
    return;
  }
  Stream& incoming = stream(1 - to);
  if (incoming.on_segment(segment)) touch(to);
  land(to, incoming.arrived());
  if (incoming.cut_reached()) return on_cut();
  send_ack(to);
}

void Flow::send_ack(int from) {
  const StreamAck ack = stream(1 - from).make_ack();
  send_packet(from, [from, ack](Flow& flow) { flow.on_ack(1 - from, ack); });
}

void Flow::on_ack(int side, const StreamAck& ack) {
  Side& self = at(side);
  note_answer(side);
  if (stream(side).on_ack(ack, network_.engine().now())) {
    self.backoff = 0;
    self.deadline = kNever;
    touch(side);
    pump(side);
  }
  arm_timer(side);
  if (self.state == SideState::orphaned && stream(side).all_acknowledged()) {
    become(side, SideState::closed);
    forget_if_over();
  }
}

void Flow::send_reset(int from) {
  send_packet(from, [from](Flow& flow) { flow.on_reset(1 - from); });
}

void Flow::on_reset(int side) {
  fail(side, at(side).state == SideState::connecting ? ECONNREFUSED : ECONNRESET);
}

// A sender whose peer has no room asks whether it has room now. An idle sender asks whether the
// peer is there.
void Flow::on_probe(int side) {
  if (at(side).state == SideState::established) return send_ack(side);
  send_reset(side);
}

void Flow::note_answer(int side) {
  at(side).unanswered = 0;
  at(side).answered_at = network_.engine().now();
}

void Flow::keep_alive(int side) {
  Engine& engine = network_.engine();
  if (at(side).state != SideState::established) return;
  TimeNs due = at(side).answered_at + kKeepAlive;
  if (due <= engine.now()) {
    const bool idle = !stream(side).awaits_answer();
    if (idle) send_packet(side, [side](Flow& flow) { flow.on_probe(1 - side); });
    due = engine.now() + kKeepAlive;
  }
  engine.at(due, [&network = network_, id = id_, side] {
    if (Flow* flow = network.find(id)) flow->keep_alive(side);
  });
}

// --- the retransmission timer -------------------------------------------------------------------

void Flow::arm_timer(int side) {
  Side& self = at(side);
  if (!stream(side).awaits_answer()) {
    self.deadline = kNever;
    return;
  }
  if (self.deadline != kNever) return;
  self.deadline = network_.engine().now() + timeout_after(self.backoff);
  if (!self.timer_scheduled) schedule_timer(side);
}

void Flow::schedule_timer(int side) {
  at(side).timer_scheduled = true;
  network_.engine().at(at(side).deadline, [&network = network_, id = id_, side] {
    Flow* flow = network.find(id);
    if (flow != nullptr) flow->on_timer(side);
  });
}

void Flow::on_timer(int side) {
  Side& self = at(side);
  self.timer_scheduled = false;
  const bool alive = self.state == SideState::established || self.state == SideState::orphaned;
  if (!alive || self.deadline == kNever) return;
  if (network_.engine().now() < self.deadline) return schedule_timer(side);
  const bool orphaned = self.state == SideState::orphaned;
  if (++self.unanswered > (orphaned ? kUnansweredMaxOrphan : kUnansweredMax)) {
    return fail(side, ETIMEDOUT);
  }
  ++self.backoff;
  if (stream(side).window_closed()) {
    send_packet(side, [side](Flow& flow) { flow.on_probe(1 - side); });
  }
  stream(side).on_timeout();
  pump(side);
  self.deadline = network_.engine().now() + timeout_after(self.backoff);
  schedule_timer(side);
}

}  // namespace r2ccl::sim
