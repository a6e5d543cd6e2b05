#include "runtime/job.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "runtime/engine/idle_nics.h"
#include "runtime/link/notice.h"

namespace r2ccl {

Job::Job(ProcessEngine& process, Rank self, const JobOptions& options, JobPart& part)
    : process_(process),
      self_(self),
      part_(part),
      drain_registry_(options.drain_registry),
      engine_(process, *this, options.engine) {
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
  fault_reporter_ = std::make_unique<FaultReporter>(
      engine_, clock, [this](size_t place) { part_.on_verdict(place); });
  drains_ = std::make_unique<Drains>(engine_, clock, drain_registry_);
  return {};
}

void Job::progress() {
  // Before the start it accepts no connection.
  if (!works()) return engine_.progress();
  part_.begin_pass();
  engine_.progress();
  part_.after_links();
  fault_reporter_->progress(ended_);
  const TimeNs now = engine_.passed_at();  // to read the clock for each takes longer than its work
  drains_->progress(now);
  if (!idle_nics_told_ && knows_idle_nics(now)) tell_idle_nics();
  part_.progress(now);
}

// Once: a NIC that serves later needs no line, and one that fails has its verdict. It needs no
// wake-up of its own.
void Job::tell_idle_nics() {
  idle_nics_told_ = true;
  for (const IdleNic& idle : find_idle_nics(engine_)) R2CCL_LOG(warn, "%s", idle.text.c_str());
}

TimeNs Job::next_timeout() {
  if (!works()) return engine_.next_timeout();
  return std::min({engine_.next_timeout(), fault_reporter_->next_timeout(),
                   drains_->next_timeout(), part_.next_timeout()});
}

void Job::on_path_event(const PathEvent& event) {
  // After a failure ranks leave in any order: a path that closes then says nothing of NICs.
  if (!part_.leaving() && !part_.failed()) fault_reporter_->on_path_event(event);
  part_.on_path_event(event);
}

void Job::on_goodbye(Rank peer) {
  if (!part_.leaving()) ended_[static_cast<size_t>(peer.value())] = true;
  part_.on_goodbye(peer);
}

void Job::on_peer_end(Rank peer, PeerEnd end, const std::string& why) {
  // After a failure processes end as they like, too.
  fault_reporter_->on_peer_gone(peer, part_.failed() ? PeerEnd::goodbye : end);
  ended_[static_cast<size_t>(peer.value())] = true;
  part_.on_peer_end(peer, end, why);
}

void Job::on_notice(Rank peer, std::span<const std::byte> bytes) {
  if (!bytes.empty()) handle(peer, bytes);
  part_.on_notice(peer, bytes);
}

void Job::handle(Rank peer, std::span<const std::byte> notice) {
  const auto body = notice.subspan(1);
  switch (static_cast<NoticeKind>(notice[0])) {
    case NoticeKind::observation:
      return fault_reporter_->on_observation(peer, body);
    case NoticeKind::verdict:
      return fault_reporter_->on_verdict(peer, body);
    case NoticeKind::vouch:
      return fault_reporter_->on_vouch(peer, body);
    case NoticeKind::probe_request:
      return fault_reporter_->on_probe_request(peer, body);
    case NoticeKind::probe_answer:
      return fault_reporter_->on_probe_answer(peer, body);
    case NoticeKind::losses:
      return fault_reporter_->on_losses(peer, body);
    case NoticeKind::drain_question:
      return drains_->on_question(peer, body);
    case NoticeKind::drain_answer:
      return drains_->on_answer(peer, body);
    default:
      return;  // the part's, or the engine's
  }
}

}  // namespace r2ccl
