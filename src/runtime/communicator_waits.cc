// The calls of this rank that are not complete, and the ranks that they wait for: for a caller
// whose bound has passed, for the log, the report and the status. WaitTracker finds the rank to
// name.
#include <algorithm>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/communicator.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

bool same(const PendingCall& a, const PendingCall& b) {
  return a.kind == b.kind && a.peer == b.peer && a.number == b.number;
}

}  // namespace

void Communicator::send_calls(Rank peer, CallReport report) {
  Link* link = engine_->link(peer);
  if (!failure_.ok() || link->peer_ended()) return;
  const bool repeated =
      report.reason == CallReport::Reason::compare || report.reason == CallReport::Reason::answer;
  // A peer that takes no notices has the earlier questions before it, and answers those first.
  if (repeated && link->notices_pending() >= limits::kSurveyNoticesAhead) return;
  waits_->complete(peer, clock_.now(), &report);
  const auto subject = static_cast<uint64_t>(report.reason);
  link->send_notice(make_notice(NoticeKind::calls, subject, encode(report)));
}

WaitTracker::Callbacks Communicator::wait_callbacks() {
  WaitTracker::Callbacks callbacks;
  callbacks.send = [this](Rank peer, CallReport::Reason reason) {
    send_calls(peer, audit_->report_to(peer, reason));
  };
  callbacks.waits_on = [this] { return executor_->waits_on(); };
  callbacks.warn = [this](const PendingCall& call, TimeNs waited, const Blocker& blocker) {
    R2CCL_LOG(warn, "%s: waiting for %s (%lld s so far)", describe(call).c_str(),
              words_for(blocker).c_str(), static_cast<long long>(waited / kSecond));
  };
  return callbacks;
}

std::string Communicator::words_for(const Blocker& blocker) const {
  return r2ccl::describe(blocker, [this](Rank rank) { return who(rank); });
}

// After the engine's pass: an answer that has arrived must be read before a rank counts as silent.
void Communicator::progress_waits() {
  const TimeNs now = clock_.now();
  waits_->set_collective(executor_->calls().latest(), !executor_->idle(), now);
  if (const uint64_t changes = awaited_->changes(); changes != awaited_seen_) {
    awaited_seen_ = changes;
    std::vector<PendingCall> transfers;
    awaited_->for_each([&transfers](const Request& request) {
      if (request.call().kind != PendingCall::Kind::collective) transfers.push_back(request.call());
    });
    waits_->set_transfers(transfers, now);
    if (awaited_->take_hurried()) waits_->hurry(now);
    waits_told_ = false;
  }
  if (now >= waits_->next_timeout()) waits_told_ = false;
  waits_->progress(now);
  if (std::exchange(waits_told_, true)) return;
  const std::vector<WaitTracker::Waiting> calls = waits_->calls(now);
  awaited_->for_each(
      [&](Request& request) { request.set_waiting_for(waiting_text(request.call(), calls)); });
}

std::string Communicator::waiting_text(const PendingCall& call,
                                       const std::vector<WaitTracker::Waiting>& calls) const {
  const auto text_of = [this](const WaitTracker::Waiting& waiting) {
    const std::string rank = words_for(waiting.blocker);
    return describe(waiting.call) + (rank.empty() ? "" : ": waiting for " + rank);
  };
  const auto found = std::ranges::find_if(
      calls, [&](const WaitTracker::Waiting& each) { return same(each.call, call); });
  if (found != calls.end()) return text_of(*found);
  const bool queued = call.kind == PendingCall::Kind::collective && !calls.empty() &&
                      calls.front().call.kind == call.kind;
  return describe(call) + (queued ? ": behind " + text_of(calls.front()) : "");
}

void Communicator::write_in_flight(JsonWriter& out) {
  out.key("in_flight").begin_array();
  for (const WaitTracker::Waiting& each : waits_->calls(clock_.now())) {
    out.begin_object()
        .field("call", describe(each.call))
        .field("ms", uint64_t{bounded_ms(each.waited)})
        .field("waits_for", words_for(each.blocker))
        .field("waits_for_rank", each.blocker.rank.value())
        .end_object();
  }
  out.end_array();
}

void Communicator::add_waits(RankSummary& summary) {
  const std::vector<WaitTracker::Waiting> calls = waits_->calls(clock_.now());
  if (calls.empty()) return;
  const auto longest = std::ranges::max_element(calls, {}, &WaitTracker::Waiting::waited);
  summary.call = describe(longest->call);
  summary.call_ms = bounded_ms(longest->waited);
  summary.blocker = longest->blocker;
}

}  // namespace r2ccl
