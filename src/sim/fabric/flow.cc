// The process side of a connection: reading, writing, closing, dying. flow_kernel.cc has the rest.
#include "sim/fabric/flow.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "sim/fabric/host.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {
namespace {

// The time within which a reader notices that its bytes were tampered with.
constexpr TimeNs kNoticeTime = 1 * kSecond;

bool legal(SideState from, SideState to) {
  switch (to) {
    case SideState::absent:
      return false;
    case SideState::connecting:
    case SideState::syn_received:
      return from == SideState::absent;
    case SideState::established:
      return from == SideState::connecting || from == SideState::syn_received;
    case SideState::failed:
      return from == SideState::connecting || from == SideState::established;
    case SideState::orphaned:
      return from == SideState::established;
    case SideState::closed:
      return from != SideState::closed;
  }
  return false;
}

}  // namespace

Flow::Flow(Network& network, uint64_t id, const FlowSpec& spec)
    : network_(network),
      id_(id),
      streams_{Stream(network.options().stream, spec.unsent_low_water, network.rings()),
               Stream(network.options().stream, 0, network.rings())} {
  at(0).nic = spec.from;
  at(0).endpoint = spec.local;
  at(1).nic = spec.to;
  at(1).endpoint = spec.remote;
}

void Flow::become(int side, SideState next) {
  R2CCL_CHECK(legal(at(side).state, next));
  at(side).state = next;
  network_.engine().trace(TraceKind::side_changed, id_ * 2 + static_cast<uint64_t>(side),
                          static_cast<uint64_t>(next));
}

void Flow::attach(int side, SimHost& process, int poll_id) {
  at(side).process = &process;
  at(side).poll_id = poll_id;
}

bool Flow::attached_to(int side, const SimHost& process) const {
  return sides_[index(side)].process == &process;
}

void Flow::touch(int side) {
  if (at(side).process != nullptr) at(side).process->sim_poller().touch(at(side).poll_id);
}

IoResult Flow::read(int side, std::span<const iovec> slices) {
  Stream& incoming = stream(1 - side);
  const SideState state = at(side).state;
  if (state == SideState::established || state == SideState::failed) {
    IoWatch* const watch = network_.options().watch;
    const auto fetch = [watch](std::span<const std::byte> source) {
      const iovec one{const_cast<std::byte*>(source.data()), source.size()};
      if (watch != nullptr) watch->on_write({&one, 1}, source.size());
    };
    if (const size_t bytes = incoming.read(slices, fetch); bytes > 0) {
      if (watch != nullptr) watch->on_read(slices, bytes);
      on_taken(side);
      return {IoKind::progressed, bytes, 0};
    }
    if (incoming.ended()) return {IoKind::closed, 0, 0};
  }
  if (state == SideState::failed) return {IoKind::failed, 0, at(side).error};
  if (state == SideState::closed || state == SideState::orphaned) {
    return {IoKind::failed, 0, EBADF};
  }
  return {IoKind::blocked, 0, 0};
}

void Flow::on_taken(int side) {
  const Stream& incoming = stream(1 - side);
  if (at(side).state == SideState::established && incoming.window_update_due()) send_ack(side);
  if (tampering_[index(1 - side)].taken(incoming)) expect_notice(side);
}

size_t Flow::skip(int side, size_t most) {
  const SideState state = at(side).state;
  if (state != SideState::established && state != SideState::failed) return 0;
  const size_t bytes = stream(1 - side).skip(most);
  if (bytes > 0) on_taken(side);
  return bytes;
}

bool Flow::in_place() const {
  return network_.options().nics_write || sides_[1].endpoint.address.family == AddressFamily::local;
}

void Flow::post(int side, std::span<const iovec> slices, size_t skip) {
  Side& self = at(side);
  self.posted.clear();
  if (!network_.options().nics_write || self.state != SideState::established) return;
  self.posted_from = stream(1 - side).taken();
  for (const iovec& slice : slices) {
    const size_t filled = std::min(skip, slice.iov_len);
    skip -= filled;
    if (filled == slice.iov_len) continue;
    self.posted.push_back(
        {static_cast<std::byte*>(slice.iov_base) + filled, slice.iov_len - filled});
  }
}

// Copies the incoming stream up to byte `end` into the memory that the process has posted.
void Flow::land(int side, uint64_t end) {
  Side& self = at(side);
  for (iovec& slice : self.posted) {
    if (self.posted_from >= end) break;
    const size_t bytes = std::min<uint64_t>(slice.iov_len, end - self.posted_from);
    if (bytes == 0) continue;
    const iovec landed{slice.iov_base, bytes};
    stream(1 - side).peek(self.posted_from, {static_cast<std::byte*>(landed.iov_base), bytes});
    if (IoWatch* watch = network_.options().watch) watch->on_read({&landed, 1}, bytes);
    self.posted_from += bytes;
    slice = {static_cast<std::byte*>(slice.iov_base) + bytes, slice.iov_len - bytes};
  }
}

IoResult Flow::write(int side, std::span<const iovec> slices) {
  const SideState state = at(side).state;
  if (state == SideState::failed) return {IoKind::failed, 0, at(side).error};
  if (state == SideState::closed || state == SideState::orphaned) {
    return {IoKind::failed, 0, EBADF};
  }
  if (state != SideState::established) return {IoKind::blocked, 0, 0};
  const uint64_t before = stream(side).written();
  const size_t bytes = stream(side).write(slices);
  if (bytes == 0) return {IoKind::blocked, 0, 0};
  follow_taken(side, before);
  if (IoWatch* watch = network_.options().watch) watch->on_write(slices, bytes);
  if (Tampering& tampering = tampering_[index(side)]; tampering.apply(stream(side))) {
    network_.note_tampered();
    if (tampering.silent_from() != UINT64_MAX) {
      cut(side, tampering.silent_from(), CutKind::silent);
    }
  }
  pump(side);
  return {IoKind::progressed, bytes, 0};
}

IoResult Flow::send(int side, std::span<const iovec> slices) {
  const uint64_t before = stream(side).written();
  const IoResult result = write(side, slices);
  size_t skipped = 0;
  for (const iovec& slice : slices.first(slices.size() - 1)) skipped += slice.iov_len;
  if (in_place() && result.bytes > skipped) {
    stream(side).keep_in_place(
        before + result.bytes,
        {static_cast<const std::byte*>(slices.back().iov_base), result.bytes - skipped});
  }
  return result;
}

// A process that has given up a connection may keep it, unwatched, to see how the other kernel ends
// it. It reads the bytes then, and takes none of them.
bool Flow::in_use(int side) const {
  const Side& self = sides_[index(side)];
  return self.state == SideState::established && self.process != nullptr &&
         self.process->sim_poller().watches(self.poll_id);
}

// Expects the reader of a tampered frame, or its writer, to give up this connection. A relay passes
// the bytes on, and may not hear that the far end has given it up.
void Flow::expect_notice(int reader) {
  Engine& engine = network_.engine();
  auto& all = network_.taken();
  const auto taken =
      all.insert(all.end(), {id_, at(reader).process, tampering_[index(1 - reader)].evidence()});
  engine.at(engine.now() + kNoticeTime, [&network = network_, taken, reader] {
    const Flow* flow = network.find(taken->flow_id);
    const bool used = flow != nullptr && flow->in_use(reader) && flow->in_use(1 - reader);
    if (used && !taken->passed_on) network.note_unnoticed();
    network.taken().erase(taken);
  });
}

// A relay that has passed a tampered frame on has not accepted it. The rank that reads it from this
// connection must notice it, and may be stopped until then.
void Flow::follow_taken(int side, uint64_t from) {
  for (Network::Taken& taken : network_.taken()) {
    if (taken.reader != at(side).process || taken.passed_on) continue;
    taken.passed_on = tampering_[index(side)].follow(taken.evidence, stream(side), from);
  }
}

bool Flow::readable(int side) const {
  const SideState state = sides_[index(side)].state;
  if (state == SideState::failed) return true;
  const Stream& incoming = streams_[index(1 - side)];
  return state == SideState::established && (incoming.readable_bytes() > 0 || incoming.ended());
}

bool Flow::writable(int side) const {
  const SideState state = sides_[index(side)].state;
  if (state == SideState::failed) return true;
  return state == SideState::established && streams_[index(side)].writable();
}

ConnectionInfo Flow::info(int side) const {
  const Stream& outgoing = streams_[index(side)];
  const TimeNs silent = network_.engine().now() - sides_[index(side)].answered_at;
  return {.smoothed_rtt_ns = outgoing.smoothed_round_trip(),
          .least_rtt_ns = outgoing.least_round_trip(),
          .unsent_bytes = outgoing.unsent(),
          .unacknowledged_bytes = outgoing.unacknowledged(),
          .packets = outgoing.packets(),
          .unanswered_ns = unanswered_time(outgoing.in_flight(), silent)};
}

void Flow::close(int side) {
  at(side).process = nullptr;
  at(side).poll_id = -1;
  fence(side);
  release(side);
  discard(side);
  forget_if_over();
}

void Flow::orphan(int side) {
  release(side);
  // Like Linux: unread bytes cause a reset.
  const bool all_read = stream(1 - side).readable_bytes() == 0;
  if (at(side).state == SideState::established && all_read) {
    become(side, SideState::orphaned);
    stream(side).finish();
    pump(side);
    arm_timer(side);
  } else {
    discard(side);
  }
  forget_if_over();
}

// Ends a side at once. A peer that takes it for connected gets a reset.
void Flow::discard(int side) {
  switch (at(side).state) {
    case SideState::established:
    case SideState::syn_received:
      send_reset(side);
      become(side, SideState::closed);
      break;
    case SideState::absent:
    case SideState::connecting:
    case SideState::failed:
      become(side, SideState::closed);
      break;
    case SideState::orphaned:
    case SideState::closed:
      break;
  }
}

void Flow::fail(int side, int error) {
  switch (at(side).state) {
    case SideState::connecting:
    case SideState::established:
      become(side, SideState::failed);
      at(side).error = error;
      touch(side);
      break;
    case SideState::absent:
    case SideState::syn_received:
    case SideState::orphaned:
      become(side, SideState::closed);
      break;
    case SideState::failed:
    case SideState::closed:
      break;
  }
  forget_if_over();
}

void Flow::reset() {
  fail(0, ECONNRESET);
  fail(1, ECONNRESET);
}

void Flow::cut(int side, uint64_t offset, CutKind kind) {
  cut_kind_ = kind;
  stream(side).cut_at(offset);
  if (stream(side).cut_reached()) on_cut();
}

// Linux sends no packet from an address that the host has lost, and takes none to it.
void Flow::look_at_addresses() {
  homeless_ = false;
  for (const int side : {0, 1}) {
    const SimNic& own = *nic(side);
    const bool kept = own.options.loopback || own.has_address(endpoint(side).address);
    homeless_ = homeless_ || !kept;
  }
}

void Flow::on_cut() {
  if (cut_kind_ == CutKind::silent) {
    silenced_ = true;
  } else {
    reset();
  }
}

// Returns true when the side's kernel has nothing to send and no process uses the side.
bool Flow::over(int side) const {
  const Side& one = sides_[index(side)];
  if (one.process != nullptr) return false;
  switch (one.state) {
    case SideState::absent:
    case SideState::closed:
      return true;
    case SideState::syn_received:
      return sides_[index(1 - side)].state == SideState::closed;
    case SideState::connecting:
    case SideState::established:
    case SideState::failed:
    case SideState::orphaned:
      return false;
  }
  return false;
}

void Flow::forget_if_over() {
  if (!over(0) || !over(1)) return;
  // Later, because callers up the stack still use this object.
  Engine& engine = network_.engine();
  engine.at(engine.now(), [&network = network_, id = id_] { network.erase(id); });
}

}  // namespace r2ccl::sim
