#include "runtime/job.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "runtime/engine/idle_nics.h"
#include "runtime/query/query_links.h"

namespace r2ccl {
namespace {

void tell_idle_nics(ProgressEngine& engine) {
  for (const IdleNic& idle : find_idle_nics(engine)) R2CCL_LOG(warn, "%s", idle.text.c_str());
}

}  // namespace

Job::Job(ProcessEngine& process, Rank self, const JobOptions& options)
    : process_(process),
      self_(self),
      options_(options),
      engine_(process, *this, options.engine),
      parts_(engine_) {
  process_.add(*this);
}

Job::~Job() {
  process_.remove(*this);
}

Status Job::start(MetJob met) {
  ended_.resize(met.rank_table.size());
  R2CCL_RETURN_IF_ERROR(engine_.start(self_, std::move(met), *this));
  const Clock& clock = process_.clock();
  idle_nics_from_ = clock.now() + kIdleNicsAfter;
  const auto made = [this](size_t place) {
    if (nic_health_ != nullptr) nic_health_->on_verdict(fault_reporter_->verdicts()[place]);
    for (JobPart* part : parts_.all()) part->on_verdict(place);
  };
  members_ = std::make_unique<Members>(engine_);
  host_nics_ = std::make_unique<const HostNics>(engine_.job(), members_->infos());
  query_ = std::make_unique<RankQuery>(self_, static_cast<int32_t>(members_->count()),
                                       query_links(*members_));
  fault_reporter_ = std::make_unique<FaultReporter>(engine_, *host_nics_, *query_, clock, made,
                                                    options_.logs_verdicts);
  drains_ = std::make_unique<Drains>(engine_, *query_, clock, options_.drain_registry);
  return {};
}

NicHealth& Job::nic_health() {
  if (nic_health_ == nullptr) {
    nic_health_ = std::make_unique<NicHealth>(engine_, *host_nics_, process_.clock(), ended_);
  }
  return *nic_health_;
}

bool Job::has_room() const {
  for (size_t i = 0; i < engine_.rank_count(); ++i) {
    const Link* link = engine_.link(Rank(static_cast<int32_t>(i)));
    if (link != nullptr && !link->has_room(parts_.holds())) return false;
  }
  return true;
}

std::vector<Rank> Job::parted() const {
  std::vector<Rank> peers;
  for (size_t i = 0; i < engine_.rank_count(); ++i) {
    const Rank peer(static_cast<int32_t>(i));
    const Link* link = engine_.link(peer);
    const bool parted = link != nullptr && (ended_[i] || link->ends() ||
                                            link->peer_said_goodbye() || link->peer_ended());
    if (parted) peers.push_back(peer);
  }
  return peers;
}

void Job::progress() {
  // Before the start it accepts no connection.
  if (!works()) return engine_.progress();
  for (JobPart* part : parts_.all()) part->begin_pass();
  engine_.progress();
  fault_reporter_->progress(ended_);
  const TimeNs now = engine_.passed_at();  // to read the clock for each takes longer than its work
  query_->progress(now);
  drains_->progress(now);
  if (nic_health_ != nullptr && nic_health_->due(now))
    nic_health_->progress(now, parts_.all_leave());
  // Once: a NIC that serves later needs no line, and one that fails has its verdict. It needs no
  // wake-up of its own.
  if (!idle_nics_told_ && knows_idle_nics(now)) {
    idle_nics_told_ = true;
    tell_idle_nics(engine_);
  }
  for (JobPart* part : parts_.all()) part->progress(now);
}

TimeNs Job::next_timeout() {
  TimeNs next = engine_.next_timeout();
  if (!works()) return next;
  next = std::min(
      {next, fault_reporter_->next_timeout(), query_->next_timeout(), drains_->next_timeout()});
  if (nic_health_ != nullptr) next = std::min(next, nic_health_->next_timeout());
  for (JobPart* part : parts_.all()) next = std::min(next, part->next_timeout());
  return next;
}

bool Job::busy() const {
  if (!works()) return false;
  return engine_.has_unsent() ||
         std::ranges::any_of(parts_.all(), [](const JobPart* part) { return part->busy(); });
}

bool Job::caller_waits_outside(uint64_t comm) const {
  return std::ranges::any_of(parts_.all(),
                             [&](const JobPart* part) { return part->caller_waits_outside(comm); });
}

void Job::on_caller_waits() {
  for (JobPart* part : parts_.all()) part->on_caller_waits();
}

void Job::fail_by_exception(const std::exception& error) noexcept {
  if (engine_.halted()) return;
  for (JobPart* part : parts_.all()) part->on_exception(error);
  engine_.halt();  // first: from the end of an operation on its memory is the caller's
  for (JobPart* part : parts_.all()) part->on_halted();
}

void Job::on_path_event(const PathEvent& event) {
  // After a failure ranks leave in any order: a path that closes then says nothing of NICs. But a
  // peer that has not failed yet may see just that this end has closed it because of its bytes.
  const bool stays = parts_.any_with(
      event.peer, [](const JobPart& part, Rank) { return !part.leaving() && !part.failed(); });
  if (stays || is_of_bytes(event.cause)) fault_reporter_->on_path_event(event);
  if (nic_health_ != nullptr) nic_health_->on_change();
  parts_.for_each_with(event.peer, [&](JobPart& part, Rank) { part.on_path_event(event); });
}

void Job::on_goodbye(Rank peer) {
  const bool early =
      parts_.any_with(peer, [](const JobPart& part, Rank) { return !part.leaving(); });
  if (early) ended_[static_cast<size_t>(peer.value())] = true;
  if (nic_health_ != nullptr) nic_health_->on_end(peer);
  parts_.for_each_with(peer, [](JobPart& part, Rank rank) { part.on_goodbye(rank); });
}

void Job::on_peer_end(Rank peer, PeerEnd end, const std::string& why) {
  // After a failure processes end as they like, too.
  const bool missed =
      parts_.any_with(peer, [](const JobPart& part, Rank rank) { return part.misses(rank); });
  fault_reporter_->on_peer_gone(peer, missed ? end : PeerEnd::goodbye);
  query_->on_end(peer, reachability_of(end));
  ended_[static_cast<size_t>(peer.value())] = true;
  if (nic_health_ != nullptr) nic_health_->on_end(peer);
  parts_.for_each_with(peer, [&](JobPart& part, Rank rank) { part.on_peer_end(rank, end, why); });
}

// The memory of a call that has returned is no part's.
void Job::on_bad_memory(const BadMemory& bad) {
  const auto user =
      std::ranges::find_if(parts_.all(), [&](const JobPart* part) { return part->uses(bad); });
  if (user != parts_.all().end()) return (*user)->on_bad_memory(bad);
  for (JobPart* part : parts_.all()) part->on_bad_memory(bad);
}

void Job::on_contradiction(Rank peer, const std::string& why) {
  parts_.for_each_with(peer, [&](JobPart& part, Rank rank) { part.on_contradiction(rank, why); });
}

void Job::on_notice(Rank peer, std::span<const std::byte> bytes) {
  const NoticeView notice = view_notice(bytes);
  handle(peer, notice);
  parts_.route(peer, notice, bytes);
}

void Job::handle(Rank peer, const NoticeView& notice) {
  const auto body = notice.body;
  switch (notice.kind) {
    case NoticeKind::observation:
      return fault_reporter_->on_observation(peer, body);
    case NoticeKind::excuse:
      return fault_reporter_->on_excuse(peer, body);
    case NoticeKind::verdict:
      return fault_reporter_->on_verdict(peer, body);
    case NoticeKind::vouch:
      return fault_reporter_->on_vouch(peer, body);
    case NoticeKind::losses:
      return fault_reporter_->on_losses(peer, body);
    case NoticeKind::nic_report:
      if (nic_health_ != nullptr) nic_health_->on_report(peer, body);
      return;
    case NoticeKind::nic_rates:
      if (nic_health_ != nullptr) nic_health_->on_rates(peer, body);
      return;
    case NoticeKind::question:
      return query_->on_question(peer, body);
    case NoticeKind::answer:
      return query_->on_answer(peer, body);
    default:
      return;  // a part's, or the engine's
  }
}

}  // namespace r2ccl
