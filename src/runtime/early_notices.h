// Notices for communicators that this process has not made yet. Their senders are ahead of it.
// The latest notice of each slot counts, so a sender takes no more memory by saying things again.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "runtime/link/notice.h"

namespace r2ccl {

class EarlyNotices {
 public:
  // A notice of the end replaces the others of the same peer and context; after a failure there may
  // be one that the peer has left. A peer that is ahead by more communicators than its unopened
  // channels permit loses notices; its link refuses its messages, too.
  void keep(Rank peer, const NoticeView& notice, std::span<const std::byte> bytes);
  static bool is_end(NoticeKind kind) {
    return kind == NoticeKind::failure || kind == NoticeKind::ended;
  }
  bool has_end(Rank peer, ContextId context) const;

  // Calls `give` with each notice of the contexts that `wanted` accepts, and forgets these.
  template <typename Wanted, typename Give>
  void take(const Wanted& wanted, const Give& give) {
    std::vector<std::pair<Rank, std::vector<std::byte>>> taken;
    for (auto at = kept_.begin(); at != kept_.end();) {
      if (!wanted(at->first.context)) {
        ++at;
        continue;
      }
      taken.emplace_back(at->first.peer, std::move(at->second));
      at = kept_.erase(at);
    }
    for (const auto& [peer, bytes] : taken) give(peer, bytes);
  }
  size_t size() const { return kept_.size(); }

 private:
  struct Slot {
    Rank peer;
    ContextId context;
    NoticeKind kind{};
    uint64_t subject = 0;
    friend auto operator<=>(const Slot&, const Slot&) = default;
  };
  struct Counts {
    size_t living = 0;  // contexts without a notice of the end
    size_t ended = 0;
  };
  using Kept = std::map<Slot, std::vector<std::byte>>;

  std::pair<Kept::iterator, Kept::iterator> of_context(Rank peer, ContextId context);
  Counts count_of(Rank peer) const;
  void keep_end(const Slot& slot, std::span<const std::byte> bytes);

  Kept kept_;
};

}  // namespace r2ccl
