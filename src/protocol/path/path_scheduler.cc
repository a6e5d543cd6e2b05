#include "protocol/path/path_scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/limits.h"
#include "base/mutant.h"
#include "protocol/wire/wire.h"

namespace r2ccl {
namespace {

// Clocks drift by 100 ppm at most: by 50 us in this time.
constexpr TimeNs kComparable = 500 * kMillisecond;
// Larger than any segment of a plan, so only the two ends wait for such a message.
constexpr uint64_t kLongMessage = 512 * 1024;
// This many smallest windows of other senders may be ahead at the NICs, there and back.
constexpr TimeNs kWindowsAhead = 8;

}  // namespace

// Returns the median rate of the paths, the lower one of two, for a message of `bytes`. A path's
// rate is that of its connection while it was busy, or what is known of the others'. It must not be
// too high: too few chunks leave paths idle. Nor too low: a small chunk keeps its connection busy
// with its round trip more than with its bytes, so cutting for a low rate lowers it further.
// Therefore a burst counts for what a path may have outstanding at any rate, and a token bucket
// lets through.
double PathScheduler::busy_rate(uint64_t bytes) const {
  const double fastest = fastest_rate();
  std::array<double, limits::kPathsMax> rates{};
  size_t count = 0;
  for (const PathEnd* path : paths_) {
    if (!path->carries()) continue;
    const BusyRate& busy = path->busy_rate;
    double& rate = rates.at(count++);
    rate = busy.known() ? busy.bytes_per_ns() : std::max(busy.bytes_per_ns(), fastest);
    if (bytes <= limits::kWindowBytesMin) rate = std::max(rate, busy.burst_bytes_per_ns());
  }
  if (count == 0) return fastest;
  auto* const middle = rates.begin() + (count - 1) / 2;
  std::nth_element(rates.begin(), middle, rates.begin() + count);
  return *middle;
}

// Returns the highest measured rate. An unmeasured rate may be a token bucket's burst: cap it.
double PathScheduler::fastest_rate() const {
  double fastest = 0;
  for (const PathEnd* path : paths_) {
    if (!path->carries()) continue;
    fastest = std::max(fastest, path->model.believed_bytes_per_ns());
  }
  return fastest > 0 ? fastest : PathModel::kRateInitial;
}

PathModel::Best PathScheduler::best_shown() const {
  PathModel::Best best;
  double known = 0;
  double prior = 0;
  double believed = 0;
  for (const PathEnd* path : paths_) {
    if (!path->carries()) continue;
    double& fastest = path->model.rate_known() ? known : prior;
    fastest = std::max(fastest, path->model.shown_bytes_per_ns());
    if (!path->model.rate_known()) {
      believed = std::max(believed, path->model.believed_bytes_per_ns());
    }
    best.deviation = std::min(best.deviation, path->model.deviation());
  }
  if (known == 0) {
    best.bytes_per_ns = std::max(best.bytes_per_ns, prior);
  } else {
    // The highest sample may be a token bucket's burst, beside which every measured path would look
    // slow.
    best.bytes_per_ns =
        std::max(known, mutated(Mutant::tune_prior) ? prior : std::min(prior, believed));
  }
  TimeNs newest = 0;
  for (const PathEnd* path : paths_) newest = std::max(newest, path->model.one_way_at());
  for (const PathEnd* path : paths_) {
    // The time on a slow path is mostly wire time, with an error as large as any delay.
    if (!path->carries() || path->model.is_slow(best.bytes_per_ns)) continue;
    best.delay = std::min(best.delay, path->model.base_delay());
    // The clocks of the two ends drift, so old one-way delays do not compare with new ones.
    if (newest - path->model.one_way_at() > kComparable) continue;
    best.one_way = std::min(best.one_way, path->model.recent_one_way());
    best.one_way_max = std::min(best.one_way_max, path->model.greatest_one_way());
  }
  return best;
}

void PathScheduler::compare_paths() {
  const PathModel::Best best = best_shown();
  for (PathEnd* path : paths_) path->model.compare(best);
}

TimeNs PathScheduler::shortest_min_rtt() const {
  TimeNs shortest = kNever;
  for (const PathEnd* path : paths_) {
    if (path->carries()) shortest = std::min(shortest, path->model.base_delay());
  }
  return shortest;
}

size_t PathScheduler::usable() const {
  return static_cast<size_t>(
      std::ranges::count_if(paths_, [](const PathEnd* path) { return path->carries(); }));
}

// Returns the number of paths over which equal shares of the message end soonest. More paths have
// smaller shares, but the message waits for the worst of them.
size_t PathScheduler::paths_for(uint64_t message_bytes, TimeNs now) const {
  if (mutated(Mutant::tune_paths_for)) return usable();
  const size_t most = std::min<size_t>(usable(), message_bytes / limits::kChunkBytesMin);
  size_t best = 1;
  TimeNs best_time = kNever;
  std::array<TimeNs, limits::kPathsMax> times{};
  for (size_t count = 1; count <= most; ++count) {
    auto end = times.begin();
    for (const PathEnd* path : paths_) {
      if (path->carries()) *end++ = path->model.time_alone(message_bytes / count, now);
    }
    const auto worst = times.begin() + static_cast<ptrdiff_t>(count - 1);
    std::nth_element(times.begin(), worst, end);
    if (*worst < best_time) {
      best_time = *worst;
      best = count;
    }
  }
  return best;
}

// Returns the time at which all known waiting bytes would be delivered if all usable paths shared
// them.
TimeNs PathScheduler::backlog_done_at(uint64_t fresh_bytes, TimeNs now) const {
  double rate = 0;
  uint64_t bytes = fresh_bytes;
  for (const PathEnd* path : paths_) {
    if (!path->carries()) continue;
    rate += path->model.bytes_per_ns();
    bytes += path->model.bytes_queued(now);
  }
  if (rate <= 0) return now;
  return now + shortest_min_rtt() + static_cast<TimeNs>(static_cast<double>(bytes) / rate);
}

bool PathScheduler::takes(const PathEnd& path, uint64_t bytes) {
  return path.can_start_frame() && path.model.has_room(bytes + kDataHeaderBytes);
}

bool PathScheduler::any_free() const {
  return std::ranges::any_of(paths_, [](const PathEnd* path) {
    return path->carries() && !path->broken && takes(*path, 0);
  });
}

PathScheduler::Choice PathScheduler::choose(const Demand& demand, TimeNs now) {
  PathEnd* best = nullptr;
  PathEnd* best_free = nullptr;
  TimeNs best_at = kNever;
  TimeNs best_free_at = kNever;
  const auto any_trusted = [&] {
    return std::ranges::any_of(paths_, [&](const PathEnd* path) {
      return path->carries() && !path->broken && path != demand.avoid && !path->peer_suspects;
    });
  };
  for (size_t i = 0; i < paths_.size(); ++i) {
    PathEnd* path = paths_[(chunk_cursor_ + i) % paths_.size()];
    if (!path->carries() || path->broken || path == demand.avoid) continue;
    // The peer's acknowledgements meet there what its frames meet.
    if (path->peer_suspects && any_trusted() && !mutated(Mutant::tune_peer_suspects)) continue;
    const TimeNs at = path->model.finish_at(demand.bytes, now);
    if (at < best_at) {
      best = path;
      best_at = at;
    }
    if (std::ranges::find(demand.reserved, path) != demand.reserved.end()) continue;
    if (at < best_free_at && takes(*path, demand.bytes)) {
      best_free = path;
      best_free_at = at;
    }
  }
  if (best == nullptr) return {};
  // A difference of half the chunk's time is within the error of the measured rates.
  const TimeNs error = best->model.wire_time(demand.bytes) / 2;
  if (demand.home != nullptr) {
    PathEnd* const home = find_home(demand, best_at + error, now);
    if (home != nullptr) return take(home);
  }
  if (best_free == best) return take(best);
  // A slower path may help if it finishes before the others have sent the rest.
  const TimeNs bound = mutated(Mutant::tune_backlog)
                           ? best_at + error
                           : std::max(backlog_done_at(demand.fresh_bytes, now), best_at + error);
  if (best_free != nullptr && (best_free_at <= bound || mutated(Mutant::tune_never_wait)))
    return take(best_free);
  return {nullptr, best};
}

// Returns a path of the chunk's own NIC that takes the chunk now and finishes it by `bound`; null:
// none.
PathEnd* PathScheduler::find_home(const Demand& demand, TimeNs bound, TimeNs now) const {
  for (PathEnd* path : paths_) {
    if (&path->queue() != demand.home || path == demand.avoid) continue;
    if (!path->carries() || path->broken || path->peer_suspects) continue;
    if (std::ranges::find(demand.reserved, path) != demand.reserved.end()) continue;
    if (takes(*path, demand.bytes) && path->model.finish_at(demand.bytes, now) <= bound)
      return path;
  }
  return nullptr;
}

// Where chunks have a price, a message may take fewer paths than there are. The next one then
// begins with another path, or the first path alone would be full.
PathScheduler::Choice PathScheduler::take(PathEnd* path) {
  if (chunk_price_ > 0) chunk_cursor_ = path->index + 1;
  return {path, nullptr};
}

// Returns the number of equal chunks that each take at least their price on the wire. More would
// keep the processors busy for longer than the NICs. Messages that wait at the same time pay their
// prices one after the other, too.
size_t PathScheduler::chunks_that_pay(uint64_t message_bytes, size_t messages) const {
  if (chunk_price_ == 0) return paths_.size();
  const double wire_time = static_cast<double>(message_bytes) / busy_rate(message_bytes);
  const double prices = static_cast<double>(chunk_price_) * static_cast<double>(messages);
  return static_cast<size_t>(std::max(std::lround(wire_time / prices), 1L));
}

uint32_t PathScheduler::chunk_bytes(uint64_t message_bytes, size_t messages, TimeNs now) const {
  const size_t paths =
      std::min(paths_for(message_bytes, now), chunks_that_pay(message_bytes, messages));
  uint64_t bytes = 0;
  bool any = mutated(Mutant::tune_cut_early);
  for (const PathEnd* path : paths_) {
    if (!path->carries()) continue;
    any = true;
    bytes = std::max(bytes, path->model.bytes_in(limits::kChunkDuration));
  }
  if (!any) return 0;
  if (message_bytes >= kLongMessage && !mutated(Mutant::tune_chunk_shared))
    bytes = std::max(bytes, chunk_bytes_of_shared_nics());
  return chunk_cut(message_bytes, paths, bytes);
}

// Returns the chunk size on shared NICs. Where other links send through the same NICs, a path has
// only a part of its NIC's rate. Chunks sized by that part alone would cost more processor time
// than they save: each path has a smallest window outstanding in any case.
uint64_t PathScheduler::chunk_bytes_of_shared_nics() const {
  double fastest = 0;
  for (const PathEnd* path : paths_) {
    if (path->carries()) fastest = std::max(fastest, path->queue().bytes_per_ns());
  }
  const double bytes = fastest * static_cast<double>(limits::kChunkDuration);
  return std::min(static_cast<uint64_t>(bytes), limits::kWindowBytesMin);
}

TimeNs PathScheduler::prompt_round_trip(TimeNs now) const {
  TimeNs fastest = kNever;
  for (const PathEnd* path : paths_) {
    if (path->good_control()) fastest = std::min(fastest, path->health.round_trip_at(now));
  }
  if (fastest == kNever) return kNever;
  const auto window_time = static_cast<TimeNs>(limits::kWindowBytesMin / fastest_rate());
  return 2 * fastest + 2 * kMillisecond + kWindowsAhead * window_time;
}

bool PathScheduler::is_prompt(const PathEnd& path, TimeNs now) const {
  return path.good_control() && (mutated(Mutant::tune_control_prompt) ||
                                 path.health.round_trip_at(now) <= prompt_round_trip(now));
}

PathEnd* PathScheduler::choose_control(TimeNs now) {
  const TimeNs prompt = prompt_round_trip(now);
  PathEnd* second = nullptr;
  PathEnd* last = nullptr;
  for (size_t i = 0; i < paths_.size(); ++i) {
    const size_t index = (control_cursor_ + i) % paths_.size();
    PathEnd& path = *paths_[index];
    if (!path.control_writable() || path.broken) continue;
    if (path.control_only) {
      last = &path;
    } else if (path.good_control() &&
               (mutated(Mutant::tune_control_turn) || path.health.round_trip_at(now) <= prompt)) {
      control_cursor_ = index + 1;
      return &path;
    } else if (second == nullptr) {
      second = &path;
    }
  }
  return second != nullptr && usable() > 0 ? second : last != nullptr ? last : second;
}

void PathScheduler::check_invariants() const {
  R2CCL_CHECK(control_cursor_ <= paths_.size() && chunk_cursor_ <= paths_.size());
  R2CCL_CHECK(chunk_price_ >= 0);
}

}  // namespace r2ccl
