// The memory of one rank in the agreement on smaller communicators: its communicators, and its
// promises. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "protocol/shrink/shrink_messages.h"

namespace r2ccl {

// `ranks`: in ascending order.
inline bool has(const std::vector<Rank>& ranks, Rank rank) {
  return std::ranges::binary_search(ranks, rank);
}

// The smaller communicators that a rank has made.
class MadeCommunicators {
 public:
  // All that have one list.
  struct Made {
    std::vector<Rank> excluded;
    uint32_t count = 0;
    Rank by;  // the coordinator of the last one, and its view
    View view;
  };

  // Returns null if there is none.
  const Made* find(const std::vector<Rank>& excluded) const {
    const auto found = std::ranges::find(all_, excluded, &Made::excluded);
    return found == all_.end() ? nullptr : &*found;
  }
  uint32_t count(const std::vector<Rank>& excluded) const {
    const Made* found = find(excluded);
    return found == nullptr ? 0 : found->count;
  }
  // Returns null if the communicator has not been made.
  const View* view_of(const ShrinkSubject& subject) const {
    const Made* found = find(subject.excluded);
    return found != nullptr && found->count > subject.ordinal ? &found->view : nullptr;
  }
  void add(const ShrinkDecision& decision) {
    const uint32_t count = this->count(decision.subject.excluded) + 1;
    std::erase_if(all_,
                  [&](const Made& each) { return each.excluded == decision.subject.excluded; });
    all_.push_back({decision.subject.excluded, count, decision.by, decision.view});
  }
  const std::vector<Made>& all() const { return all_; }

 private:
  std::vector<Made> all_;
};

// The subjects that no lower coordinator decides about any more.
class ShrinkPromises {
 public:
  // The latest promises to one coordinator count: it takes over in one agreement after another.
  static constexpr size_t kMaxOfOne = 8;

  void add(const ShrinkSubject& subject, Rank coordinator) {
    std::erase_if(all_, [&](const Promise& each) {
      return each.subject == subject && each.coordinator <= coordinator;
    });
    const auto theirs = [&](const Promise& each) { return each.coordinator == coordinator; };
    if (static_cast<size_t>(std::ranges::count_if(all_, theirs)) >= kMaxOfOne) {
      all_.erase(std::ranges::find_if(all_, theirs));
    }
    all_.push_back({subject, coordinator});
  }
  bool permit(const ShrinkDecision& decision) const {
    return std::ranges::none_of(all_, [&](const Promise& each) {
      return each.subject == decision.subject && each.coordinator > decision.by;
    });
  }
  struct Promise {
    ShrinkSubject subject;
    Rank coordinator;
  };
  const std::vector<Promise>& all() const { return all_; }

 private:
  std::vector<Promise> all_;
};

}  // namespace r2ccl
