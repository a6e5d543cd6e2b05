#include "runtime/connection/crowd.h"

#include <algorithm>

namespace r2ccl {
namespace {

// So few are no burden, and the peers of a NIC that returns must be able to connect.
constexpr size_t kKeptInAShortage = 16;
constexpr TimeNs kShortageRemembered = 5 * kSecond;

}  // namespace

Crowd::Key Crowd::whole(const Address& address) {
  return address.bytes;
}

Crowd::Key Crowd::network(const Address& address) {
  constexpr size_t kNetworkBytes = 8;
  Key key = address.bytes;
  if (address.family == AddressFamily::ipv6) std::fill(key.begin() + kNetworkBytes, key.end(), 0);
  return key;
}

Crowd::Place::Place(Crowd& crowd, const Address& from) : crowd_(&crowd) {
  const auto own = crowd.reserved_.find(whole(from));
  reserved_ = own != crowd.reserved_.end() && own->second < kReservedPlaces;
  from_ = reserved_ ? whole(from) : network(from);
  if (reserved_) {
    ++own->second;
    return;
  }
  const size_t count = ++crowd.of_network_[from_];
  ++crowd.networks_with_[count];
  if (count > 1 && --crowd.networks_with_[count - 1] == 0) crowd.networks_with_.erase(count - 1);
  ++crowd.size_;
}

Crowd::Place& Crowd::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    reset();
    crowd_ = std::exchange(other.crowd_, nullptr);
    from_ = other.from_;
    reserved_ = other.reserved_;
  }
  return *this;
}

void Crowd::Place::reset() {
  if (crowd_ == nullptr) return;
  Crowd& crowd = *std::exchange(crowd_, nullptr);
  if (reserved_) {
    // The peer may have another address by now.
    const auto own = crowd.reserved_.find(from_);
    if (own != crowd.reserved_.end() && own->second > 0) --own->second;
    return;
  }
  const auto found = crowd.of_network_.find(from_);
  const size_t count = found->second--;
  if (--crowd.networks_with_[count] == 0) crowd.networks_with_.erase(count);
  if (count > 1) {
    ++crowd.networks_with_[count - 1];
  } else {
    crowd.of_network_.erase(found);
  }
  --crowd.size_;
}

bool Crowd::Place::is_of_the_largest() const {
  if (crowd_ == nullptr || reserved_) return false;
  return crowd_->of_network_.at(from_) == crowd_->networks_with_.rbegin()->first;
}

void Crowd::reserve(const std::vector<Address>& peers) {
  std::map<Key, size_t> before = std::exchange(reserved_, {});
  for (const Address& peer : peers) {
    const auto found = before.find(whole(peer));
    reserved_[whole(peer)] = found == before.end() ? 0 : found->second;
  }
}

bool Crowd::shrink(TimeNs now) {
  if (size_ <= kKeptInAShortage) return false;
  size_max_ = std::max(size_ / 2, kKeptInAShortage);
  shrunk_at_ = now;
  return true;
}

void Crowd::recover(TimeNs now) {
  if (now - shrunk_at_ >= kShortageRemembered) size_max_ = limits::kPendingHandshakesMax;
}

}  // namespace r2ccl
