#include "runtime/relay/relay_pipe.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/wire/handshake.h"

namespace r2ccl {
namespace {

// No event tells that the kernel has acknowledged bytes: the pipe looks. It looks often while bytes
// wait for that.
constexpr TimeNs kBlockedInterval = kMillisecond / 4;
constexpr TimeNs kActiveInterval = 1 * kMillisecond;
constexpr TimeNs kConnectBound = 2 * limits::kConnectAttempt;
// The last bytes of a connection that has ended get this time.
constexpr TimeNs kTailBound = 1 * kSecond;
// The ends give a silent path up much sooner; their words may not reach this rank.
constexpr TimeNs kSilenceMax = 10 * kSecond;
constexpr TimeNs kSilenceInterval = 1 * kSecond;
constexpr size_t kBytesPerPass = 1024 * 1024;

}  // namespace

RelayPipe::RelayPipe(const RelayHost& host, End near, End far, std::vector<std::byte> early,
                     TimeNs now)
    : host_(host),
      sides_{Side(*this, std::move(near)), Side(*this, std::move(far))},
      connect_by_(now + kConnectBound),
      next_silence_look_(now + kSilenceInterval) {
  sides_[1].connecting = true;
  sides_[1].held = std::move(early);
}

RelayPipe::~RelayPipe() {
  for (Side& side : sides_) side.queue.on_lost(side.outstanding);
}

uint64_t RelayPipe::window(const NicQueue& queue, TimeNs min_rtt) {
  if (mutated(Mutant::relay_unbounded)) return limits::kWindowBytesMax;
  const double known = queue.bytes_per_ns();
  const auto busy = static_cast<TimeNs>(std::max<size_t>(queue.busy_paths(), 1));
  const TimeNs time = 2 * min_rtt + limits::kWindowDuration / busy;
  const auto bytes =
      static_cast<uint64_t>((known > 0 ? known : limits::kRateInitial) * static_cast<double>(time));
  return std::clamp(bytes, limits::kWindowBytesMin, limits::kWindowBytesMax);
}

// Small rests do not count: each read and write costs a system call.
uint64_t RelayPipe::room(const Side& side) const {
  const uint64_t most = window(side.queue, side.min_rtt);
  const uint64_t left = most - std::min(side.outstanding, most);
  return left < most / 4 ? 0 : left;
}

// Takes the acknowledged bytes out of the account.
void RelayPipe::settle(Side& side, TimeNs now) {
  if (side.outstanding == 0) return;
  if (side.broken) {
    side.queue.on_lost(std::exchange(side.outstanding, 0));
    return;
  }
  const uint64_t left = std::min(side.connection->info().unacknowledged_bytes, side.outstanding);
  side.queue.on_delivered(side.outstanding - left, left, now);
  side.outstanding = left;
}

// Returns false when no byte can be written now.
bool RelayPipe::write(Side& side, std::span<const std::byte> bytes, TimeNs now) {
  if (host_.witness != nullptr) host_.witness->on_relayed(bytes);
  const iovec slice{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const IoResult result = side.connection->write(std::span(&slice, 1));
  if (result.kind == IoKind::progressed) {
    side.queue.on_sent(result.bytes, side.outstanding == 0, now);
    side.outstanding += result.bytes;
    side.held.assign(bytes.begin() + static_cast<ptrdiff_t>(result.bytes), bytes.end());
    return true;
  }
  if (result.kind == IoKind::blocked || result.kind == IoKind::refused) {
    side.held.assign(bytes.begin(), bytes.end());
    return false;
  }
  side.broken = true;
  side.held.clear();
  return false;
}

void RelayPipe::flush(Side& side, TimeNs now) {
  while (!side.held.empty() && !side.connecting) {
    const std::vector<std::byte> held = std::exchange(side.held, {});
    if (!write(side, held, now)) return;
  }
}

void RelayPipe::move(Side& from, Side& to, TimeNs now) {
  flush(to, now);
  settle(to, now);
  size_t moved = 0;
  while (to.held.empty() && !to.connecting && !from.connecting && !from.ended &&
         moved < kBytesPerPass) {
    const uint64_t most = to.broken ? host_.scratch.size() : room(to);
    if (most == 0) return;
    const iovec slice{host_.scratch.data(), std::min<size_t>(most, host_.scratch.size())};
    const IoResult result = from.connection->read(std::span(&slice, 1));
    if (result.kind == IoKind::blocked || result.kind == IoKind::refused) {
      from.ended = from.broken;
      return;
    }
    from.ended = result.kind != IoKind::progressed;
    moved += result.bytes;
    if (from.ended || to.broken) continue;
    (void)write(to, host_.scratch.first(result.bytes), now);
    flush(to, now);
    settle(to, now);
  }
  ready_ = ready_ || moved >= kBytesPerPass;
}

void RelayPipe::connect(Side& side, TimeNs now) {
  if (!side.connecting) return;
  const ConnectState state = side.connection->connect_state();
  side.connecting = state == ConnectState::pending;
  over_ = state == ConnectState::failed || (side.connecting && now >= connect_by_);
}

bool RelayPipe::is_served(const Side& side) const {
  return side.broken || (side.held.empty() && side.outstanding == 0);
}

// The close of a connection discards the bytes that its kernel still holds.
void RelayPipe::check_end(TimeNs now) {
  if (!sides_[0].ended && !sides_[1].ended) return;
  if (ended_at_ == kNever) ended_at_ = now;
  const bool served =
      (!sides_[0].ended || is_served(sides_[1])) && (!sides_[1].ended || is_served(sides_[0]));
  over_ = served || now - ended_at_ >= kTailBound || mutated(Mutant::relay_tail);
}

void RelayPipe::check_silence(TimeNs now) {
  if (now < next_silence_look_) return;
  next_silence_look_ = now + kSilenceInterval;
  for (const Side& side : sides_) {
    const TimeNs unanswered = side.connection->info().unanswered_ns;
    over_ = over_ || (unanswered != kNever && unanswered > kSilenceMax);
  }
}

// Readiness is level-triggered, so a side whose bytes have no room leaves the poller.
void RelayPipe::watch(Side& side, const Side& other) {
  const bool reads = !side.ended && other.held.empty() && !other.connecting && room(other) > 0;
  if (!reads && !side.connecting) return side.registration.reset();
  if (!side.registration) {
    auto added = host_.reactor.add(side.connection->poll_id(), side, false);
    if (!added.ok()) {
      over_ = true;
      return;
    }
    side.registration = std::move(added).value();
  }
  side.registration.want_write(side.connecting || !side.held.empty());
}

void RelayPipe::progress(TimeNs now) {
  if (over_ || (!ready_ && now < next_look_)) return;
  ready_ = false;
  connect(sides_[1], now);
  move(sides_[0], sides_[1], now);
  move(sides_[1], sides_[0], now);
  check_silence(now);
  check_end(now);
  if (over_) return;
  watch(sides_[0], sides_[1]);
  watch(sides_[1], sides_[0]);
  next_look_ = next_silence_look_;
  for (const Side& side : sides_) {
    if (side.outstanding > 0) next_look_ = std::min(next_look_, now + kActiveInterval);
    const bool blocked = !side.connecting && !side.registration;
    if (blocked) next_look_ = std::min(next_look_, now + kBlockedInterval);
    if (side.connecting) next_look_ = std::min(next_look_, connect_by_);
  }
  if (ready_) next_look_ = now;
}

uint64_t RelayPipe::outstanding(const NicQueue& queue) const {
  uint64_t sum = 0;
  for (const Side& side : sides_) sum += &side.queue == &queue ? side.outstanding : 0;
  return sum;
}

size_t RelayPipe::busy(const NicQueue& queue) const {
  return static_cast<size_t>(std::ranges::count_if(
      sides_, [&](const Side& side) { return &side.queue == &queue && side.outstanding > 0; }));
}

void RelayPipe::check_invariants() const {
  for (const Side& side : sides_) {
    // One read may exceed the window by as much as it shrank meanwhile.
    R2CCL_CHECK(side.held.size() <=
                std::max<size_t>(host_.scratch.size(), kHandshakePayloadBytesMax));
    R2CCL_CHECK(!side.broken || side.held.empty());
  }
}

}  // namespace r2ccl
