#include "runtime/connection/handshake_limiter.h"

#include <algorithm>

namespace r2ccl {
namespace {

// So few are no burden, and the peers of a NIC that returns must be able to connect.
constexpr size_t kKeptInAShortage = 16;
constexpr TimeNs kShortageRemembered = 5 * kSecond;

}  // namespace

HandshakeLimiter::Key HandshakeLimiter::whole(const Address& address) {
  return address.bytes;
}

HandshakeLimiter::Key HandshakeLimiter::network(const Address& address) {
  constexpr size_t kNetworkBytes = 8;
  Key key = address.bytes;
  if (address.family == AddressFamily::ipv6) std::fill(key.begin() + kNetworkBytes, key.end(), 0);
  return key;
}

HandshakeLimiter::Place::Place(HandshakeLimiter& limiter, const Address& from)
    : limiter_(&limiter) {
  const auto own = limiter.reserved_.find(whole(from));
  reserved_ = own != limiter.reserved_.end() && own->second < kReservedPlaces;
  from_ = reserved_ ? whole(from) : network(from);
  if (reserved_) {
    ++own->second;
    return;
  }
  size_t& count = limiter.of_network_[from_];
  if (limiter.networks_with_.size() < count + 2) limiter.networks_with_.resize(count + 2);
  ++count;  // not before: the line above may fail
  ++limiter.networks_with_[count];
  if (count > 1) --limiter.networks_with_[count - 1];
  limiter.most_ = std::max(limiter.most_, count);
  ++limiter.size_;
}

HandshakeLimiter::Place& HandshakeLimiter::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    reset();
    limiter_ = std::exchange(other.limiter_, nullptr);
    from_ = other.from_;
    reserved_ = other.reserved_;
  }
  return *this;
}

void HandshakeLimiter::Place::reset() {
  if (limiter_ == nullptr) return;
  HandshakeLimiter& limiter = *std::exchange(limiter_, nullptr);
  if (reserved_) {
    // The peer may have another address by now.
    const auto own = limiter.reserved_.find(from_);
    if (own != limiter.reserved_.end() && own->second > 0) --own->second;
    return;
  }
  const auto found = limiter.of_network_.find(from_);
  const size_t count = found->second--;
  const bool was_last = --limiter.networks_with_[count] == 0;
  if (was_last && limiter.most_ == count) --limiter.most_;
  if (count > 1) {
    ++limiter.networks_with_[count - 1];
  } else {
    limiter.of_network_.erase(found);
  }
  --limiter.size_;
}

bool HandshakeLimiter::Place::is_of_the_largest() const {
  if (limiter_ == nullptr || reserved_) return false;
  return limiter_->of_network_.at(from_) == limiter_->most_;
}

void HandshakeLimiter::reserve(const std::vector<Address>& peers) {
  std::map<Key, size_t> before = std::exchange(reserved_, {});
  for (const Address& peer : peers) {
    const auto found = before.find(whole(peer));
    reserved_[whole(peer)] = found == before.end() ? 0 : found->second;
  }
}

bool HandshakeLimiter::shrink(TimeNs now) {
  if (size_ <= kKeptInAShortage) return false;
  size_max_ = std::max(size_ / 2, kKeptInAShortage);
  shrunk_at_ = now;
  return true;
}

void HandshakeLimiter::recover(TimeNs now) {
  if (now - shrunk_at_ >= kShortageRemembered) size_max_ = limits::kPendingHandshakesMax;
}

}  // namespace r2ccl
