#include "transport/faulty/faulty_connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace r2ccl {
namespace {

// Interval of looks while tokens or room are missing: short enough for a smooth rate.
constexpr TimeNs kLookAgainNs = kMillisecond;

bool has_ended(const IoResult& result) {
  return result.kind == IoKind::closed || result.kind == IoKind::failed;
}

IoResult progressed(size_t bytes) {
  return {.kind = IoKind::progressed, .bytes = bytes, .error = 0};
}

}  // namespace

FaultyConnection::FaultyConnection(FaultyContext& context, FaultTarget target,
                                   std::unique_ptr<Connection> inner)
    : context_(context),
      target_(std::move(target)),
      inner_(std::move(inner)),
      remote_(inner_->remote()),
      poll_id_(context.poller.enroll(this)),
      state_(inner_->connect_state()) {
  if (state_ == ConnectState::failed) fail(inner_->connect_error());
}

FaultyConnection::FaultyConnection(FaultyContext& context, FaultTarget target,
                                   const Endpoint& remote, int error)
    : context_(context),
      target_(std::move(target)),
      remote_(remote),
      poll_id_(context.poller.enroll(this)) {
  if (error != 0) fail(error);
}

FaultyConnection::FaultyConnection(Departure, FaultyConnection& from)
    : context_(from.context_),
      target_(from.target_),
      inner_(std::move(from.inner_)),
      remote_(from.remote_),
      poll_id_(context_.poller.enroll(this)),
      outgoing_(std::move(from.outgoing_)),
      departed_(true) {}

FaultyConnection::~FaultyConnection() {
  context_.poller.withdraw(poll_id_);
  if (inner_ == nullptr || departed_ || muted_) return;
  const NicFault fault = context_.plan.fault_of(target_);
  const bool has_more_to_say = error_ == 0 && !outgoing_.empty();
  if (!fault.silent() && !has_more_to_say) return;
  if (!has_more_to_say) outgoing_ = {};
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory a test cannot go on
  auto* rest = new FaultyConnection(Departure(), *this);  // private, so not by make_unique
  context_.departed.push_back(std::unique_ptr<FaultyConnection>(rest));
}

ConnectState FaultyConnection::connect_state() {
  if (state_ != ConnectState::pending) return state_;
  refresh();
  // Through a black hole no answer comes, neither good nor bad.
  if (error_ != 0 || inner_ == nullptr || fault_.hole_rx) return state_;
  state_ = inner_->connect_state();
  if (state_ == ConnectState::failed) fail(inner_->connect_error());
  return state_;
}

int FaultyConnection::connect_error() const {
  return state_ == ConnectState::failed ? error_ : 0;
}

bool FaultyConnection::holds_transmit() const {
  return fault_.hole_tx || fault_.delay_ns > 0 || fault_.bytes_per_s > 0 || !outgoing_.empty();
}

bool FaultyConnection::holds_receive() const {
  return fault_.hole_rx || fault_.delay_ns > 0 || fault_.bytes_per_s > 0 || !incoming_.empty() ||
         has_ended(inner_end_);
}

void FaultyConnection::refresh() {
  const uint64_t version = context_.plan.version();
  if (version == fault_version_) return;
  fault_version_ = version;
  fault_ = context_.plan.fault_of(target_);
  fault_.hole_tx = fault_.hole_tx || muted_;
  const size_t capacity = fault_.queue_bytes > 0 ? fault_.queue_bytes : HeldBytes::kCapacity;
  outgoing_.set_capacity(capacity);
  incoming_.set_capacity(capacity);
  // The inner connection lives on unseen: no peer hears of a NIC that is down.
  if (fault_.down && error_ == 0 && inner_ != nullptr && !departed_) fail(ENETDOWN);
}

IoResult FaultyConnection::fail(int error) {
  if (error_ == 0) error_ = error;
  if (state_ == ConnectState::pending) state_ = ConnectState::failed;
  return {.kind = IoKind::failed, .bytes = 0, .error = error_};
}

void FaultyConnection::reset(Direction direction) {
  context_.plan.reset_happened(target_, direction);
  context_.poller.forget_inner(poll_id_);
  inner_.reset();
  fail(ECONNRESET);
}

// Returns how many bytes may pass in one call before the plan wants the connection reset.
size_t FaultyConnection::limit(Direction direction) const {
  const size_t most = fault_.short_io ? 1 : SIZE_MAX;
  const std::optional<uint64_t> until = context_.plan.reset_after(target_, direction);
  if (!until) return most;
  const uint64_t moved = moved_[index_of(direction)];
  return *until <= moved ? 0 : std::min<size_t>(most, *until - moved);
}

void FaultyConnection::count(Direction direction, size_t bytes) {
  moved_[index_of(direction)] += bytes;
  if (limit(direction) == 0) reset(direction);
}

size_t FaultyConnection::allowance(Direction direction, TimeNs now) {
  return fault_.bytes_per_s == 0 ? SIZE_MAX : context_.plan.tokens(target_, direction, now);
}

// Returns the error that this read or write is to fail with; 0: none.
int FaultyConnection::operation_error() {
  if (fault_.no_buffers) return ENOBUFS;
  return context_.plan.next_operation();
}

IoResult FaultyConnection::write(std::span<const iovec> slices) {
  refresh();
  if (error_ != 0) return fail(error_);
  if (inner_ == nullptr) return {};  // the SYN was lost
  if (const int error = operation_error(); error != 0) {
    return is_refusal(error) ? IoResult{.kind = IoKind::refused, .bytes = 0, .error = error}
                             : fail(error);
  }
  const size_t most = limit(Direction::transmit);
  if (most == 0) {
    reset(Direction::transmit);
    return fail(error_);
  }
  std::vector<iovec> allowed = first_bytes(slices, most);
  Changed changed;
  const bool changes = fault_.change.order != 0 && change_bytes(allowed, changed);
  if (changes) allowed[changed.slice] = {changed.bytes.data(), changed.bytes.size()};
  const IoResult result = pass_on(allowed);
  if (changes && result.kind == IoKind::progressed && result.bytes >= changed.needed) {
    (void)context_.plan.take_change(target_, fault_.change.order);
    if (fault_.change.added > 0) add_bytes(fault_.change.added);
    fault_.change = {};
  }
  if (result.kind == IoKind::progressed) count(Direction::transmit, result.bytes);
  return result;
}

IoResult FaultyConnection::pass_on(std::span<const iovec> slices) {
  return holds_transmit() ? write_held(slices, context_.clock.now()) : inner_->write(slices);
}

// Finds the slice that begins with the order's pattern, and makes a copy of it with the bit
// changed, or with none where bytes are to follow the whole write.
bool FaultyConnection::change_bytes(std::span<const iovec> slices, Changed& changed) {
  // Another connection may have carried out the order since.
  if (context_.plan.fault_of(target_).change.order != fault_.change.order) fault_.change = {};
  const ByteChange& order = fault_.change;
  if (order.order == 0) return false;
  const size_t at = order.bit / 8;
  uint64_t before = 0;
  for (changed.slice = 0; changed.slice < slices.size(); ++changed.slice) {
    const iovec& slice = slices[changed.slice];
    const auto* bytes = static_cast<const uint8_t*>(slice.iov_base);
    const bool begins = slice.iov_len > std::max(at, order.pattern.size()) &&
                        std::memcmp(bytes, order.pattern.data(), order.pattern.size()) == 0;
    if (begins) {
      changed.bytes.assign(bytes, bytes + slice.iov_len);
      changed.needed = before + at + 1;
      if (order.added == 0) {
        changed.bytes[at] ^= static_cast<uint8_t>(1u << order.bit % 8);
      } else {
        changed.needed = 0;
        for (const iovec& each : slices) changed.needed += each.iov_len;
      }
      return true;
    }
    before += slice.iov_len;
  }
  return false;
}

void FaultyConnection::add_bytes(uint32_t count) {
  std::vector<uint8_t> added(count, 0xa5);
  const iovec slice{added.data(), added.size()};
  (void)pass_on({&slice, 1});
  muted_ = fault_.hole_tx = true;
}

IoResult FaultyConnection::write_held(std::span<const iovec> slices, TimeNs now) {
  if (inner_->connect_state() == ConnectState::pending) return {};
  const size_t taken = outgoing_.append(slices, now + fault_.delay_ns);
  pump_transmit(now);
  return taken > 0 ? progressed(taken) : IoResult{};
}

void FaultyConnection::pump_transmit(TimeNs now) {
  while (alive() && !fault_.hole_tx) {
    const std::span<const uint8_t> due = outgoing_.front(now);
    const size_t bytes = std::min(due.size(), allowance(Direction::transmit, now));
    if (bytes == 0) return;
    const iovec slice{const_cast<uint8_t*>(due.data()), bytes};
    const IoResult result = inner_->write({&slice, 1});
    if (result.kind == IoKind::failed) fail(result.error);
    if (result.kind != IoKind::progressed) return;
    if (fault_.bytes_per_s > 0) {
      context_.plan.spend(target_, Direction::transmit, result.bytes);
    }
    outgoing_.drop_front(result.bytes);
  }
}

// Moves the due bytes on. They move whether or not their writer looks.
TimeNs FaultyConnection::move_held(TimeNs now) {
  refresh();
  if (!alive() || (outgoing_.empty() && !departed_)) return kNever;
  if (fault_.silent()) return kNever;  // the plan wakes the poller when it changes
  pump_transmit(now);
  if (departed_ && (error_ != 0 || outgoing_.empty())) inner_.reset();
  if (!alive() || outgoing_.empty()) return kNever;
  const TimeNs next = outgoing_.next_release();
  return next > now ? next : now + kLookAgainNs;
}

void FaultyConnection::flush() {
  refresh();
  fault_.bytes_per_s = 0;
  pump_transmit(kNever);
}

IoResult FaultyConnection::read(std::span<const iovec> slices) {
  refresh();
  if (error_ != 0) return fail(error_);
  if (inner_ == nullptr) return {};
  if (const int error = operation_error(); error != 0) {
    return is_refusal(error) ? IoResult{.kind = IoKind::refused, .bytes = 0, .error = error}
                             : fail(error);
  }
  const size_t most = limit(Direction::receive);
  if (most == 0) {
    reset(Direction::receive);
    return fail(error_);
  }
  const std::vector<iovec> allowed = first_bytes(slices, most);
  const TimeNs now = context_.clock.now();
  const IoResult result = holds_receive() ? read_held(allowed, now) : inner_->read(allowed);
  if (result.kind == IoKind::progressed) count(Direction::receive, result.bytes);
  return result;
}

void FaultyConnection::pump_receive(TimeNs now) {
  uint8_t buffer[16384];
  while (alive() && !has_ended(inner_end_) && incoming_.room() > 0) {
    const iovec slice{buffer, std::min(sizeof buffer, incoming_.room())};
    const IoResult result = inner_->read({&slice, 1});
    if (has_ended(result)) inner_end_ = result;
    if (result.kind != IoKind::progressed) return;
    const iovec arrived{buffer, result.bytes};
    incoming_.append({&arrived, 1}, now + fault_.delay_ns);
  }
}

IoResult FaultyConnection::read_held(std::span<const iovec> slices, TimeNs now) {
  pump_receive(now);
  if (fault_.hole_rx) return {};
  size_t copied = 0;
  for (const iovec& slice : slices) {
    auto* to = static_cast<uint8_t*>(slice.iov_base);
    size_t left = slice.iov_len;
    while (left > 0) {
      const std::span<const uint8_t> due = incoming_.front(now);
      const size_t bytes = std::min({left, due.size(), allowance(Direction::receive, now)});
      if (bytes == 0) break;
      std::memcpy(to, due.data(), bytes);
      if (fault_.bytes_per_s > 0) context_.plan.spend(target_, Direction::receive, bytes);
      incoming_.drop_front(bytes);
      to += bytes, left -= bytes, copied += bytes;
    }
    if (left > 0) break;
  }
  if (copied > 0) return progressed(copied);
  return incoming_.empty() ? inner_end_ : IoResult{};
}

ConnectionInfo FaultyConnection::info() const {
  ConnectionInfo info = inner_ != nullptr ? inner_->info() : ConnectionInfo{};
  info.unsent_bytes += outgoing_.size();
  info.unacknowledged_bytes += outgoing_.size();
  if (holds_transmit() || holds_receive()) info.unanswered_ns = kNever;
  return info;
}

bool FaultyConnection::pass_on_inner_events() const {
  return alive() && !holds_transmit() && !holds_receive();
}

FaultyPollable::Readiness FaultyConnection::readiness(TimeNs now, bool want_write) {
  refresh();
  const Readiness dead{.inner_id = -1,
                       .inner_want_write = false,
                       .readable = true,
                       .writable = true,
                       .look_again_at = kNever};
  if (error_ != 0) return dead;
  if (inner_ == nullptr) return {};
  if (!holds_transmit() && !holds_receive()) {
    return {.inner_id = inner_->poll_id(),
            .inner_want_write = want_write,
            .readable = false,
            .writable = false,
            .look_again_at = kNever};
  }
  pump_transmit(now);
  pump_receive(now);
  if (error_ != 0) return dead;

  Readiness out;
  const bool due_in = !incoming_.front(now).empty() && allowance(Direction::receive, now) > 0;
  out.readable = !fault_.hole_rx && (due_in || (incoming_.empty() && has_ended(inner_end_)));
  // When it is full, or at its end, the inner connection would only keep the poller awake.
  if (!has_ended(inner_end_) && incoming_.room() > 0) out.inner_id = inner_->poll_id();
  const bool due_out = !fault_.hole_tx && !outgoing_.front(now).empty();
  const bool may_send = due_out && allowance(Direction::transmit, now) > 0;
  // A pending connect ends with the inner writable event.
  const bool connecting = inner_->connect_state() == ConnectState::pending;
  out.inner_want_write = may_send || connecting;

  if (!connecting && want_write && holds_transmit()) out.writable = outgoing_.room() > 0;
  if (want_write && !holds_transmit() && now >= next_write_look_) {
    // The poller does not pass on inner readiness while reads are held, so the owner tries at
    // intervals.
    out.writable = true;
    next_write_look_ = now + kLookAgainNs;
  }
  if (!fault_.hole_rx) out.look_again_at = incoming_.next_release();
  if (!fault_.hole_tx) out.look_again_at = std::min(out.look_again_at, outgoing_.next_release());
  if (out.look_again_at <= now || (want_write && !out.writable && !holds_transmit())) {
    out.look_again_at = now + kLookAgainNs;
  }
  return out;
}

}  // namespace r2ccl
