#include "runtime/admin/status_query.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"

namespace r2ccl {

const char* to_string(Reachability reachability) {
  switch (reachability) {
    case Reachability::answered:
      return "answered";
    case Reachability::no_answer:
      return "no answer";
    case Reachability::left:
      return "left";
    case Reachability::dead:
      return "dead";
    case Reachability::cut_off:
      return "cut off";
  }
  return "unknown";
}

void StatusQuery::start(TimeNs now, std::string own_answer) {
  R2CCL_CHECK(!running_);
  running_ = true;
  ++number_;
  next_ = 0;
  missing_ = 0;
  recent_.clear();
  std::ranges::fill(members_, Member());
  members_[static_cast<size_t>(self_.value())] = {Reachability::answered, std::move(own_answer)};
  end_max_ = now + limits::kStatusQueryTimeMax;
  end_at_ = end_max_;
  progress(now);
}

bool StatusQuery::expects(Rank from, uint32_t number) const {
  const auto rank = static_cast<size_t>(from.value());
  return running_ && number == number_ && rank < next_ &&
         members_[rank].reachability == Reachability::no_answer;
}

void StatusQuery::on_answer(Rank from, uint32_t number, std::string answer) {
  if (!expects(from, number)) return;
  const auto rank = static_cast<size_t>(from.value());
  members_[rank] = {Reachability::answered, std::move(answer)};
  --missing_;
  std::erase_if(recent_, [rank](const Asked& asked) { return asked.rank == rank; });
}

void StatusQuery::ask_more(TimeNs now) {
  while (!recent_.empty() && now - recent_.front().at >= limits::kStatusQueryWait) {
    recent_.pop_front();
  }
  for (; next_ < members_.size() && recent_.size() < limits::kStatusQueryAskedMax; ++next_) {
    if (members_[next_].reachability == Reachability::answered) continue;  // this rank itself
    members_[next_].reachability = ask_(Rank(static_cast<int32_t>(next_)), number_);
    if (members_[next_].reachability != Reachability::no_answer) continue;
    ++missing_;
    recent_.push_back({next_, now});
    end_at_ = std::min(now + limits::kStatusQueryAnswerTime, end_max_);
  }
}

void StatusQuery::progress(TimeNs now) {
  if (!running_) return;
  ask_more(now);
  const bool all = next_ == members_.size() && missing_ == 0;
  if (!all && now < end_at_) return;
  running_ = false;
  ended_at_ = now;
}

TimeNs StatusQuery::next_timeout() const {
  if (!running_) return kNever;
  const bool more = next_ < members_.size();
  if (next_ == members_.size() && missing_ == 0) return 0;
  return more && !recent_.empty() ? std::min(end_at_, recent_.front().at + limits::kStatusQueryWait)
                                  : end_at_;
}

}  // namespace r2ccl
