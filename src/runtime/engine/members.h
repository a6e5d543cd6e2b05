// The ranks of a communicator: who they are, the link to each, and notices to them. Links and
// everything below them know a process by its number in the job, its peer number; a communicator
// knows it by its rank.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"
#include "runtime/peers/job_map.h"

namespace r2ccl {

class Members {
 public:
  // All processes of the engine's job, which has started: the first context. The engine must
  // outlive this.
  explicit Members(ProgressEngine& engine);
  // These of them: rank i is the process with the number peers[i], and `self` is this one.
  Members(ProgressEngine& engine, ContextId context, Rank self, std::vector<Rank> peers);

  ContextId context() const { return context_; }

  Rank self() const { return self_; }
  size_t count() const { return peers_.size(); }
  // Returns the hosts of the ranks.
  const HostMap& map() const { return own_map_ != nullptr ? *own_map_ : engine_.job(); }
  // Returns what the job knows of the rank's process. `rank` in it is the peer number.
  const RankInfo& info(Rank rank) const { return engine_.job().info(peer_of(rank)); }
  // By rank.
  std::vector<const RankInfo*> infos() const;
  std::string name_of(Rank rank) const { return describe(rank, info(rank)); }
  // Returns the name of a host in its lowest rank's words.
  const std::string& host_name(size_t host) const { return info(map().leader(host)).host_name; }

  // Returns the number of the rank's host in the job.
  uint32_t job_host_of(Rank rank) const { return engine_.job().host_of(peer_of(rank)); }
  Rank peer_of(Rank rank) const { return peers_[static_cast<size_t>(rank.value())]; }
  // Returns kNoRank if the process is not one of them; `peer` may be any number.
  Rank rank_of(Rank peer) const {
    const auto index = static_cast<size_t>(peer.value());
    return index < ranks_.size() ? ranks_[index] : kNoRank;
  }
  // Returns null for this rank.
  Link* link(Rank rank) { return engine_.link(peer_of(rank)); }
  const Link* link(Rank rank) const { return std::as_const(engine_).link(peer_of(rank)); }

  // Returns the slot of a notice whose kind has one subject.
  NoticeSlot slot(NoticeKind kind) const {
    return {static_cast<uint8_t>(kind), 0, context_.value()};
  }
  Notice make(NoticeKind kind, uint64_t subject, std::span<const std::byte> body) const {
    return make_notice(kind, subject, body, context_);
  }
  // Requires another rank.
  void tell(Rank rank, NoticeKind kind, uint64_t subject, std::span<const std::byte> body) {
    link(rank)->send_notice(make(kind, subject, body));
  }
  void tell(Rank rank, NoticeKind kind, std::span<const std::byte> body) {
    tell(rank, kind, 0, body);
  }

  const LocalNics& nics() const { return engine_.nics(); }

 private:
  ProgressEngine& engine_;
  const ContextId context_;
  const Rank self_;
  std::vector<Rank> peers_;                 // by rank
  std::vector<Rank> ranks_;                 // by peer number; kNoRank: not one of them
  std::unique_ptr<const HostMap> own_map_;  // null: the engine's
};

}  // namespace r2ccl
