#include "plan/forest.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "plan/algorithms.h"

namespace r2ccl {
namespace {

// Chunks that a member without children may send at a time. One would leave the line idle until
// its acknowledgement; with many at once each of them would take as long as all together.
constexpr size_t kGivenAhead = 4;

// Inner nodes with two children: of all arities these have the least depth for the time that a
// chunk takes to pass a node.
constexpr uint32_t kTreeArity = 2;

// A member's steps of a chunk, at their logical time.
struct Event {
  enum class Kind : uint8_t { reduce, rise, fall, spread };
  uint64_t time = 0;
  uint64_t round = 0;
  uint32_t chunk = 0;  // of the round
  Kind kind = Kind::reduce;

  friend auto operator<=>(const Event&, const Event&) = default;
};

// Returns the steps in an order in which a sequential run would be correct: a transfer has the same
// time at both of its ends.
std::vector<Event> events_of(const Forest& forest, uint64_t rounds) {
  using Kind = Event::Kind;
  std::vector<Event> events;
  for (uint64_t round = 0; round < rounds; ++round) {
    for (uint32_t index = 0; index < forest.chunks.size(); ++index) {
      const ChunkTrees& chunk = forest.chunks[index];
      const uint64_t begin = round * forest.period + chunk.start;
      const auto add = [&](uint64_t level, Kind kind) {
        events.push_back({begin + level * forest.hop, round, index, kind});
      };
      const uint64_t risen = forest.height - chunk.rising.depth;
      if (!chunk.rising.children.empty()) add(risen - 1, Kind::reduce);
      if (chunk.rising.depth > 0) add(risen, Kind::rise);
      const uint64_t fallen = forest.height + chunk.falling.depth;
      if (chunk.falling.depth > 0) add(fallen - 1, Kind::fall);
      if (!chunk.falling.children.empty()) add(fallen, Kind::spread);
    }
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
    done_.assign(forest_.rounds() * chunks().size(), kNotYet);
    for (const Event& event : events_of(forest_.forest(), forest_.rounds())) add(event);
  }

 private:
  static constexpr uint32_t kNotYet = UINT32_MAX;

  const std::vector<ChunkTrees>& chunks() const { return forest_.forest().chunks; }
  Rank rank(uint32_t member) const { return what_->group.ranks[member]; }
  Region result_of(const Event& event) const {
    return what_ == nullptr ? Region{} : forest_.chunk_of(what_->result, event.round, event.chunk);
  }
  uint32_t& done(const Event& event) { return done_[event.round * chunks().size() + event.chunk]; }

  void add(const Event& event) {
    const ChunkTrees& chunk = chunks()[event.chunk];
    switch (event.kind) {
      case Event::Kind::reduce:
        return reduce(chunk.rising, event);
      case Event::Kind::rise:
        return rise(chunk.rising, event);
      case Event::Kind::fall:
        if (what_ != nullptr) plan_.receive(rank(chunk.falling.parent), result_of(event));
        return finish(event);
      case Event::Kind::spread:
        if (what_ == nullptr) return;
        for (const uint32_t child : chunk.falling.children) {
          plan_.send(rank(child), result_of(event));
        }
        return;
    }
  }

  // Reduces the partial results of the children, one after the other.
  void reduce(const TreeEnd& end, const Event& event) {
    Region partial = source_.take_input(event.round, event.chunk, end.children.size());
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
    const Region given = source_.take_input(event.round, event.chunk, 0);
    if (what_ == nullptr || given.count == 0) return;
    std::vector<uint32_t> after;
    const uint64_t number = event.round * chunks().size() + event.chunk;
    if (number >= forest_.forest().window) {
      const uint32_t earlier = done_[number - forest_.forest().window];
      if (earlier != kNotYet) after.push_back(earlier);
    }
    if (given_.size() >= kGivenAhead) after.push_back(given_[given_.size() - kGivenAhead]);
    plan_.send(rank(end.parent), given, std::move(after));
    given_.push_back(plan_.last_step());
  }

  // The member has the result of a chunk.
  void finish(const Event& event) {
    if (what_ != nullptr && result_of(event).count > 0) done(event) = plan_.last_step();
    source_.give_result(event.round, event.chunk);
  }

  const ForestPlan& forest_;
  const GroupReduction* const what_;
  ChunkSource& source_;
  PlanBuilder& plan_;
  std::vector<uint32_t> done_;   // by chunk: the step after which this member has its result
  std::vector<uint32_t> given_;  // the sends of own input
};

// The input of a member that is one rank.
class OwnInput final : public ChunkSource {
 public:
  OwnInput(const ForestPlan& forest, const Region& input) : forest_(forest), input_(input) {}
  Region take_input(uint64_t round, uint32_t chunk, size_t) override {
    return forest_.chunk_of(input_, round, chunk);
  }
  void give_result(uint64_t, uint32_t) override {}

 private:
  const ForestPlan& forest_;
  const Region input_;
};

}  // namespace

void Forest::set_window() {
  constexpr uint64_t kReserve = 4;
  window = (chunks.size() * 2 * height * hop + period - 1) / period + kReserve;
}

ForestPlan::ForestPlan(const TotalRates& rates, uint32_t self, Algorithm algorithm, uint64_t count,
                       DataType type, const PlanLimits& limits) {
  const uint64_t segment =
      segment_count(count * size_of(type) / limits.segments_per_tree, type, limits);
  const uint64_t chunks = std::max<uint64_t>((count + segment - 1) / segment, 1);
  const auto rounds_of = [&](uint64_t each) { return (chunks + each - 1) / each; };
  if (algorithm == Algorithm::trees || algorithm == Algorithm::direct) {
    const auto members = static_cast<uint32_t>(rates.size());
    rounds_ = rounds_of(limits.segments_per_tree);
    forest_ = spread_forest(rates, self,
                            algorithm == Algorithm::trees ? kTreeArity : std::max(members, 3u) - 2,
                            (chunks + rounds_ - 1) / rounds_);
  } else {
    forest_ = ring_forest(rates, ring_shares(rates, algorithm), self);
    rounds_ = rounds_of(forest_.chunks.size());
  }
  ends_.push_back(0);
  for (const ChunkTrees& chunk : forest_.chunks) ends_.push_back(ends_.back() + chunk.weight);
}

Region ForestPlan::chunk_of(const Region& whole, uint64_t round, uint32_t chunk) const {
  const Region part = part_of(whole, round, rounds_);
  const uint64_t all = ends_.back();
  // Weights are so small that nothing overflows.
  const auto cut = [&](uint64_t end) {
    return part.count / all * end + part.count % all * end / all;
  };
  const uint64_t begin = cut(ends_[chunk]);
  return {part.buffer, part.offset + begin, cut(ends_[chunk + 1]) - begin};
}

bool uses_forest(Algorithm algorithm) {
  return algorithm == Algorithm::direct || algorithm == Algorithm::trees ||
         algorithm == Algorithm::split || algorithm == Algorithm::recursive_split ||
         algorithm == Algorithm::leaf;
}

void build_along_forest(const ForestPlan& forest, const GroupReduction* what, ChunkSource& source,
                        PlanBuilder& plan) {
  ForestReduction(forest, what, source, plan).build();
}

void build_forest(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                  PlanBuilder& plan) {
  const ForestPlan forest(what.rates, what.group.self, algorithm, what.result.count, what.type,
                          limits);
  OwnInput input(forest, what.partial);
  build_along_forest(forest, &what, input, plan);
}

}  // namespace r2ccl
