#include "runtime/shrink/rank_shrinks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

constexpr size_t kNamesMax = 4;

std::string numbers(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "nobody";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 16; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i].value());
  }
  return ranks.size() > 16 ? text + " and others" : text;
}

}  // namespace

RankShrinks::RankShrinks(Members& members, size_t hosts, const Clock& clock, TimeNs patience)
    : members_(members),
      hosts_(hosts),
      clock_(clock),
      patience_(patience),
      agreement_(members.self(), static_cast<int32_t>(members.count()), patience) {}

Status RankShrinks::call(std::vector<Rank> excluded, const View& view) {
  if (!fits_shrink(excluded)) {
    return {Code::invalid_argument, "the excluded ranks are in more than " +
                                        std::to_string(kShrinkRunsMax) +
                                        " runs of consecutive ranks"};
  }
  const bool keeps_one = std::ranges::any_of(agreement_.excluded_by(),
                                             [&](Rank rank) { return !has(excluded, rank); });
  if (keeps_one) return this->excluded();
  R2CCL_CHECK(!waits());
  called_ = true;
  agreement_.call(std::move(excluded), view, clock_.now());
  send(agreement_.take_sends());
  return {};
}

void RankShrinks::withdraw() {
  agreement_.withdraw(clock_.now());
  send(agreement_.take_sends());
}

void RankShrinks::step(TimeNs now) {
  agreement_.progress(now);
  send(agreement_.take_sends());
}

void RankShrinks::send(const std::vector<ShrinkSend>& sends) {
  for (const ShrinkSend& each : sends) {
    const Link* link = members_.link(each.to);
    if (link == nullptr || link->peer_ended()) continue;
    members_.tell(each.to, NoticeKind::shrink, slot_of(each.message), encode(each.message));
  }
}

void RankShrinks::on_message(Rank rank, std::span<const std::byte> body) {
  const auto message = decode_shrink_message(body, static_cast<int32_t>(members_.count()), hosts_);
  const Status taken =
      message.ok() ? agreement_.on_message(rank, message.value(), clock_.now()) : message.status();
  if (!taken.ok()) {
    ++refused_;
    R2CCL_LOG(warn, "%s sent %s", members_.name_of(rank).c_str(), taken.message().c_str());
  }
  send(agreement_.take_sends());
  if (agreement_.excluded_by().empty() || std::exchange(told_exclusion_, true)) return;
  R2CCL_LOG(warn, "%s made a communicator without this rank",
            numbers(agreement_.excluded_by()).c_str());
}

void RankShrinks::on_gone(Rank rank, ShrinkOutcome how) {
  agreement_.on_gone(rank, how, clock_.now());
  send(agreement_.take_sends());
}

void RankShrinks::tell_last_words() {
  send(agreement_.last_words());
}

std::string RankShrinks::names(const std::vector<Rank>& ranks) const {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < kNamesMax; ++i) {
    text += (i > 0 ? ", " : "") + members_.name_of(ranks[i]);
  }
  return ranks.size() > kNamesMax ? text + " and others" : text;
}

// It names no rank at fault: a caller that excluded the others in turn would go on alone.
Status RankShrinks::excluded() const {
  return {Code::remote, numbers(agreement_.excluded_by()) +
                            " made a communicator without this rank and wait for it no more: end "
                            "this process, or let it join them by r2cclCommGrow"};
}

Status RankShrinks::lists_differ(const ShrinkDecision& decision) const {
  const Status differ(Code::invalid_usage,
                      "the lists of excluded ranks differ: this rank excludes " +
                          numbers(decision.subject.excluded) + ", " + names(decision.ranks) +
                          " excludes " + numbers(decision.other));
  // A rank that excludes these as well, and calls again, agrees with the other one.
  std::vector<Rank> more;
  std::ranges::set_difference(decision.other, decision.subject.excluded, std::back_inserter(more));
  return differ.with_ranks(std::move(more));
}

Status RankShrinks::result() const {
  R2CCL_CHECK(agreement_.outcome().has_value());
  const ShrinkDecision& decision = *agreement_.outcome();
  const std::string who = names(decision.ranks);
  const auto error = [&](Code code, const std::string& text) {
    return Status(code, text).with_ranks(decision.ranks);
  };
  switch (decision.outcome) {
    case ShrinkOutcome::made:
      return {};
    case ShrinkOutcome::died:
      return error(Code::remote, who + " died: exclude it, too");
    case ShrinkOutcome::cut_off:
      return error(Code::remote, who + " is cut off: exclude it, too");
    case ShrinkOutcome::left:
      return error(Code::remote, who + " has left the communicator: exclude it, too");
    case ShrinkOutcome::lists_differ:
      return lists_differ(decision);
    case ShrinkOutcome::not_called:
      return error(Code::timeout, who + " has not made this call, or does not answer, within " +
                                      std::to_string(patience_ / kSecond) +
                                      " s (R2CCL_INIT_TIMEOUT_S at the init of the "
                                      "communicator): exclude it, too, or find what it waits for");
    case ShrinkOutcome::aborted:
      if (!agreement_.excluded_by().empty()) return excluded();
      return error(Code::remote, who + " aborted the communicator during the call");
  }
  return {Code::internal, "a smaller communicator has no outcome"};
}

}  // namespace r2ccl
