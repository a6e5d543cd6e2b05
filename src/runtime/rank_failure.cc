// The failure of a rank: its causes, the end of its operations, and the news of it to the others.
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "runtime/link/notice.h"
#include "runtime/rank_runtime.h"

namespace r2ccl {

// Returns false when the rank has failed before: the first cause counts, its consequences do not.
bool RankRuntime::fail_here(const Status& why) {
  if (!failure_.ok()) return false;
  failure_ = options_.name.empty() ? why : why.with_message(why.message() + on_communicator());
  observer_.on_failure(failure_);
  R2CCL_LOG(warn, "%s: %s", name_of(options_.self).c_str(), why.message().c_str());
  operations_->cancel(failure_);
  if (cost_meter_ != nullptr) cost_meter_->cancel(failure_);
  return true;
}

// A rank that was told tells the others, too: it may close its connections before the first rank's
// notice reaches them, and they must not take it for dead.
void RankRuntime::tell_failure(const Failure& failure) {
  waits_->stop();
  if (views_ != nullptr) views_->stop();
  const std::vector<std::byte> body = encode(failure);
  if (last_of_job()) reserve_end_of(failure);
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    Link* link = members_->link(Rank(rank));
    if (link != nullptr && !link->peer_ended()) {
      members_->tell(Rank(rank), NoticeKind::failure, body);
    }
  }
}

// The news of a failure should be out before the connections close, so that no rank takes this one
// for the cause. A rank that told of a failure itself needs none, and may have closed already.
bool RankRuntime::failure_known() const {
  if (halted()) return engine_.end_told();
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    const Link* link = members_->link(Rank(rank));
    if (link == nullptr || informed_[static_cast<size_t>(rank)]) continue;
    if (!link->notice_delivered(members_->slot(NoticeKind::failure))) return false;
  }
  return true;
}

void RankRuntime::fail(const Status& why) {
  if (!fail_here(why)) return;
  const std::string text = why.code() == Code::aborted
                               ? name_of(options_.self) + " aborted: " + why.message()
                               : why.message();
  tell_failure({why.with_message(text)});
}

void RankRuntime::fail_of(std::vector<Rank> ranks, Code code, const std::string& why) {
  fail(Status(code, why).with_ranks(std::move(ranks)));
}

// A rank that waits in a call has lost another. To a rank that finalizes, this is a call that it
// did not make, and the error must not blame another rank.
void RankRuntime::fail_departed(const Status& why) {
  const Status remote = Status(Code::remote, why.message()).with_ranks(why.ranks());
  const Status mine = Status(Code::invalid_usage, why.message()).with_ranks(why.ranks());
  if (!fail_here(leaving_ ? mine : remote)) return;
  abandoned_ = true;
  tell_failure({remote, true});
}

// Returns the failure with the ranks of this communicator, and not the numbers of the job.
Failure RankRuntime::of_members(Failure failure) const {
  std::vector<Rank> ranks;
  for (const Rank peer : failure.why.ranks()) {
    if (engine_.job().has(peer)) ranks.push_back(members_->rank_of(peer));
  }
  failure.why = failure.why.with_ranks(std::move(ranks));
  return failure;
}

void RankRuntime::on_failure_notice(Rank rank, Failure failure) {
  informed_[static_cast<size_t>(rank.value())] = true;
  // The two have left each other in order: what happens to that rank later concerns no call here.
  if (farewells_->done(rank)) return;
  std::vector<Rank> ranks = failure.why.ranks();
  std::erase_if(
      ranks, [this](Rank each) { return each.value() < 0 || each.value() >= options_.rank_count; });
  failure.why = failure.why.with_ranks(std::move(ranks));
  failure.departed ? fail_departed(failure.why) : fail(failure.why);
}

// The buffer belongs to a call, and the call ends with it. The other ranks would wait for the bytes
// that this rank cannot send, so the rank fails.
void RankRuntime::on_bad_memory(const BadMemory& bad) {
  if (!failure_.ok()) return;
  std::optional<BufferUse> use = operations_->find_buffer(bad);
  if (!use) use = BufferUse{.call = "a call that has returned"};
  refuse_buffer(*use, bad);
}

void RankRuntime::refuse_buffer(const BufferUse& use, const BadMemory& bad) {
  const std::string why = name_of(options_.self) + ": " + r2ccl::describe(use, bad.access);
  fail_of({options_.self}, Code::invalid_argument, why);
}

// All communicators of the job hear it, so it names its ranks by their numbers in the job.
void RankRuntime::reserve_end_of(Failure failure) {
  std::vector<Rank> peers;
  for (const Rank rank : failure.why.ranks()) peers.push_back(members_->peer_of(rank));
  failure.why = failure.why.with_ranks(std::move(peers));
  engine_.reserve_end(make_notice(NoticeKind::job_failure, encode(failure)).bytes);
}

std::string RankRuntime::no_memory_text() const {
  return name_of(options_.self) +
         " has run out of memory: the host, or the limit of this process (ulimit -v, a container's "
         "memory), has no more to give";
}

Status RankRuntime::cause_of(const std::exception& error) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return no_memory_;
  if (!started()) return Status::in_any_case(Code::internal, error.what());
  try {
    const Status why(Code::internal, name_of(options_.self) + " has failed inside r2ccl: " +
                                         error.what() + on_communicator());
    reserve_end_of({why.with_ranks({options_.self})});
    return why.with_ranks({options_.self});
  } catch (const std::bad_alloc&) {
    return no_memory_;
  }
}

void RankRuntime::on_exception(const std::exception& error) noexcept {
  if (failure_.ok()) {
    failure_ = cause_of(error);
    if (started()) observer_.on_failure(failure_);
  }
  if (started()) {
    R2CCL_LOG(warn, "rank %d: %s", options_.self.value(), failure_.message().c_str());
  }
}

void RankRuntime::on_halted() noexcept {
  if (!started()) return;
  operations_->abandon(failure_);
  if (cost_meter_ != nullptr) cost_meter_->abandon(failure_);
}

// A rank that left in order will never take part again: a rank that needs it must be told.
void RankRuntime::check_departed() {
  if (leaving_ || !any_departed_ || engine_.has_more()) return;
  for (const Rank rank : operations_->waits_on()) {
    if (!departed_[static_cast<size_t>(rank.value())]) continue;
    const Status left(Code::remote, name_of(rank) +
                                        " has left: it finalized its communicator while " +
                                        name_of(options_.self) + " still waits for it");
    return fail_departed(left.with_ranks({rank}));
  }
}

}  // namespace r2ccl
