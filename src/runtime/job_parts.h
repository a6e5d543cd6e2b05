// The communicators of a job: which of them an event concerns, and the notices and numbers of those
// that are not there yet or any more.
//
// Driving thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/ids.h"
#include "runtime/early_notices.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"

namespace r2ccl {

// A communicator of a job, or another user of its links. Calls come from inside passes. A `peer` is
// a number of the job, a `rank` one of the communicator.
class JobPart {
 public:
  virtual ~JobPart() = default;
  // Returns kNoRank if the process is not one of its members.
  virtual Rank rank_of(Rank peer) const = 0;
  virtual bool has_context(ContextId context) const = 0;
  // A member uses a context of which this end has no channel on its link. The part may open or
  // close it, now or later.
  virtual void on_new_context(Rank, ContextId) {}
  // Returns whether it needs the link to one of its members: it has neither left it nor failed.
  virtual bool needs(Rank rank) const = 0;
  // Returns whether the end of a member's process is a fault for it: neither has that one left it,
  // nor has it failed.
  virtual bool misses(Rank rank) const = 0;

  // A pass begins: its events have been read, and nothing else has happened in it.
  virtual void begin_pass() {}
  // The links and the job have had theirs.
  virtual void progress(TimeNs now) = 0;
  virtual TimeNs next_timeout() { return kNever; }
  virtual bool busy() const { return false; }
  // Returns whether it makes no more calls, or has failed: then the other ranks may end as they
  // like.
  virtual bool leaving() const = 0;
  virtual bool failed() const = 0;

  // These events are of its members.
  virtual void on_path_event(const PathEvent&) {}
  virtual void on_notice(Rank rank, const NoticeView& notice, std::span<const std::byte> bytes) = 0;
  virtual void on_goodbye(Rank) {}
  virtual void on_peer_end(Rank rank, PeerEnd end, const std::string& why) = 0;
  virtual void on_contradiction(Rank rank, const std::string& why) = 0;
  virtual void on_verdict(size_t) {}

  // Returns whether one of its calls has given this memory.
  virtual bool uses(const BadMemory&) const { return false; }
  virtual void on_bad_memory(const BadMemory& bad) = 0;
  // All parts end because of the error: first each takes note of it, and has reserved what the
  // peers are to hear; then the engine has halted.
  virtual void on_exception(const std::exception& error) noexcept = 0;
  virtual void on_halted() noexcept = 0;

  // As ProcessEngine::Member.
  virtual bool caller_waits_outside(uint64_t) const { return false; }
  virtual void on_caller_waits() {}
};

class JobParts {
 public:
  // `engine` must outlive this.
  explicit JobParts(ProgressEngine& engine) : engine_(engine) {}

  // Does nothing if the part is there.
  void add(JobPart& part);
  void remove(JobPart& part) { std::erase(all_, &part); }
  const std::vector<JobPart*>& all() const { return all_; }
  bool has_others(const JobPart& part) const {
    return holds_ > 0 ||
           std::ranges::any_of(all_, [&](const JobPart* each) { return each != &part; });
  }
  // Keeps all links: one of its processes may make a communicator over them.
  void hold() { ++holds_; }
  size_t holds() const { return holds_; }
  void release() {
    R2CCL_CHECK(holds_ > 0);
    --holds_;
  }

  // Calls call(JobPart&, Rank) for each part that has the peer, with its rank there.
  template <typename Call>
  void for_each_with(Rank peer, const Call& call) const {
    for (JobPart* part : all_) {
      if (const Rank rank = part->rank_of(peer); rank != kNoRank) call(*part, rank);
    }
  }
  // Returns whether test(const JobPart&, Rank) holds for one of them.
  template <typename Test>
  bool any_with(Rank peer, const Test& test) const {
    return std::ranges::any_of(all_, [&](const JobPart* part) {
      const Rank rank = part->rank_of(peer);
      return rank != kNoRank && test(*part, rank);
    });
  }
  // Returns whether another part makes calls.
  bool go_on_without(const JobPart& part) const;
  bool all_leave() const {
    return std::ranges::all_of(all_, [](const JobPart* part) { return part->leaving(); });
  }
  // Returns whether anything but this part needs the link.
  bool need(Rank peer, const JobPart& but_for) const;

  // Gives a notice to the part that it belongs to, or keeps it until that is there.
  void route(Rank peer, const NoticeView& notice, std::span<const std::byte> bytes);
  // Gives the part the notices that came before it was there.
  void hand_over_notices(const JobPart& part);

  // Returns whether no communicator has had this number.
  bool is_new(ContextId context) const;
  // Marks the context as closed at this end for ever. A link keeps it until its peer is done with
  // it, too. Needs no memory for a context of a part.
  void close(ContextId context);
  bool is_closed(ContextId context) const { return std::ranges::binary_search(closed_, context); }
  // Returns whether the peer has ended the communicator before this process has made it.
  bool has_ended(ContextId context, Rank peer) const {
    return early_notices_.has_end(peer, context);
  }
  // Neither the peer nor this end has more to say in this context: their link forgets it.
  void forget(ContextId context, Rank peer);

 private:
  ProgressEngine& engine_;
  std::vector<JobPart*> all_;
  size_t holds_ = 0;
  std::vector<ContextId> closed_;  // in ascending order
  EarlyNotices early_notices_;
};

}  // namespace r2ccl
