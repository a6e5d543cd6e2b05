// Another process, and the link to it: a job of these two processes, whose one part this is. All
// connections between the two, of all communicators and NICs, are channels of that link.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "nccl/listen_handle.h"
#include "nccl/meeting_messages.h"
#include "nccl/wire_end.h"
#include "runtime/job.h"
#include "runtime/process_driver.h"

namespace r2ccl::nccl {

class Peer;

// Hears of the health of the links.
class PeerWatcher {
 public:
  virtual ~PeerWatcher() = default;
  virtual void on_verdict(Peer& peer, const Verdict& verdict) = 0;
  virtual void on_path_up(Peer& peer, const PathEvent& event) = 0;
};

class Peer final : private JobPart {
 public:
  // `self`: 0 or 1, the other process has the other number. `link`: a random number. All references
  // must outlive this.
  Peer(ProcessDriver& driver, Rank self, const JobOptions& options, uint64_t link, RankInfo own,
       Warn warn, PeerWatcher& watcher);
  ~Peer() override;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Listens on the NICs.
  Status open();
  uint64_t link_number() const { return link_number_; }
  // The other process needs it. Legal from open() on.
  const RankInfo& own_info() const { return own_; }

  // Makes the link. Both processes call it with the same link number and token. Everything below
  // is legal once it has returned Ok.
  Status start(uint64_t link, const RankInfo& theirs, const LockedBytes& token);
  bool started() const { return started_at_.has_value(); }
  const LockedBytes& token() const { return token_; }

  // Returns the number of a new connection that the other process has asked for: those of both
  // processes differ.
  uint32_t next_number() { return std::exchange(next_number_, next_number_ + 2); }
  // Opens this end of a connection, which prefers that NIC; empty: none. The peer keeps it. Fails
  // when there are too many.
  Result<WireEnd*> open_end(uint32_t number, bool sends, const std::string& nic);
  WireEnd* find(uint32_t number);  // null: there is none, or it was closed
  // NCCL uses it no more. Messages that are done but not acknowledged still arrive.
  void close(WireEnd& end);
  // Keeps the link while a meeting for it goes on: one more, or one less.
  void hold(int change) { holds_ += change; }

  Job& job() { return job_; }
  size_t connections() const { return ends_.size(); }
  // Since start().
  TimeNs started_at() const { return *started_at_; }

  // Returns whether new connections may use the link, or the one that it will have.
  bool usable() const;
  // Legal to destroy: the other process knows that this one has left.
  bool over() const;
  // Returns whether the other process knows everything that this one has to tell it at its end.
  bool settled() const;

 private:
  bool idle() const { return ends_.empty() && closing_.empty() && holds_ == 0; }
  void finish(std::unique_ptr<WireEnd> end);
  void fail(const std::string& why);

  // JobPart
  Rank rank_of(Rank peer) const override { return started() ? peer : kNoRank; }
  bool has_context(ContextId) const override { return true; }
  void on_new_context(Rank peer, ContextId context) override;
  bool needs(Rank) const override { return !leaving_; }
  bool misses(Rank) const override { return !failed() && !ends_.empty(); }
  void progress(TimeNs now) override;
  bool leaving() const override { return leaving_; }
  bool failed() const override { return failed_ || has_left_; }
  void on_notice(Rank rank, const NoticeView& notice, std::span<const std::byte> bytes) override;
  void on_path_event(const PathEvent& event) override;
  void on_verdict(size_t place) override;
  void on_peer_end(Rank rank, PeerEnd end, const std::string& why) override;
  void on_contradiction(Rank rank, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override;
  void on_exception(const std::exception& error) noexcept override;
  void on_halted() noexcept override;

  ProcessDriver& driver_;
  const Rank other_;
  uint64_t link_number_;
  RankInfo own_;
  const Warn warn_;
  PeerWatcher& watcher_;
  Job job_;
  LockedBytes token_;
  std::string name_;
  std::map<uint32_t, std::unique_ptr<WireEnd>> ends_;
  std::vector<std::unique_ptr<WireEnd>> closing_;           // their bytes are under way
  std::set<ContextId> ended_there_;                         // connections that are not closed here
  std::map<ContextId, std::vector<ContextId>> ended_here_;  // their lanes; not closed there
  uint32_t next_number_;
  int holds_ = 0;
  std::optional<TimeNs> started_at_;
  bool leaving_ = false;
  bool failed_ = false;
  bool has_left_ = false;  // the other process, in order
};

// These require a peer that has started.
inline Rank other_end(Peer& peer) {
  return Rank(1 - peer.job().self().value());
}
inline const RankInfo& their_info(Peer& peer) {
  return peer.job().engine().job().info(other_end(peer));
}
inline Link& link_of(Peer& peer) {
  return *peer.job().engine().link(other_end(peer));
}
// Returns whether the two processes share a host.
inline bool within_host(Peer& peer) {
  return peer.job().engine().job().hosts() == 1;
}

}  // namespace r2ccl::nccl
