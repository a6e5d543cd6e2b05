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

// Leaves room on the link for channels whose ends are closing.
constexpr size_t kConnectionsMax = limits::kChannelsMax - 64;

}  // namespace

Peer::Peer(ProcessDriver& driver, Rank self, const JobOptions& options, uint64_t link, RankInfo own,
           Warn warn)
    : driver_(driver),
      self_(self),
      other_(1 - self.value()),
      link_number_(link),
      own_(std::move(own)),
      warn_(std::move(warn)),
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
  R2CCL_CHECK(!started_);
  if (theirs.rank != other_) return {Code::remote, "the other process has chosen the wrong rank"};
  MetJob met;
  met.rank_table = self_ == Rank(0) ? std::vector{own_, theirs} : std::vector{theirs, own_};
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
  R2CCL_RETURN_IF_ERROR(job_.start(std::move(met)));
  link_number_ = link;
  token_ = token;
  started_ = true;
  return {};
}

bool Peer::usable() const {
  if (!started_) return true;
  return !leaving_ && !failed_ && !link()->peer_said_goodbye() && !link()->peer_ended();
}

Result<WireEnd*> Peer::open_end(uint32_t number, bool sends) {
  R2CCL_CHECK(started_ && !leaving_);
  // Ends that are closed here have channels until they are closed at the other end, too.
  if (link()->channel_count() >= kConnectionsMax) {
    return Status(Code::invalid_usage, "two processes have at most " +
                                           std::to_string(kConnectionsMax) +
                                           " connections with each other");
  }
  auto end = std::make_unique<WireEnd>(*driver_.thread(), number, sends, warn_);
  const bool closing =
      std::ranges::any_of(closing_, [&](const auto& each) { return each->number() == number; });
  if (closing || ends_.contains(number) || job_.parts().is_closed(end->context())) {
    return Status(Code::remote, name_ + " uses the number of a connection twice");
  }
  if (usable()) {
    end->open(*link(), other_);
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

// The link forgets the channel once the other end is closed, too.
void Peer::finish(std::unique_ptr<WireEnd> end) {
  end->cut();
  job_.parts().close(end->context());
  if (ended_there_.erase(end->context()) > 0) job_.parts().forget(end->context(), other_);
  if (link()->peer_ended()) return;
  link()->send_notice(make_notice(NoticeKind::ended, 0, {}, end->context()));
}

void Peer::progress(TimeNs) {
  if (!started_) return;
  for (size_t i = 0; i < closing_.size();) {
    if (!link()->peer_ended() && !link()->idle(closing_[i]->context())) {
      ++i;
      continue;
    }
    std::unique_ptr<WireEnd> end = std::move(closing_[i]);
    closing_.erase(closing_.begin() + static_cast<ptrdiff_t>(i));
    finish(std::move(end));
  }
  if (leaving_ || !idle()) return;
  leaving_ = true;
  if (!link()->peer_ended()) link()->begin_goodbye();
}

void Peer::on_notice(Rank, const NoticeView& notice, std::span<const std::byte>) {
  if (notice.kind != NoticeKind::ended) return;
  if (job_.parts().is_closed(notice.context)) return job_.parts().forget(notice.context, other_);
  // It may come before this end is open.
  if (ended_there_.size() < limits::kChannelsMax) ended_there_.insert(notice.context);
}

void Peer::on_peer_end(Rank, PeerEnd end, const std::string& why) {
  switch (end) {
    case PeerEnd::goodbye:
      return fail("has closed all connections", true);
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

// `harmless`: unless a request waits. The processes of a communicator close one after the other.
void Peer::fail(const std::string& why, bool harmless) {
  if (std::exchange(failed_, true)) return;
  const bool waited =
      std::ranges::any_of(ends_, [](const auto& each) { return each.second->busy(); });
  if (waited || (!harmless && !ends_.empty())) warn_(name_ + " " + why);
  for (const auto& [number, end] : ends_) end->fail(kRemoteError);
}

bool Peer::over() const {
  // A job that has halted gives its parts no passes, and moves no bytes.
  if (job_.engine().halted()) return ends_.empty() && holds_ == 0;
  if (!started_) return idle();
  return leaving_ && link()->goodbye_done();
}

bool Peer::settled() const {
  return over() || !idle() || (leaving_ && link()->goodbye_told());
}

}  // namespace r2ccl::nccl
