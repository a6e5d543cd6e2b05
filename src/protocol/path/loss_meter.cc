#include "protocol/path/loss_meter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace r2ccl {

void LossMeter::sample(size_t connection, const Counters& counters, TimeNs now) {
  R2CCL_CHECK(connection < last_.size() && now >= 0);
  Counters& last = last_[connection];
  const int64_t number = number_of(now);
  Period& period = periods_[static_cast<size_t>(number) % kPeriods];
  R2CCL_CHECK(period.number <= number);
  if (period.number != number) period = {number, 0, 0};
  const uint64_t sent = counters.sent - std::min(last.sent, counters.sent);
  period.sent += sent;
  sent_ += sent;
  last.sent = counters.sent;
  if (counters.delivered <= last.delivered && counters.lost > last.lost) return;
  const auto lost = static_cast<int64_t>(counters.lost) - static_cast<int64_t>(last.lost);
  period.lost += lost;
  lost_ += lost;
  last.lost = counters.lost;
  last.delivered = counters.delivered;
}

LossCount LossMeter::count(TimeNs now) const {
  const int64_t newest = number_of(now);
  const int64_t oldest = newest - static_cast<int64_t>(kPeriods) + 1;
  const auto in_window = [&](const Period& period) {
    return period.number >= oldest && period.number <= newest;
  };
  // The kernel notices a spurious retransmission a round trip later, perhaps in the next period.
  int64_t in_vain = 0;
  int64_t first = newest + 1;
  int64_t second = newest + 1;
  for (const Period& period : periods_) {
    if (!in_window(period)) continue;
    if (period.lost < 0) in_vain -= period.lost;
    if (period.lost <= 0) continue;
    if (period.number < first)
      second = std::exchange(first, period.number);
    else
      second = std::min(second, period.number);
  }
  LossCount count;
  int64_t lost = -in_vain;
  // The loss may have begun late in the first period, after many packets that passed.
  const int64_t from = second <= newest ? first + 1 : first <= newest ? first : oldest;
  for (const Period& period : periods_) {
    if (!in_window(period)) continue;
    if (period.number == first && from > first) ++count.lossy;
    if (period.number < from) continue;
    count.sent += static_cast<uint32_t>(std::min<uint64_t>(period.sent, UINT32_MAX / kPeriods));
    count.periods += period.sent > 0 ? 1 : 0;
    count.lossy += period.lost > 0 ? 1 : 0;
    lost += std::max<int64_t>(period.lost, 0);
  }
  count.lossy -= static_cast<uint32_t>(std::min<int64_t>(count.lossy, in_vain));
  count.lost = static_cast<uint32_t>(std::clamp<int64_t>(lost, 0, UINT32_MAX));
  count.lost = std::min(count.lost, count.sent);
  return count;
}

}  // namespace r2ccl
