#include "runtime/rank_waits.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {
namespace {

bool same(const PendingCall& a, const PendingCall& b) {
  return a.kind == b.kind && a.peer == b.peer && a.number == b.number && a.tag == b.tag;
}

}  // namespace

RankWaits::RankWaits(Members& members, RankQuery& query, const Clock& clock,
                     const Operations& operations, std::string on_communicator, Mismatch mismatch)
    : members_(members),
      query_(query),
      clock_(clock),
      operations_(operations),
      on_communicator_(std::move(on_communicator)),
      mismatch_detector_(members.self(), static_cast<int32_t>(members.count()),
                         operations.executor().calls(), mismatch_callbacks(std::move(mismatch))),
      waits_(members.self(), static_cast<int32_t>(members.count()), wait_callbacks()) {
  query_.serve(QueryTopic::wait, handler());
}

std::string RankWaits::words_for(const PendingCall& call) const {
  return describe(call) + on_communicator_;
}

CollectiveMismatchDetector::Callbacks RankWaits::mismatch_callbacks(Mismatch mismatch) {
  CollectiveMismatchDetector::Callbacks callbacks;
  callbacks.send = [this](Rank peer, const CallReport& report) { send(peer, report); };
  callbacks.fail = [this, mismatch = std::move(mismatch)](const std::string& why, Rank peer) {
    mismatch(why, {peer, members_.self()});
  };
  callbacks.who = [this](Rank rank) { return members_.name_of(rank); };
  callbacks.sends = [this](Rank peer) { return operations_.point_to_point().sends_to(peer); };
  callbacks.receives = [this](Rank peer) {
    return operations_.point_to_point().receives_from(peer);
  };
  callbacks.tagged_sends = [this](Rank peer) {
    return operations_.tagged_messages().sends_to(peer);
  };
  callbacks.called = [this] { return operations_.executor().next_number() - 1; };
  callbacks.unmet_receive = [this](Rank peer, uint64_t sends) {
    return operations_.tagged_messages().unmet_receive(peer, sends);
  };
  callbacks.also_waits = [this]() -> std::string {
    std::vector<Rank> peers = operations_.point_to_point().waits_on();
    if (peers.empty()) peers = operations_.tagged_messages().waits_on();
    if (peers.empty()) return "";
    return ", waiting in a Send or Recv with rank " + std::to_string(peers.front().value());
  };
  return callbacks;
}

WaitTracker::Callbacks RankWaits::wait_callbacks() {
  WaitTracker::Callbacks callbacks;
  callbacks.send = [this](Rank peer, CallReport::Reason reason) {
    send(peer, mismatch_detector_.report_to(peer, reason));
  };
  callbacks.collective = [this](uint64_t number) {
    return pending_call(operations_.executor().calls(), number);
  };
  callbacks.waits_on = [this] { return operations_.executor().waits_on(); };
  callbacks.lacks = [this](const PendingCall& call) {
    const TaggedMessages& messages = operations_.tagged_messages();
    return call.kind == PendingCall::Kind::send_tagged
               ? messages.lacks_receive(call.peer, call.number)
               : messages.lacks_send(call.peer, call.tag, call.number);
  };
  callbacks.doubt = [this](Rank peer) { members_.link(peer)->doubt(); };
  callbacks.silence_of = [this](Rank peer) {
    switch (members_.link(peer)->answerer(clock_.now())) {
      case Answerer::process:
        return Blocker::Kind::silent;
      case Answerer::kernel:
        return Blocker::Kind::stopped;
      case Answerer::nobody:
        break;
    }
    return Blocker::Kind::unreached;
  };
  callbacks.warn = [this](const PendingCall& call, TimeNs waited, const Blocker& blocker) {
    R2CCL_LOG(warn, "%s: waiting for %s (%.1f s so far)", words_for(call).c_str(),
              words_for(blocker).c_str(), static_cast<double>(waited) / kSecond);
  };
  return callbacks;
}

void RankWaits::send(Rank peer, CallReport report) {
  const Link* link = members_.link(peer);
  if (stopped_ || link->peer_ended()) return;
  const bool repeated =
      report.reason == CallReport::Reason::compare || report.reason == CallReport::Reason::answer;
  // A peer that takes no notices has the earlier questions before it, and answers those first.
  if (repeated && link->notices_pending() >= limits::kStatusQueryNoticesAhead) return;
  waits_.complete(peer, clock_.now(), &report);
  switch (report.reason) {
    case CallReport::Reason::compare:
      // One question to each rank stays open, under its number, and is asked again.
      return query_.ask(QueryTopic::wait, static_cast<uint32_t>(peer.value()), {peer},
                        encode_calls(report));
    case CallReport::Reason::answer:
      return query_.answer(QueryTopic::wait, peer, questions_.at(peer), encode_calls(report));
    case CallReport::Reason::differ:
    case CallReport::Reason::end:
    case CallReport::Reason::closing:
      members_.tell(peer, NoticeKind::calls, static_cast<uint64_t>(report.reason), encode(report));
  }
}

RankQuery::Handler RankWaits::handler() {
  RankQuery::Handler handler;
  handler.question = [this](Rank from, uint32_t number,
                            std::span<const std::byte> body) -> Result<RankQuery::Reply> {
    const auto report = decode_calls(CallReport::Reason::compare, body);
    if (!report.ok()) return report.status();
    questions_[from] = number;
    take(from, report.value());
    return RankQuery::Reply();  // the tracker has answered
  };
  handler.answer = [this](Rank from, uint32_t,
                          std::span<const std::byte> body) -> Result<std::string> {
    const auto report = decode_calls(CallReport::Reason::answer, body);
    if (!report.ok()) return report.status();
    take(from, report.value());
    return std::string();
  };
  return handler;
}

void RankWaits::take(Rank peer, const CallReport& report) {
  mismatch_detector_.on_report(peer, report);
  waits_.on_report(peer, report, clock_.now());
  changed_ = true;
}

void RankWaits::on_notice(Rank peer, std::span<const std::byte> body) {
  const auto report = decode_call_report(body);
  if (report.ok()) return take(peer, report.value());
  R2CCL_LOG(info, "from rank %d: %s", peer.value(), report.status().message().c_str());
}

void RankWaits::set_transfers(const std::vector<PendingCall>& transfers, bool hurried) {
  const TimeNs now = clock_.now();
  waits_.set_transfers(transfers, now);
  if (hurried) waits_.hurry(now);
  changed_ = true;
}

void RankWaits::progress(TimeNs now) {
  if (!stopped_) mismatch_detector_.check_closing();
  const Executor& executor = operations_.executor();
  waits_.set_collective(executor.calls().latest().number, !executor.idle(), now);
  if (now >= waits_.next_timeout()) changed_ = true;
  waits_.progress(now);
}

std::string RankWaits::words_for(const Blocker& blocker) const {
  return describe(blocker, [this](Rank rank) { return members_.name_of(rank); });
}

WaitCause RankWaits::cause_of(const PendingCall& call, const std::vector<Waiting>& calls) const {
  const auto cause_in = [this](const Waiting& waiting) {
    const Blocker& blocker = waiting.blocker;
    const std::string rank = words_for(blocker);
    return WaitCause{words_for(waiting.call) + (rank.empty() ? "" : ": waiting for " + rank),
                     blocker.actionable() ? blocker.rank : kNoRank};
  };
  const auto found =
      std::ranges::find_if(calls, [&](const Waiting& each) { return same(each.call, call); });
  if (found != calls.end()) return cause_in(*found);
  WaitCause cause{words_for(call)};
  const bool queued = call.kind == PendingCall::Kind::collective && !calls.empty() &&
                      calls.front().call.kind == call.kind;
  if (queued) {
    const WaitCause first = cause_in(calls.front());
    cause.text += ": behind " + first.text;
    cause.late = first.late;
  }
  return cause;
}

}  // namespace r2ccl
