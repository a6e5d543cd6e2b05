// What the ranks tell each other of their communicators: failures, calls, ends.
#include <algorithm>
#include <exception>
#include <new>

#include "base/log.h"
#include "runtime/communicator.h"
#include "runtime/failure_notice.h"
#include "runtime/link/notice.h"

namespace r2ccl {

// The first cause counts; what follows from it does not.
bool Communicator::fail_here(const Status& why) {
  {
    std::lock_guard lock(failure_mutex_);
    if (!failure_.ok()) return false;
    failure_ = why;
  }
  R2CCL_LOG(warn, "%s: %s", who(options_.self).c_str(), why.message().c_str());
  cancel_due_ = true;
  cancel_operations();
  return true;
}

// A rank that was told tells the others, too: it may close its connections before the first rank's
// notice reaches them, and they must not take it for dead.
void Communicator::tell_failure(const Failure& failure) {
  const Notice notice = encode_failure_notice(failure);
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    Link* link = engine_->link(Rank(peer));
    if (link != nullptr && !link->peer_ended()) link->send_notice(notice);
  }
}

// The news of a failure should be out before the connections close, so that no rank takes this one
// for the cause. A rank that told of a failure itself needs none, and may have closed already.
void Communicator::wait_for_news(TimeNs bound) {
  const auto known = [this] {
    for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
      const Link* link = engine_->link(Rank(peer));
      if (link == nullptr || informed_[static_cast<size_t>(peer)]) continue;
      if (!link->notices_delivered()) return false;
    }
    return true;
  };
  (void)wait_until(known, bound);
}

void Communicator::fail(const Status& why) {
  if (!fail_here(why)) return;
  const std::string text = why.code() == Code::aborted
                               ? who(options_.self) + " aborted: " + why.message()
                               : why.message();
  tell_failure({{why.code(), text}});
}

// A rank that waits in a call has lost another. To a rank that finalizes it is a call that it did
// not make, and the error must not blame another rank.
void Communicator::fail_departed(const std::string& text) {
  if (!fail_here({finalizing_ ? Code::invalid_usage : Code::remote, text})) return;
  abandoned_ = true;
  tell_failure({{Code::remote, text}, true});
}

void Communicator::on_failure(Rank peer, std::span<const std::byte> body) {
  informed_[static_cast<size_t>(peer.value())] = true;
  const Failure failure = decode_failure(body);
  failure.departed ? fail_departed(failure.why.message()) : fail(failure.why);
}

// Whose buffer it is ends with its call; what it has not said to the others they would wait for.
void Communicator::on_bad_memory(const BadMemory& bad) {
  if (!failure_.ok()) return;
  std::optional<BufferUse> use = executor_->find_buffer(bad);
  if (!use) use = point_to_point_->find_buffer(bad);
  if (!use) use = BufferUse{.call = "a call that has returned"};
  refuse_buffer(*use, bad, nullptr);
}

void Communicator::refuse_buffer(const BufferUse& use, const BadMemory& bad,
                                 const std::shared_ptr<Request>& request) {
  const std::string why = who(options_.self) + ": " + describe(use, bad.access);
  fail({Code::invalid_argument, why});
  if (request != nullptr) complete(request, failure_);
}

// The thread has given up in the middle of something, so no operation can be trusted to end right.
// Mostly a large allocation has failed, and small ones still succeed; if they do not, the next pass
// goes on with cancelling.
void Communicator::fail_by_exception(const std::exception& error) {
  try {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    const std::string why =
        memory ? " has run out of memory: the host, or the limit of this process (ulimit -v, a "
                 "container's memory), has no more to give"
               : std::string(" has failed inside r2ccl: ") + error.what();
    fail({memory ? Code::system : Code::internal, who(options_.self) + why});
  } catch (const std::bad_alloc&) {
    std::lock_guard lock(failure_mutex_);
    if (failure_.ok()) failure_ = Status(Code::system, {});
    cancel_due_ = true;
  }
}

// A rank that left in order will never take part again: whoever needs it must be told.
void Communicator::check_departed() {
  if (finalizing_) return;
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_->link(Rank(peer));
    if (link == nullptr) continue;
    if (link->wants_progress()) return;  // it has more to deliver; the next pass comes at once
    if (link->peer_said_goodbye()) departed_[static_cast<size_t>(peer)] = true;
  }
  if (std::find(departed_.begin(), departed_.end(), true) == departed_.end()) return;
  std::vector<Rank> needed = executor_->waits_on();
  const std::vector<Rank> pairs = point_to_point_->waits_on();
  needed.insert(needed.end(), pairs.begin(), pairs.end());
  for (const Rank rank : needed) {
    if (!departed_[static_cast<size_t>(rank.value())]) continue;
    return fail_departed(who(rank) + " has left: it finalized its communicator while " +
                         who(options_.self) + " still waits for it");
  }
}

void Communicator::cancel_operations() {
  executor_->cancel(failure_);
  point_to_point_->cancel(failure_);
  cancel_due_ = false;
}

CallAudit::Callbacks Communicator::audit_callbacks() {
  CallAudit::Callbacks callbacks;
  callbacks.send = [this](Rank peer, const CallReport& report) { send_calls(peer, report); };
  callbacks.fail = [this](const std::string& why) { fail({Code::invalid_usage, why}); };
  callbacks.who = [this](Rank rank) { return who(rank); };
  callbacks.sends = [this](Rank peer) { return point_to_point_->sends_to(peer); };
  callbacks.receives = [this](Rank peer) { return point_to_point_->receives_from(peer); };
  callbacks.also_waits = [this]() -> std::string {
    const std::vector<Rank> peers = point_to_point_->waits_on();
    if (peers.empty()) return "";
    return ", waiting in a Send or Recv with rank " + std::to_string(peers.front().value());
  };
  return callbacks;
}

void Communicator::on_calls(Rank peer, std::span<const std::byte> body) {
  const auto report = decode_call_report(body);
  if (!report.ok()) {
    R2CCL_LOG(info, "from rank %d: %s", peer.value(), report.status().message().c_str());
    return;
  }
  audit_->on_report(peer, report.value());
  waits_->on_report(peer, report.value(), clock_.now());
  waits_told_ = false;
}

void Communicator::on_path_event(const PathEvent& event) {
  // After a failure ranks leave as they like: what closes then says nothing of NICs.
  if (!finalizing_ && failure_.ok()) incidents_->on_path_event(event);
}

void Communicator::on_notice(Rank peer, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto body = bytes.subspan(1);
  switch (static_cast<NoticeKind>(bytes[0])) {
    case NoticeKind::failure:
      return on_failure(peer, body);
    case NoticeKind::calls:
      return on_calls(peer, body);
    case NoticeKind::observation:
      return incidents_->on_observation(body);
    case NoticeKind::verdict:
      return incidents_->on_verdict(body);
    case NoticeKind::probe_request:
      return incidents_->on_probe_request(peer, body);
    case NoticeKind::probe_answer:
      return incidents_->on_probe_answer(body);
    case NoticeKind::losses:
      return incidents_->on_losses(peer, body);
    case NoticeKind::status_request:
      return on_status_request(peer, body);
    case NoticeKind::status:
      return on_status(peer, body);
    case NoticeKind::drain_question:
      return drains_->on_question(peer, body);
    case NoticeKind::drain_answer:
      return drains_->on_answer(peer, body);
    case NoticeKind::address:
    case NoticeKind::drained:
      return;  // the engine's
  }
  R2CCL_LOG(info, "a notice of unknown kind %d from rank %d", static_cast<int>(bytes[0]),
            peer.value());
}

void Communicator::on_contradiction(Rank peer, const std::string& why) {
  fail(
      {Code::remote, who(peer) + " contradicts " + who(options_.self) + ": " + why +
                         ". No path mends this: the memory of one of the two hosts is at fault, or "
                         "r2ccl. Run the job without these hosts, or report a bug"});
}

void Communicator::on_peer_end(Rank peer, PeerEnd end, const std::string& why) {
  // After a failure processes end as they like, too.
  incidents_->on_peer_gone(peer, failure_.ok() ? end : PeerEnd::goodbye);
  const auto index = static_cast<size_t>(peer.value());
  switch (end) {
    case PeerEnd::goodbye:
      departed_[index] = true;
      return;
    case PeerEnd::dead:
      dead_[index] = true;
      return fail({Code::remote, who(peer) + " died: " + why});
    case PeerEnd::cut_off:
      dead_[index] = true;
      return fail({Code::remote, who(peer) + " is cut off: " + why});
  }
}

}  // namespace r2ccl
