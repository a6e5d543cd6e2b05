#include "protocol/path/loss_meter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {

// Notes the queue of the path, and returns whether it is at least half of the longest one of the
// window. A queue that is shorter than the empty path is none.
bool LossMeter::queue_is_full(const Counters& counters, int64_t lost, uint64_t sent,
                              Period& now_running) {
  const TimeNs queue = counters.round_trip - counters.least_round_trip;
  now_running.queue = std::max(now_running.queue, queue);
  TimeNs longest = 0;
  for (const Period& each : periods_) longest = std::max(longest, each.queue);
  const bool known = counters.round_trip > 0 && 4 * lost < static_cast<int64_t>(sent);
  return known && queue >= counters.least_round_trip && 2 * queue >= longest &&
         !mutated(Mutant::tune_full_queue);
}

void LossMeter::sample(size_t connection, const Counters& counters, TimeNs now) {
  R2CCL_CHECK(connection < last_.size() && now >= 0);
  Counters& last = last_[connection];
  const int64_t number = number_of(now);
  R2CCL_CHECK(newest_ <= number);
  const int64_t stale = number - static_cast<int64_t>(kPeriods) + 1;
  for (int64_t n = std::max(newest_ + 1, std::max<int64_t>(stale, 0)); n <= number; ++n) {
    period(n) = {};
  }
  newest_ = number;
  Period& now_running = period(number);
  const uint64_t sent = counters.sent - std::min(last.sent, counters.sent);
  now_running.sent += static_cast<uint32_t>(std::min<uint64_t>(sent, UINT32_MAX / kPeriods));
  sent_ += sent;
  last.sent = counters.sent;
  const auto lost = static_cast<int64_t>(counters.lost) - static_cast<int64_t>(last.lost);
  const bool full = queue_is_full(counters, lost, sent, now_running);
  if (counters.delivered <= last.delivered && counters.lost > last.lost) return;
  now_running.lost += static_cast<int32_t>(lost);
  now_running.fault = now_running.fault || (lost > 0 && !full);
  lost_ += lost;
  last.lost = counters.lost;
  last.delivered = counters.delivered;
}

LossCount LossMeter::count(TimeNs now) const {
  const int64_t newest = number_of(now);
  // Both windows end at the older one of the present period and the latest sample's.
  const int64_t oldest =
      std::max<int64_t>(std::max(newest, newest_) - static_cast<int64_t>(kPeriods) + 1, 0);
  const int64_t latest = std::min(newest, newest_);
  // The kernel notices a spurious retransmission a round trip later, perhaps in the next period.
  int64_t in_vain = 0;
  int64_t first = newest + 1;
  int64_t second = newest + 1;
  for (int64_t n = oldest; n <= latest; ++n) {
    const int32_t lost = period(n).lost;
    if (lost < 0) in_vain -= lost;
    if (lost <= 0) continue;
    if (first > newest) {
      first = n;
    } else if (second > newest) {
      second = n;
    }
  }
  LossCount count;
  int64_t lost = -in_vain;
  // The loss may have begun late in the first period, after many packets that passed.
  const int64_t from = second <= newest ? first + 1 : first <= newest ? first : oldest;
  if (first < from && from <= newest && period(first).fault) ++count.lossy;
  for (int64_t n = from; n <= latest; ++n) {
    const Period& each = period(n);
    count.sent += std::min<uint32_t>(each.sent, UINT32_MAX / kPeriods);
    count.periods += each.sent > 0 ? 1 : 0;
    count.lossy += each.lost > 0 && each.fault ? 1 : 0;
    lost += std::max<int32_t>(each.lost, 0);
  }
  count.lossy -= static_cast<uint32_t>(std::min<int64_t>(count.lossy, in_vain));
  count.lost = static_cast<uint32_t>(std::clamp<int64_t>(lost, 0, UINT32_MAX));
  count.lost = std::min(count.lost, count.sent);
  return count;
}

}  // namespace r2ccl
