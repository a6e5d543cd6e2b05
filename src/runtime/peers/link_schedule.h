// Knows which links of an engine have work: the links that are marked, and the links with a due
// deadline. Pure. So a pass of the engine costs in proportion to the links with work, not to all
// links.
//
// The marks are a bitmap, so the engine visits links in the order of their ranks and each mark
// once. The deadlines are a tournament tree: the earliest one is its root, and a changed deadline
// costs one step for each level. A heap would need the place of each link in it as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace r2ccl {

class LinkSchedule {
 public:
  // Links have the numbers 0 to links - 1. No link is marked or has a deadline at first.
  explicit LinkSchedule(size_t links = 0);

  void mark(size_t link) {
    uint64_t& word = bits_[link / kBits];
    marked_ += (word & bit_of(link)) == 0 ? 1 : 0;
    word |= bit_of(link);
  }
  bool is_marked(size_t link) const;
  bool any_marked() const { return marked_ > 0; }
  // Takes the mark of the lowest marked link from `from` on, and returns that link.
  std::optional<size_t> take_marked(size_t from);

  // kNever: the link has no deadline.
  void set_deadline(size_t link, TimeNs at);
  TimeNs deadline(size_t link) const { return times_[leaves_ + link]; }
  // Returns the earliest deadline of all links.
  TimeNs next_deadline() const { return times_[1]; }
  // Marks each link with a deadline up to `now`. Its deadline stays.
  void mark_due(TimeNs now) {
    if (next_deadline() <= now) mark_due_below(1, now);
  }

  void check_invariants() const;

 private:
  static constexpr size_t kBits = 64;  // of a word
  static constexpr uint64_t bit_of(size_t link) { return uint64_t{1} << (link % kBits); }

  void mark_due_below(size_t node, TimeNs now);

  size_t links_ = 0;
  size_t marked_ = 0;           // the number of set bits
  std::vector<uint64_t> bits_;  // bit link % 64 of word link / 64 is set: the link is marked
  size_t leaves_ = 1;           // a power of two, >= links_
  // Node 1 is the root, and node n has the children 2n and 2n + 1. A leaf holds a deadline, an
  // inner node the earlier one of its children.
  std::vector<TimeNs> times_;
};

}  // namespace r2ccl
