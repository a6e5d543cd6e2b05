// The notices of one link: numbered byte strings, each delivered once and in order, whatever lane
// repeats them and however late. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "protocol/wire.h"

namespace r2ccl {

class NoticeLedger {
 public:
  static constexpr size_t kPerFrame = 16;
  static constexpr size_t kBytesPerFrame = 16 * 1024;

  // --- ours ---
  // False when the peer has applied none for so long that no more are kept.
  bool add(std::vector<std::byte> bytes) {
    if (pending_.size() >= limits::kNoticesPendingMax) return false;
    pending_.push_back({next_++, std::move(bytes)});
    return true;
  }
  // Those that the peer has not applied yet.
  size_t pending() const { return pending_.size(); }
  // The oldest of them, as many as one frame may hold.
  std::vector<NoticeReport> report() const {
    std::vector<NoticeReport> said;
    size_t bytes = 0;
    for (const NoticeReport& notice : pending_) {
      bytes += notice.bytes.size();
      if (said.size() == kPerFrame || bytes > kBytesPerFrame) break;
      said.push_back(notice);
    }
    return said;
  }
  // The peer has applied all below this number.
  void on_applied(uint64_t number) {
    while (!pending_.empty() && pending_.front().number < number) pending_.pop_front();
  }

  // --- the peer's ---
  // Below this number all were delivered.
  uint64_t applied() const { return applied_; }
  // True when this one is to be delivered now: it was not yet, and all before it were.
  bool take(uint64_t number) {
    if (number != applied_) return false;
    ++applied_;
    return true;
  }

 private:
  std::deque<NoticeReport> pending_;
  uint64_t next_ = 0;
  uint64_t applied_ = 0;
};

}  // namespace r2ccl
