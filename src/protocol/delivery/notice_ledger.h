// The notices of one link: state that one rank tells another. The ledger delivers each one in spite
// of all faults, however late. Pure.
//
// A notice has a slot: its kind, its communicator and the subject within these. A newer notice of
// the same slot replaces one that the peer has not applied yet, because only the latest value
// counts. A sender that needs each of several notices delivered gives them different subjects. So
// the ledger drops no notice, and a peer that reads nothing for hours costs as much memory as there
// are slots.
//
// Notices are numbered in the order in which they were set. A frame carries the lowest numbers that
// are pending, so the reader may skip a missing number below one that it reads: a newer notice has
// replaced it.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

struct NoticeSlot {
  uint8_t kind = 0;
  uint64_t subject = 0;
  uint64_t context = 0;
  friend auto operator<=>(const NoticeSlot&, const NoticeSlot&) = default;
};

struct Notice {
  NoticeSlot slot;
  std::vector<std::byte> bytes;
};

class NoticeLedger {
 public:
  static constexpr size_t kPerFrame = 16;
  static constexpr size_t kBytesPerFrame = 16 * 1024;

  static_assert(limits::kNoticeBytesMax <= kBytesPerFrame);

  // --- ours ---
  // Requires at most kNoticeBytesMax: a larger notice would block the next ones for ever.
  void set(Notice notice) {
    R2CCL_CHECK(notice.bytes.size() <= limits::kNoticeBytesMax);
    if (mutated(Mutant::one_slot)) notice.slot = {};
    const NoticeSlot slot = notice.slot;
    std::map<uint64_t, Notice> added;
    added.emplace(next_, std::move(notice));
    const auto [number, fresh] = numbers_.try_emplace(slot, next_);
    // From here on nothing needs memory, so a notice is set wholly or not at all.
    if (!fresh) {
      pending_.erase(number->second);
      number->second = next_;
    }
    pending_.merge(added);
    ++next_;
  }
  // Returns the number that the next notice gets.
  uint64_t next() const { return next_; }
  // Returns the number of notices that the peer has not applied yet.
  size_t pending() const { return pending_.size(); }
  // The same, of a kind's notices about these subjects.
  size_t pending(uint8_t kind, uint64_t first_subject, uint64_t last_subject) const {
    const auto first = numbers_.lower_bound({kind, first_subject, 0});
    const auto last = numbers_.upper_bound({kind, last_subject, UINT64_MAX});
    return static_cast<size_t>(std::distance(first, last));
  }
  bool pending(const NoticeSlot& slot) const { return numbers_.contains(slot); }
  // Returns the oldest pending notices, as many as one frame may hold.
  std::vector<NoticeReport> report() const {
    std::vector<NoticeReport> said;
    size_t bytes = 0;
    for (const auto& [number, notice] : pending_) {
      bytes += notice.bytes.size();
      if (said.size() == kPerFrame || bytes > kBytesPerFrame) break;
      said.push_back({number, notice.bytes});
    }
    return said;
  }
  // Records that a frame has carried these notices.
  void on_said(const std::vector<NoticeReport>& said) {
    if (said.empty()) return;
    R2CCL_CHECK(said.back().number < next_);
    said_ = std::max(said_, said.back().number + 1);
  }
  // Records that the peer has applied all notices below this number. Returns whether that makes
  // room in the next frame for notices that no frame has carried yet.
  bool on_applied(uint64_t number) {
    const size_t before = pending_.size();
    while (!pending_.empty() && pending_.begin()->first < number) {
      numbers_.erase(pending_.begin()->second.slot);
      pending_.erase(pending_.begin());
    }
    return pending_.size() < before && !pending_.empty() && pending_.rbegin()->first >= said_;
  }

  // --- the peer's ---
  // Returns the number below which each notice was delivered, or replaced by one that was.
  uint64_t applied() const { return applied_; }
  // Returns whether to deliver this notice now: neither it nor a later one was delivered.
  bool take(uint64_t number) {
    if (number < applied_ || number == UINT64_MAX) return false;
    applied_ = number + 1;
    return true;
  }

  void check_invariants() const {
    R2CCL_CHECK(pending_.size() == numbers_.size());
    for (const auto& [slot, number] : numbers_) R2CCL_CHECK(pending_.at(number).slot == slot);
    R2CCL_CHECK(pending_.empty() || pending_.rbegin()->first < next_);
    R2CCL_CHECK(said_ <= next_);
  }

 private:
  std::map<uint64_t, Notice> pending_;      // by number, below next_
  std::map<NoticeSlot, uint64_t> numbers_;  // their numbers: one notice of each slot
  uint64_t next_ = 0;
  uint64_t said_ = 0;  // <= next_: frames have carried numbers below this one
  uint64_t applied_ = 0;
};

}  // namespace r2ccl
