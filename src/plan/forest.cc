#include "plan/forest.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"
#include "plan/algorithms.h"

namespace r2ccl {
namespace {

// A member that only gives its input to a chunk does so when the chunk of so many rounds before it,
// beside those that rise and come down meanwhile, has reached it. So rounds travel in their order,
// and a slow host always has the chunks of some rounds to send.
constexpr uint64_t kRoundsInReserve = 2;
// An exchange by owners has what a host receives in this time on its way up: two chunks of the
// transport for each NIC. With less, NICs idle while their next messages wait in the queues of
// others. docs/schedules.md has the measurements.
constexpr uint64_t kRiseNs = 2 * limits::kChunkDuration;

// A member's steps of a chunk, at their logical time.
struct Event {
  enum class Kind : uint8_t { reduce, rise, fall, spread, give };
  uint64_t time = 0;
  uint64_t chunk = 0;
  Kind kind = Kind::reduce;

  friend auto operator<=>(const Event&, const Event&) = default;
};

// Returns the steps in an order in which a sequential run would be correct: a transfer has the same
// time at both of its ends. Trees of different heights take the same time.
std::vector<Event> events_of(const Forest& forest, uint64_t chunks) {
  using Kind = Event::Kind;
  constexpr uint64_t kPeriod = uint64_t{1} << 20;
  const uint64_t way = kPeriod * forest.rounds_rising;
  std::vector<Event> events;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const uint64_t begin = chunk / forest.chunks_of_round * kPeriod;
    const auto add = [&](uint64_t time, Kind kind) {
      events.push_back({begin + time, chunk, kind});
    };
    const TreeEnd& sums = forest.chunks[chunk % forest.chunks.size()].sums;
    R2CCL_CHECK(sums.depth + (sums.children.empty() ? 0 : 1) <= sums.height);
    const uint64_t risen = sums.height - sums.depth;
    if (!sums.children.empty()) add((risen - 1) * way / sums.height, Kind::reduce);
    if (sums.depth > 0) add(risen * way / sums.height, Kind::rise);
    const TreeEnd& results = forest.chunks[chunk % forest.chunks.size()].results;
    const uint64_t fallen = results.depth;
    if (fallen > 0) add(way + (fallen - 1) * way / results.height, Kind::fall);
    if (!results.children.empty()) add(way + fallen * way / results.height, Kind::spread);
    // A member of several ranks: a result takes the way that inputs take within the host, so it
    // comes behind those of all chunks that are under way at the same time.
    add(2 * way + kRoundsInReserve * kPeriod, Kind::give);
  }
  std::ranges::sort(events);
  return events;
}

class ForestReduction {
 public:
  ForestReduction(const ForestPlan& forest, const GroupReduction* what, ChunkSource& source,
                  PlanBuilder& plan)
      : forest_(forest), what_(what), source_(source), plan_(plan) {}

  void build() {
    done_.assign(forest_.chunks(), kNotYet);
    for (const Event& event : events_of(forest_.forest(), forest_.chunks())) add(event);
  }

 private:
  static constexpr uint32_t kNotYet = UINT32_MAX;

  Rank rank(uint32_t member) const { return what_->group.ranks[member]; }
  Region result_of(const Event& event) const {
    return what_ == nullptr ? Region{} : forest_.chunk_of(what_->result, event.chunk);
  }

  void add(const Event& event) {
    const std::vector<ForestChunk>& chunks = forest_.forest().chunks;
    const ForestChunk& chunk = chunks[event.chunk % chunks.size()];
    switch (event.kind) {
      case Event::Kind::reduce:
        return reduce(chunk.sums, event);
      case Event::Kind::rise:
        return rise(chunk.sums, event);
      case Event::Kind::fall:
        if (what_ != nullptr) plan_.receive(rank(chunk.results.parent), result_of(event));
        return finish(event);
      case Event::Kind::spread:
        if (what_ == nullptr) return;
        for (const uint32_t child : chunk.results.children) {
          plan_.send(rank(child), result_of(event));
        }
        return;
      case Event::Kind::give:
        return source_.give_result(event.chunk);
    }
  }

  // Reduces the partial results of the children, one after the other.
  void reduce(const TreeEnd& end, const Event& event) {
    Region partial = source_.take_input(event.chunk, end.children.size());
    const Region result = result_of(event);
    if (what_ != nullptr) {
      Region further = partial.buffer == Buffer::wide ? partial : result;
      if (plan_.widens() && end.children.size() > 1 && further.buffer != Buffer::wide) {
        further = plan_.take_wide(result.count);
      }
      for (const uint32_t child : end.children) {
        const bool last = child == end.children.back();
        plan_.receive_reduce(rank(child), partial, last ? result : further, last && end.depth == 0);
        partial = further;
      }
    }
    if (end.depth == 0) finish(event);
  }

  void rise(const TreeEnd& end, const Event& event) {
    if (!end.children.empty()) {
      if (what_ != nullptr) plan_.send(rank(end.parent), result_of(event));
      return;
    }
    const Region given = source_.take_input(event.chunk, 0);
    if (what_ == nullptr || given.count == 0) return;
    std::vector<uint32_t> after;
    const Forest& forest = forest_.forest();
    const uint64_t ahead = (2 * forest.rounds_rising + kRoundsInReserve) * forest.chunks_of_round;
    if (event.chunk >= ahead && done_[event.chunk - ahead] != kNotYet) {
      after.push_back(done_[event.chunk - ahead]);
    }
    plan_.send(rank(end.parent), given, std::move(after));
  }

  // The member has the result of a chunk.
  void finish(const Event& event) {
    if (what_ != nullptr && result_of(event).count > 0) done_[event.chunk] = plan_.last_step();
  }

  const ForestPlan& forest_;
  const GroupReduction* const what_;
  ChunkSource& source_;
  PlanBuilder& plan_;
  std::vector<uint32_t> done_;  // by chunk: the step after which this member has its result
};

// The input of a member that is one rank.
class OwnInput final : public ChunkSource {
 public:
  OwnInput(const ForestPlan& forest, const Region& input) : forest_(forest), input_(input) {}
  Region take_input(uint64_t chunk, size_t) override { return forest_.chunk_of(input_, chunk); }
  void give_result(uint64_t) override {}

 private:
  const ForestPlan& forest_;
  const Region input_;
};

// Returns how many parts of `most` there are; at least one.
uint64_t parts_of(uint64_t whole, uint64_t most) {
  R2CCL_CHECK(most > 0);
  return std::max<uint64_t>((whole + most - 1) / most, 1);
}

}  // namespace

ForestPlan::ForestPlan(const View& view, size_t members, uint32_t self, Algorithm algorithm,
                       uint64_t count, DataType type, const PlanLimits& limits) {
  // Returns the number of segments of the part of the vector that chunk i of all cycles has.
  const auto pieces = [&](uint64_t part) {
    const uint64_t bytes = part * size_of(type) / limits.rounds_per_forest;
    return parts_of(part, segment_count(bytes, type, limits));
  };
  bool has_paths = false;
  if (const auto packing = packing_for(view, algorithm); packing != nullptr) {
    // The chunks are equal, and a round has as many as there are members.
    const uint64_t chunks = members * pieces(parts_of(count, members));
    const uint64_t trees = std::min<uint64_t>(chunks, packing->trees.size());
    forest_ = packed_forest(*packing, trees, self);
    cycles_ = parts_of(chunks, trees);
  } else {
    const TotalRates rates = total_rates(view, members);
    const ForestShares shares = forest_shares(rates, algorithm);
    has_paths = !shares.paths.empty();
    forest_ = make_forest(rates, shares, self);
  }
  ends_.push_back(0);
  uint64_t largest = 0;
  for (const ForestChunk& chunk : forest_.chunks) {
    ends_.push_back(ends_.back() + chunk.weight);
    largest = std::max(largest, chunk.weight);
  }
  if (cycles_ == 0) cycles_ = pieces(scaled(count, largest, ends_.back()));
  if (!has_paths) {
    const uint64_t rounds = parts_of(chunks(), forest_.chunks_of_round);
    forest_.rounds_rising = rounds_of_exchange(members, count * size_of(type), rounds, limits);
  }
}

Region ForestPlan::chunk_of(const Region& whole, uint64_t chunk) const {
  R2CCL_CHECK(chunk < chunks());
  const uint64_t size = forest_.chunks.size();
  const Region part = part_of(whole, chunk / size, cycles_);
  const auto cut = [&](uint64_t end) { return scaled(part.count, end, ends_.back()); };
  const uint64_t begin = cut(ends_[chunk % size]);
  return {part.buffer, part.offset + begin, cut(ends_[chunk % size + 1]) - begin};
}

PlanLimits forest_limits(const PlanKey& key, PlanLimits limits) {
  const DomainCosts& network = key.costs.network;
  const auto bytes_in = [&](uint64_t ns) {
    return ns * 1000 * 1024 / std::max<uint64_t>(network.leader_kib_ps, 1);
  };
  const uint64_t slots = std::max<uint64_t>(limits::kStagingBytes / limits.segment_bytes_max, 1);
  limits.segment_bytes_min = std::clamp(bytes_in(network.leader_hop_ns) / slots,
                                        limits.segment_bytes_min, limits.segment_bytes_max);
  limits.bytes_rising = bytes_in(kRiseNs);
  return limits;
}

bool uses_forest(Algorithm algorithm) {
  return algorithm == Algorithm::direct || algorithm == Algorithm::nested ||
         algorithm == Algorithm::split || algorithm == Algorithm::recursive_split ||
         algorithm == Algorithm::leaf || algorithm == Algorithm::packed;
}

void build_along_forest(const ForestPlan& forest, const GroupReduction* what, ChunkSource& source,
                        PlanBuilder& plan) {
  ForestReduction(forest, what, source, plan).build();
}

void build_forest(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                  PlanBuilder& plan) {
  const ForestPlan forest(what.view, what.group.size(), what.group.self, algorithm,
                          what.result.count, what.type, limits);
  OwnInput input(forest, what.partial);
  build_along_forest(forest, &what, input, plan);
}

}  // namespace r2ccl
