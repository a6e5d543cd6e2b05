#include "sim/fabric/network.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl::sim {

SimNic* Network::nic_with(const Address& address) const {
  for (SimNic* nic : nics_) {
    if (!nic->options.loopback && nic->has_address(address)) return nic;
  }
  return nullptr;
}

Flow& Network::open(const FlowSpec& spec) {
  const uint64_t id = next_flow_id_++;
  auto& slot = flows_[id];
  slot = std::make_unique<Flow>(*this, id, spec);
  if (on_open_) on_open_(id);
  return *slot;
}

Flow* Network::find(uint64_t flow_id) {
  const auto found = flows_.find(flow_id);
  return found == flows_.end() ? nullptr : found->second.get();
}

bool Network::connected(const SimNic& a, const SimNic& b) {
  if (a.options.loopback || b.options.loopback) return &a == &b;
  return a.options.rail == b.options.rail;
}

// Loss strikes frames. A segment of many frames is lost with any of them.
bool Network::lost_by_chance(const SimNic& nic, bool sends, uint64_t bytes) {
  const NicFaults::Way spared = sends ? NicFaults::Way::received : NicFaults::Way::sent;
  if (nic.faults.loss_ppm == 0 || nic.faults.lost == spared) return false;
  for (uint64_t sent = 0; sent < std::max<uint64_t>(bytes, 1); sent += nic.options.mtu) {
    if (engine_.random().chance_ppm(nic.faults.loss_ppm)) return true;
  }
  return false;
}

std::optional<TimeNs> Network::depart(const SimNic* from, const SimNic* to, uint64_t bytes) {
  if (from == nullptr || to == nullptr || !from->sends()) return std::nullopt;
  TimeNs latency = from->options.loopback ? options_.loopback_latency_ns : options_.latency_ns;
  for (const SimNic* nic : {from, to}) {
    const uint32_t limit = nic->faults.frame_bytes_max;
    if (limit != 0 && std::min<uint64_t>(bytes, nic->options.mtu) > limit) return std::nullopt;
    if (lost_by_chance(*nic, nic == from, bytes)) return std::nullopt;
    latency += nic->faults.delay_ns;
    if (nic->faults.jitter_ns > 0) {
      latency +=
          static_cast<TimeNs>(engine_.random().below(static_cast<uint64_t>(nic->faults.jitter_ns)));
    }
  }
  return engine_.now() + latency;
}

bool Network::arrives(const SimNic& from, const SimNic& to) const {
  return connected(from, to) && to.receives() && !severed_.contains(pair_of(from, to));
}

void Network::take_turn(SimNic& nic, EgressTurn turn) {
  nic.egress.push_back(turn);
  if (!nic.egress_busy) send_next(nic);
}

void Network::send_next(SimNic& nic) {
  nic.egress_busy = false;
  while (!nic.egress.empty()) {
    const EgressTurn turn = nic.egress.front();
    nic.egress.pop_front();
    Flow* flow = find(turn.flow_id);
    if (flow == nullptr) continue;
    const std::optional<Segment> segment = flow->on_turn(turn.side);
    if (!segment) continue;
    const TimeNs sent_at =
        engine_.now() + nic.serve(segment->length, engine_.now(), nic.egress_full_at);
    nic.egress_busy = true;
    nic.bytes_sent += segment->length;
    carry(*flow, turn.side, *segment, sent_at);
    engine_.at(sent_at, [this, &nic, turn] {
      // Behind the others: connections share the NIC segment by segment.
      if (Flow* sender = find(turn.flow_id)) sender->after_turn(turn.side);
      send_next(nic);
    });
    return;
  }
}

// The first byte of a segment leaves now, its last one at `sent_at`.
void Network::carry(Flow& flow, int side, const Segment& segment, TimeNs sent_at) {
  const std::optional<TimeNs> first_byte_at =
      flow.silenced() ? std::nullopt : depart(flow.nic(side), flow.nic(1 - side), segment.length);
  if (!first_byte_at) {
    engine_.trace(TraceKind::packet_dropped, flow.id(), segment.offset);
    return;
  }
  // Jitter does not reorder the packets of one connection, because they take one way.
  const TimeNs ordered = flow.keep_order(side, *first_byte_at);
  const TimeNs last_byte_at = sent_at + (ordered - engine_.now());
  engine_.at(ordered, [this, id = flow.id(), to = 1 - side, segment, last_byte_at] {
    if (Flow* arrived = find(id)) enter(*arrived, to, segment, last_byte_at);
  });
}

// The switch port of the receiving NIC: first come, first served, at the NIC's rate. Frames go
// through it while later frames of the same segment are still on their way, so an idle port adds
// nothing to the sender's own serialisation. Other senders' frames go between those of a slow
// sender.
void Network::enter(Flow& flow, int to, const Segment& segment, TimeNs last_byte_at) {
  SimNic& nic = *flow.nic(to);
  if (!arrives(*flow.nic(1 - to), nic)) {
    engine_.trace(TraceKind::packet_dropped, flow.id(), segment.offset);
    return;
  }
  const TimeNs start = std::max(engine_.now(), nic.ingress_free_at);
  const uint64_t port = nic.faults.port_bytes;
  if (port != 0 && start - engine_.now() > nic.duration_of(port)) {
    engine_.trace(TraceKind::packet_dropped, flow.id(), segment.offset);
    return;
  }
  const TimeNs served = start + nic.serve(segment.length, start, nic.ingress_full_at);
  nic.ingress_free_at = served;
  engine_.at(std::max(served, last_byte_at), [this, id = flow.id(), to, segment] {
    Flow* receiver = find(id);
    if (receiver == nullptr) return;
    receiver->nic(to)->bytes_received += segment.length;
    receiver->on_segment(to, segment);
  });
}

}  // namespace r2ccl::sim
