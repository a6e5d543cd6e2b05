#include "api/registrations.h"

#include <algorithm>

namespace r2ccl::api {
namespace {

uintptr_t begin_of(std::span<const std::byte> range) {
  return reinterpret_cast<uintptr_t>(range.data());
}

}  // namespace

void* Registrations::add(std::span<const std::byte> range, Access access) {
  const std::lock_guard lock(mutex_);
  const uintptr_t begin = begin_of(range);
  entries_.emplace(begin, Entry{begin + range.size(), access, ++last_});
  count_.store(entries_.size(), std::memory_order_release);
  // A number in the shape of a pointer, which nothing dereferences.
  return reinterpret_cast<void*>(last_);  // NOLINT(performance-no-int-to-ptr)
}

bool Registrations::remove(const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto number = reinterpret_cast<uintptr_t>(handle);
  const auto found = std::ranges::find_if(
      entries_, [number](const auto& entry) { return entry.second.number == number; });
  if (found == entries_.end()) return false;
  entries_.erase(found);
  count_.store(entries_.size(), std::memory_order_release);
  return true;
}

bool Registrations::covers(std::span<const std::byte> range, Access access) const {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(mutex_);
  const uintptr_t begin = begin_of(range);
  auto at = entries_.upper_bound(begin);
  for (int look = 0; look < kLooks && at != entries_.begin(); ++look) {
    const Entry& entry = (--at)->second;
    if (range.size() > entry.end - std::min(begin, entry.end)) continue;
    if (access == Access::read || entry.access == Access::write) return true;
  }
  return false;
}

}  // namespace r2ccl::api
