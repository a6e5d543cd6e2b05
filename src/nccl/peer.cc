#include "nccl/peer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/link/notice.h"
#include "runtime/peers/tell_hosts_apart.h"

namespace r2ccl::nccl {
namespace {

// Leaves room on the link for channels whose ends are closing, and for those that the other
// process opens at the same time.
constexpr size_t kLanesMax = limits::kChannelsMax - 64;

// Returns whether no message of its lanes is under way.
bool at_rest(const WireEnd& end, const Link& link) {
  return std::ranges::all_of(end.lanes(),
                             [&](const auto& lane) { return link.idle(lane.context); });
}

// No path between processes of one host has a NIC, so they prefer one in vain.
NicId find_nic(const RankInfo& info, const std::string& name) {
  const auto found = std::ranges::find(info.nics, name, &NicInfo::name);
  if (found == info.nics.end()) return kNoNic;
  return NicId(static_cast<uint16_t>(found - info.nics.begin()));
}

// Everything that the other process sent has arrived, and a receive that is posted now may take it.
// The others have nothing to wait for. The processes of a communicator close one after the other,
// so this is no error unless a request waits: warn() says so first.
template <typename Ends, typename WarnOfIt>
void end_with_the_peer(const Ends& ends, const WarnOfIt& warn) {
  if (std::ranges::any_of(ends, [](const auto& each) { return each.second->busy(); })) warn();
  for (const auto& [number, end] : ends) {
    if (end->sends() || end->busy()) end->fail(kRemoteError);
  }
}

}  // namespace

Peer::Peer(ProcessDriver& driver, Rank self, const JobOptions& options, uint64_t link, RankInfo own,
           Warn warn, PeerWatcher& watcher)
    : driver_(driver),
      other_(1 - self.value()),
      link_number_(link),
      own_(std::move(own)),
      warn_(std::move(warn)),
      watcher_(watcher),
      job_(driver.engine(), self, options),
      next_number_(static_cast<uint32_t>(self.value())) {
  own_.rank = self;
  job_.parts().add(*this);
}

Peer::~Peer() {
  job_.parts().remove(*this);
}

Status Peer::open() {
  R2CCL_RETURN_IF_ERROR(job_.open());
  job_.describe(own_);
  return {};
}

Status Peer::start(uint64_t link, const RankInfo& theirs, const LockedBytes& token) {
  R2CCL_CHECK(!started() && !failed_);
  if (theirs.rank != other_) return {Code::remote, "the other process has chosen the wrong rank"};
  MetJob met;
  met.rank_table = job_.self() == Rank(0) ? std::vector{own_, theirs} : std::vector{theirs, own_};
  R2CCL_RETURN_IF_ERROR(check_agreement(met.rank_table));
  // Both ends compute the key from the table as both have it.
  std::vector<std::byte> table;
  for (const RankInfo& info : met.rank_table) {
    const auto bytes = encode(info);
    if (!bytes.ok()) return bytes.status();
    table.insert(table.end(), bytes.value().begin(), bytes.value().end());
  }
  JobIdentity identity;
  ByteWriter(table).put(link);
  met.run = make_run_identity(identity, token, table);
  (void)tell_hosts_apart(met.rank_table);
  R2CCL_RETURN_IF_ERROR(check_reachable(met.rank_table));
  name_ = "process " + std::to_string(theirs.pid) + " of host " + theirs.host_name;
  if (const Status status = job_.start(std::move(met)); !status.ok()) {
    failed_ = true;  // a job starts once
    return status;
  }
  job_.drains().take_over();
  link_number_ = link;
  token_ = token;
  started_at_ = driver_.clock().now();
  return {};
}

bool Peer::usable() const {
  if (!started()) return !failed_;
  const Link& link = *job_.engine().link(other_);
  return !leaving_ && !failed_ && !link.peer_said_goodbye() && !link.peer_ended();
}

Result<WireEnd*> Peer::open_end(uint32_t number, bool sends, const std::string& nic) {
  R2CCL_CHECK(started() && !leaving_);
  // Ends that are closed here have channels until they are closed at the other end, too. An end
  // without one will have one.
  const auto idle =
      std::ranges::count_if(ends_, [](const auto& each) { return each.second->lanes().empty(); });
  if (link_of(*this).channel_count() + static_cast<size_t>(idle) >= kLanesMax ||
      number > LaneName::kNumberMax) {
    return Status(Code::invalid_usage, "two processes have at most " + std::to_string(kLanesMax) +
                                           " connections with each other, and tags of these");
  }
  const bool closing =
      std::ranges::any_of(closing_, [&](const auto& each) { return each->number() == number; });
  if (closing || ends_.contains(number) ||
      job_.parts().is_closed(LaneName::context_of_connection(number))) {
    return Status(Code::remote, name_ + " uses the number of a connection twice");
  }
  auto end = std::make_unique<WireEnd>(*driver_.thread(), number, sends, warn_);
  if (usable()) {
    end->open(link_of(*this), other_, find_nic(own_, nic),
              [this] { return link_of(*this).channel_count() < kLanesMax; });
  } else {
    end->fail(kRemoteError);
  }
  return (ends_[number] = std::move(end)).get();
}

WireEnd* Peer::find(uint32_t number) {
  const auto found = ends_.find(number);
  return found == ends_.end() ? nullptr : found->second.get();
}

void Peer::close(WireEnd& end) {
  auto node = ends_.extract(end.number());
  R2CCL_CHECK(!node.empty());
  std::unique_ptr<WireEnd> closed = std::move(node.mapped());
  // NCCL may free the memory of requests that have not ended.
  if (!closed->sends() || closed->busy()) closed->cut();
  closing_.push_back(std::move(closed));
}

// The link forgets the lanes once the other end is closed, too.
void Peer::finish(std::unique_ptr<WireEnd> end) {
  end->cut();
  const ContextId name = end->name();
  std::vector<ContextId> lanes;
  for (const WireEnd::Lane& lane : end->lanes()) lanes.push_back(lane.context);
  job_.parts().close(name);
  for (const ContextId lane : lanes) job_.parts().close(lane);
  if (ended_there_.erase(name) > 0) {
    for (const ContextId lane : lanes) job_.parts().forget(lane, other_);
  } else {
    ended_here_[name] = std::move(lanes);
  }
  if (link_of(*this).peer_ended()) return;
  link_of(*this).send_notice(make_notice(NoticeKind::ended, 0, {}, name));
}

// The other process has used the tag of a connection first. It may do so after this end was closed:
// then the messages are thrown away.
void Peer::on_new_context(Rank, ContextId context) {
  const auto lane = LaneName::of(context);
  if (!lane) return;
  const bool full = link_of(*this).channel_count() >= limits::kChannelsMax;
  WireEnd* end = find(lane->number);
  for (const auto& each : closing_) {
    if (each->number() == lane->number) end = each.get();
  }
  if (end != nullptr) {
    if (!full && !end->on_new_lane(lane->tag)) link_of(*this).discard(context);
    return;
  }
  const ContextId name = LaneName::context_of_connection(lane->number);
  if (!job_.parts().is_closed(name)) return;
  job_.parts().close(context);
  const auto ended = ended_here_.find(name);
  if (full || ended == ended_here_.end()) return;  // if both are closed, it is a late copy
  ended->second.push_back(context);
  link_of(*this).discard(context);
}

void Peer::progress(TimeNs) {
  if (!started()) return;
  for (size_t i = 0; i < closing_.size();) {
    if (!link_of(*this).peer_ended() && !at_rest(*closing_[i], link_of(*this))) {
      ++i;
      continue;
    }
    std::unique_ptr<WireEnd> end = std::move(closing_[i]);
    closing_.erase(closing_.begin() + static_cast<ptrdiff_t>(i));
    finish(std::move(end));
  }
  if (has_left_ && link_of(*this).all_delivered()) {
    end_with_the_peer(ends_, [this] { warn_(name_ + " has closed all connections"); });
  }
  if (leaving_ || !idle()) return;
  leaving_ = true;
  if (!link_of(*this).peer_ended()) link_of(*this).begin_goodbye();
}

void Peer::on_notice(Rank, const NoticeView& notice, std::span<const std::byte>) {
  if (notice.kind != NoticeKind::ended) return;
  if (job_.parts().is_closed(notice.context)) {
    const auto ended = ended_here_.extract(notice.context);
    if (ended.empty()) return;
    for (const ContextId lane : ended.mapped()) job_.parts().forget(lane, other_);
    return;
  }
  // It may come before this end is open.
  if (ended_there_.size() < limits::kChannelsMax) ended_there_.insert(notice.context);
}

void Peer::on_path_event(const PathEvent& event) {
  if (event.to == PathPhase::up) watcher_.on_path_up(*this, event);
}

void Peer::on_verdict(size_t place) {
  watcher_.on_verdict(*this, job_.fault_reporter().verdicts()[place]);
}

void Peer::on_peer_end(Rank, PeerEnd end, const std::string& why) {
  switch (end) {
    case PeerEnd::goodbye:
      has_left_ = true;
      return;
    case PeerEnd::dead:
      return fail("has ended: " + why);
    case PeerEnd::cut_off:
      return fail("cannot be reached: " + why);
  }
}

void Peer::on_contradiction(Rank, const std::string& why) {
  fail("contradicts itself: " + why);
}

void Peer::on_bad_memory(const BadMemory&) {
  fail("needs bytes of memory that this process cannot touch");
}

void Peer::on_exception(const std::exception& error) noexcept {
  failed_ = true;
  try {
    warn_("connections to " + name_ + " end: " + error.what());
  } catch (const std::exception&) {  // without a line, for want of memory
  }
}

void Peer::on_halted() noexcept {
  for (const auto& [number, end] : ends_) end->abandon();
}

void Peer::fail(const std::string& why) {
  if (std::exchange(failed_, true)) return;
  if (!ends_.empty()) warn_(name_ + " " + why);
  for (const auto& [number, end] : ends_) end->fail(kRemoteError);
}

bool Peer::over() const {
  // A job that has halted gives its parts no passes, and moves no bytes.
  if (job_.engine().halted()) return ends_.empty() && holds_ == 0;
  if (!started()) return idle();
  return leaving_ && job_.engine().link(other_)->goodbye_done();
}

bool Peer::settled() const {
  if (over() || (leaving_ && job_.engine().link(other_)->goodbye_told())) return true;
  return closing_.empty() && !idle();
}

}  // namespace r2ccl::nccl
