#include "runtime/crowd.h"

#include <algorithm>

namespace r2ccl {
namespace {

// So few are no burden, and the peers of a NIC that returns must be able to come.
constexpr size_t kKeptInAShortage = 16;
constexpr TimeNs kShortageRemembered = 5 * kSecond;

}  // namespace

Crowd::Place::Place(Crowd& crowd, const Address& from) : crowd_(&crowd), from_(from) {
  ++crowd.of_address_[from.bytes];
  ++crowd.size_;
}

Crowd::Place& Crowd::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    reset();
    crowd_ = std::exchange(other.crowd_, nullptr);
    from_ = other.from_;
  }
  return *this;
}

void Crowd::Place::reset() {
  if (crowd_ == nullptr) return;
  const auto found = crowd_->of_address_.find(from_.bytes);
  if (--found->second == 0) crowd_->of_address_.erase(found);
  --crowd_->size_;
  crowd_ = nullptr;
}

bool Crowd::Place::is_of_the_largest() const {
  if (crowd_ == nullptr) return false;
  const auto& all = crowd_->of_address_;
  const size_t mine = all.at(from_.bytes);
  return std::ranges::none_of(all, [&](const auto& other) { return other.second > mine; });
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
