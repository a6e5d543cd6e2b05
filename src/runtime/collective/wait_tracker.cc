#include "runtime/collective/wait_tracker.h"

#include <algorithm>
#include <tuple>

namespace r2ccl {
namespace {

constexpr TimeNs kTick = 250 * kMillisecond;
// The shortest time between two early questions, and between two unrequested answers.
constexpr TimeNs kSpacing = 100 * kMillisecond;
// Longer than the longest time between two questions plus the answers' way along a chain.
constexpr TimeNs kRootAgeMax = 25 * kSecond;
constexpr TimeNs kRequesterAgeMax = 30 * kSecond;

int weight(const Blocker& blocker) {
  if (blocker.is_root()) return blocker.is_silent() ? 5 : 6;
  return std::min(static_cast<int>(blocker.kind), static_cast<int>(Blocker::Kind::behind));
}

// Returns whether `a` is the more useful blocker. Between equal states it prefers the rank that is
// further behind, then the lower rank, so that all ranks choose alike.
bool says_more(const Blocker& a, const Blocker& b) {
  if (weight(a) != weight(b)) return weight(a) > weight(b);
  return std::tie(a.number, a.rank) < std::tie(b.number, b.rank);
}

}  // namespace

void WaitTracker::set_collective(uint64_t latest, bool running, TimeNs now) {
  const bool same = latest == latest_ && running == collective_.has_value();
  if (same) return;
  latest_ = latest;
  if (!running) {
    collective_.reset();
  } else {
    if (!collective_) collective_ = Watched{};  // not emplace(), which clang 14 rejects
    collective_->call.number = latest;
    collective_->since = now;
    collective_->warned = false;
    collective_->ask_at = 0;
  }
  tell_requesters(now);
  schedule(now);
}

void WaitTracker::set_transfers(const std::vector<PendingCall>& transfers, TimeNs now) {
  std::vector<Watched> next;
  for (const PendingCall& call : transfers) {
    const auto known = std::ranges::find(transfers_, call, &Watched::call);
    if (known != transfers_.end()) {
      next.push_back(*known);
      continue;
    }
    const auto warned = warned_.find({call.kind, call.peer});
    next.push_back({call, now, warned != warned_.end() && call.number <= warned->second});
  }
  transfers_ = std::move(next);
  tell_requesters(now);
  schedule(now);
}

template <typename Tracker, typename Each>
void WaitTracker::for_each_watched(Tracker& tracker, const Each& each) {
  if (tracker.collective_) each(*tracker.collective_);
  for (auto& transfer : tracker.transfers_) each(transfer);
}

PendingCall WaitTracker::details_of(const PendingCall& call) const {
  return call.kind == PendingCall::Kind::collective ? callbacks_.collective(call.number) : call;
}

std::vector<Rank> WaitTracker::peers_of(const PendingCall& call) const {
  if (call.kind == PendingCall::Kind::collective) return callbacks_.waits_on();
  if (call.peer == self_) return {};
  return {call.peer};
}

// Returns the call that the peer has not made yet, according to its report.
Blocker WaitTracker::lack_of(const PendingCall& call, Rank peer, const CallReport& report) const {
  Blocker blocker;
  blocker.rank = peer;
  blocker.kind = Blocker::Kind::done;
  switch (call.kind) {
    case PendingCall::Kind::collective:
      if (report.number < call.number) {
        blocker.kind = Blocker::Kind::behind;
        blocker.number = report.number;
      } else if (report.number == call.number && report.waits) {
        blocker.kind = Blocker::Kind::running;
      }
      return blocker;
    case PendingCall::Kind::send:
      if (report.receives >= call.number) return blocker;
      blocker.kind = Blocker::Kind::no_recv;
      blocker.number = report.receives;
      break;
    case PendingCall::Kind::receive:
      if (report.sends >= call.number) return blocker;
      blocker.kind = Blocker::Kind::no_send;
      blocker.number = report.sends;
      break;
    case PendingCall::Kind::send_tagged:
    case PendingCall::Kind::receive_tagged:
      if (!callbacks_.lacks(call)) return blocker;
      blocker.kind = call.kind == PendingCall::Kind::send_tagged ? Blocker::Kind::no_tagged_recv
                                                                 : Blocker::Kind::no_tagged_send;
      blocker.number = static_cast<uint64_t>(call.tag);
      break;
  }
  blocker.towards = self_;
  return blocker;
}

// Returns none for a rank that owes no answer, or may answer yet.
std::optional<Blocker::Kind> WaitTracker::silence_of(Rank peer, const Standing& standing,
                                                     TimeNs now) const {
  if (standing.asked_at < 0 || now - standing.asked_at < kSilentAfter) return std::nullopt;
  const Blocker::Kind kind = callbacks_.silence_of(peer);
  const bool heard = kind == Blocker::Kind::silent;
  if (heard && now - standing.asked_at < kSilentThoughHeardAfter) return std::nullopt;
  return kind;
}

WaitTracker::Found WaitTracker::look_at(const Watched& watched, Rank peer, TimeNs now) const {
  Found found{{.kind = Blocker::Kind::unknown, .rank = peer}, self_, now};
  const auto at = standings_.find(peer);
  if (at == standings_.end()) return found;
  const Standing& standing = at->second;
  if (const auto silence = silence_of(peer, standing, now)) {
    found.blocker.kind = *silence;
    return found;
  }
  // An answer from before the call says nothing about it.
  if (standing.heard_at < watched.since) return found;
  const CallReport& report = standing.report;
  found = {lack_of(watched.call, peer, report), self_, standing.heard_at};
  if (!report.waits) return found;
  const TimeNs stated_at = standing.heard_at - TimeNs{report.root_age_ms} * kMillisecond;
  if (report.root.is_root() && report.root.rank != self_ && now - stated_at <= kRootAgeMax) {
    return {report.root, peer, stated_at};
  }
  if (found.blocker.actionable()) found.blocker.waits_for = report.waits_for;
  return found;
}

WaitTracker::Found WaitTracker::find(const Watched& watched, TimeNs now) const {
  Found best;
  for (const Rank peer : peers_of(watched.call)) {
    const Found found = look_at(watched, peer, now);
    const bool first = best.blocker.kind == Blocker::Kind::none;
    if (first || says_more(found.blocker, best.blocker)) best = found;
  }
  return best;
}

WaitTracker::Found WaitTracker::find_any(TimeNs now) const {
  Found best;
  for_each_watched(*this, [&](const Watched& each) {
    const Found found = find(each, now);
    const bool first = best.blocker.kind == Blocker::Kind::none;
    if (first || says_more(found.blocker, best.blocker)) best = found;
  });
  return best;
}

WaitTracker::State WaitTracker::state(const Found& found) const {
  State state;
  state.number = latest_;
  state.waits = collective_.has_value() || !transfers_.empty();
  if (!state.waits) return state;
  state.waits_for = found.from == self_ ? found.blocker.rank : found.from;
  if (found.blocker.is_root()) state.root = found.blocker;
  return state;
}

void WaitTracker::complete(Rank peer, TimeNs now, CallReport* report) const {
  const Found found = find_any(now);
  const State mine = state(found);
  report->waits = mine.waits;
  report->waits_for = mine.waits_for;
  report->root = Blocker();
  report->root_age_ms = 0;
  if (found.from == peer || mine.root.kind == Blocker::Kind::none) return;
  report->root = mine.root;
  report->root_age_ms = static_cast<uint32_t>(
      std::clamp<TimeNs>((now - found.stated_at) / kMillisecond, 0, UINT32_MAX));
}

void WaitTracker::ask(std::vector<Rank> peers, TimeNs now) {
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  for (const Rank peer : peers) {
    Standing& standing = standings_[peer];
    if (standing.asked_at < 0) standing.asked_at = now;
    callbacks_.send(peer, CallReport::Reason::compare);
  }
  if (!peers.empty()) asked_at_ = now;
}

void WaitTracker::hurry(TimeNs now) {
  if (asked_at_ >= 0 && now - asked_at_ < kSpacing) return;
  std::vector<Rank> peers;
  for_each_watched(*this, [&](const Watched& each) {
    for (const Rank peer : peers_of(each.call)) peers.push_back(peer);
  });
  ask(std::move(peers), now);
  schedule(now);
}

// Asks less and less often for a call that waits.
void WaitTracker::ask_due(TimeNs now) {
  std::vector<Rank> peers;
  bool any_long = false;
  for_each_watched(*this, [&](Watched& each) {
    const TimeNs waited = now - each.since;
    if (waited < kAskAfter) return;
    any_long = true;
    if (now < each.ask_at) return;
    each.ask_at = now + std::min(waited, kAskRarest);
    for (const Rank peer : peers_of(each.call)) peers.push_back(peer);
  });
  ask(std::move(peers), now);
  if (!any_long) return;
  for (const auto& [peer, standing] : standings_) {
    if (standing.asked_at >= 0) callbacks_.doubt(peer);
  }
}

void WaitTracker::on_report(Rank peer, const CallReport& report, TimeNs now) {
  const auto known = [this](Rank rank) {
    return rank == kNoRank || (rank.value() >= 0 && rank.value() < rank_count_);
  };
  Standing& standing = standings_[peer];
  standing.report = report;
  standing.report.text.clear();
  standing.heard_at = now;
  standing.asked_at = -1;
  if (!known(report.root.rank) || !known(report.root.towards) || report.root.rank == kNoRank) {
    standing.report.root = Blocker();
  }
  if (!known(report.waits_for)) standing.report.waits_for = kNoRank;
  tell_requesters(now);
  if (report.reason != CallReport::Reason::compare) return;
  requesters_[peer] = {now, report.number};
  callbacks_.send(peer, CallReport::Reason::answer);
}

// Sends a new answer to the ranks that wait for this one when their last answer is no longer true.
void WaitTracker::tell_requesters(TimeNs now) {
  if (requesters_.empty()) return;
  if (told_at_ >= 0 && now - told_at_ < kSpacing) {
    tick_at_ = std::min(tick_at_, told_at_ + kSpacing);
    return;
  }
  std::erase_if(requesters_,
                [now](const auto& each) { return now - each.second.at > kRequesterAgeMax; });
  const State mine = state(find_any(now));
  if (mine == told_) return;
  told_ = mine;
  told_at_ = now;
  for (const auto& [peer, requester] : requesters_)
    callbacks_.send(peer, CallReport::Reason::answer);
  // A rank that has come as far as the requesters, and waits for nothing, has no news for them.
  if (!mine.waits) {
    std::erase_if(requesters_,
                  [&mine](const auto& each) { return each.second.number <= mine.number; });
  }
}

void WaitTracker::warn(Watched& watched, TimeNs now) {
  const TimeNs waited = now - watched.since;
  if (watched.warned || waited < kWarnAfter) return;
  const Blocker blocker = find(watched, now).blocker;
  // A long call of ranks that all work needs no warning.
  if (!blocker.actionable()) return;
  if (!blocker.is_root() && waited < kWarnWithoutRootAfter) return;
  watched.warned = true;
  const PendingCall& call = watched.call;
  if (call.kind != PendingCall::Kind::collective) {
    uint64_t& number = warned_[{call.kind, call.peer}];
    number = std::max(number, call.number);
  }
  callbacks_.warn(details_of(call), waited, blocker);
}

void WaitTracker::progress(TimeNs now) {
  if (now < tick_at_) return;
  ask_due(now);
  for_each_watched(*this, [&](Watched& each) { warn(each, now); });
  tick_at_ = kNever;
  tell_requesters(now);
  schedule(now);
}

// Returns when a question, or a line, is due, or a rank may count as silent.
TimeNs WaitTracker::next_look(TimeNs now) const {
  TimeNs next = kNever;
  bool any_long = false;
  for_each_watched(*this, [&](const Watched& each) {
    const TimeNs first = each.since + kAskAfter;
    next = std::min(next, now < first ? first : now + kTick);
    any_long = any_long || now >= first;
    const TimeNs warn_at = each.since + kWarnAfter;
    if (!each.warned && now < warn_at) next = std::min(next, warn_at);
  });
  if (!any_long) return next;
  for (const auto& [peer, standing] : standings_) {
    const TimeNs silent_at = standing.asked_at + kSilentAfter;
    if (standing.asked_at >= 0 && now < silent_at) next = std::min(next, silent_at);
  }
  return next;
}

void WaitTracker::schedule(TimeNs now) {
  if (!collective_ && transfers_.empty()) {
    if (requesters_.empty()) tick_at_ = kNever;
    return;
  }
  tick_at_ = std::min(tick_at_, std::max(next_look(now), now + 1));
}

std::vector<WaitTracker::Waiting> WaitTracker::calls(TimeNs now) const {
  std::vector<Waiting> calls;
  for_each_watched(*this, [&](const Watched& each) {
    calls.push_back({details_of(each.call), now - each.since, find(each, now).blocker});
  });
  return calls;
}

}  // namespace r2ccl
