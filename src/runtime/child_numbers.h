// The numbers of the communicators that come from another one. All ranks that make one of them find
// the same number without a message: a hash of public values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "protocol/wire/crypto.h"

namespace r2ccl {

class ChildNumbers {
 public:
  // `parent`: the parent's own number.
  explicit ChildNumbers(uint64_t parent) : parent_(parent) {}

  // Returns the number for a color. All ranks of the parent call it for each of its splits, in the
  // same order; their callers see to that.
  ContextId of_split(int64_t color);
  // Returns that of a group of these ranks of the parent, which alone call it. Groups of the same
  // ranks and name have different numbers. Any thread may call it.
  ContextId of_group(std::span<const Rank> ranks, std::string_view name);
  // Returns that of the processes that have met in this run, over the links of an older job.
  static ContextId of_meeting(std::span<const std::byte> run);
  // Returns that of the parent without these ranks. `ordinal`: how many there were with this list.
  ContextId of_shrink(std::span<const Rank> excluded, uint32_t ordinal) const;

 private:
  ContextId hash_of(std::span<const std::byte> input) const;

  const uint64_t parent_;
  uint64_t splits_ = 0;
  std::mutex mutex_;                         // guards groups_
  std::map<crypto::Hash, uint64_t> groups_;  // how many there were, by ranks and name
};

}  // namespace r2ccl
