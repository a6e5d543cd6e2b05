#include "runtime/peers/link_schedule.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {

LinkSchedule::LinkSchedule(size_t links)
    : links_(links),
      bits_((links + kBits - 1) / kBits),
      leaves_(std::bit_ceil(std::max<size_t>(links, 1))),
      times_(2 * leaves_, kNever) {}

bool LinkSchedule::is_marked(size_t link) const {
  return (bits_[link / kBits] & bit_of(link)) != 0;
}

std::optional<size_t> LinkSchedule::take_marked(size_t from) {
  if (marked_ == 0 || from >= links_) return std::nullopt;
  uint64_t bits = bits_[from / kBits] & ~(bit_of(from) - 1);
  size_t word = from / kBits;
  while (bits == 0) {
    if (++word == bits_.size()) return std::nullopt;
    bits = bits_[word];
  }
  const size_t link = word * kBits + static_cast<size_t>(std::countr_zero(bits));
  bits_[word] &= ~bit_of(link);
  --marked_;
  return link;
}

void LinkSchedule::set_deadline(size_t link, TimeNs at) {
  size_t node = leaves_ + link;
  if (mutated(Mutant::stale_deadline) && at < times_[node] && times_[node] != kNever) return;
  while (times_[node] != at) {
    times_[node] = at;
    if (node == 1) return;
    at = std::min(at, times_[node ^ 1]);
    node /= 2;
  }
}

void LinkSchedule::mark_due_below(size_t node, TimeNs now) {
  if (times_[node] > now) return;
  if (node >= leaves_) return mark(node - leaves_);
  mark_due_below(2 * node, now);
  mark_due_below(2 * node + 1, now);
}

void LinkSchedule::check_invariants() const {
  size_t marked = 0;
  for (const uint64_t word : bits_) marked += static_cast<size_t>(std::popcount(word));
  R2CCL_CHECK(marked == marked_);
  for (size_t node = 1; node < leaves_; ++node) {
    R2CCL_CHECK(times_[node] == std::min(times_[2 * node], times_[2 * node + 1]));
  }
}

}  // namespace r2ccl
