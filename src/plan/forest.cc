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

// A step of one member, at its logical time.
struct Event {
  enum class Kind : uint8_t { before, reduce, rise, fall, spread, after };
  uint64_t time = 0;
  uint64_t round = 0;
  uint32_t chunk = 0;  // of the round
  Kind kind = Kind::before;

  friend auto operator<=>(const Event&, const Event&) = default;
};

class ForestReduction {
 public:
  ForestReduction(const GroupReduction& what, const Forest& forest, uint64_t rounds,
                  const ChunkHooks& hooks, PlanBuilder& plan)
      : what_(what), forest_(forest), rounds_(rounds), hooks_(hooks), plan_(plan) {
    ends_.push_back(0);
    for (const ChunkTrees& chunk : forest.chunks) ends_.push_back(ends_.back() + chunk.weight);
  }

  void build() {
    done_.assign(rounds_ * forest_.chunks.size(), kNotYet);
    for (const Event& event : events()) add(event);
  }

 private:
  static constexpr uint32_t kNotYet = UINT32_MAX;

  // The steps in an order in which a sequential run would be correct: a transfer has the same time
  // at both of its ends.
  std::vector<Event> events() const {
    using Kind = Event::Kind;
    std::vector<Event> events;
    for (uint64_t round = 0; round < rounds_; ++round) {
      for (uint32_t index = 0; index < forest_.chunks.size(); ++index) {
        const ChunkTrees& chunk = forest_.chunks[index];
        const uint64_t begin = round * forest_.period + chunk.start;
        const auto add = [&](uint64_t level, Kind kind) {
          events.push_back({begin + level * forest_.hop, round, index, kind});
        };
        if (hooks_.before) add(0, Kind::before);
        const uint64_t risen = forest_.height - chunk.rising.depth;
        if (!chunk.rising.children.empty()) add(risen - 1, Kind::reduce);
        if (chunk.rising.depth > 0) add(risen, Kind::rise);
        const uint64_t fallen = forest_.height + chunk.falling.depth;
        if (chunk.falling.depth > 0) add(fallen - 1, Kind::fall);
        if (!chunk.falling.children.empty()) add(fallen, Kind::spread);
        if (hooks_.after) add(2 * forest_.height, Kind::after);
      }
    }
    std::ranges::sort(events);
    return events;
  }

  // Returns the elements of a chunk, in the output.
  Region region_of(uint64_t round, uint32_t chunk) const {
    const Region whole = part_of(what_.result, round, rounds_);
    const uint64_t begin = cut(whole.count, ends_[chunk]);
    return {whole.buffer, whole.offset + begin, cut(whole.count, ends_[chunk + 1]) - begin};
  }
  // Returns how many of `count` elements come before a place among the weights. Weights are small
  // enough that nothing overflows (kWeightMax).
  uint64_t cut(uint64_t count, uint64_t end) const {
    const uint64_t all = ends_.back();
    return count / all * end + count % all * end / all;
  }

  Region own(const Region& result) const {
    return {what_.partial.buffer, what_.partial.offset + result.offset - what_.result.offset,
            result.count};
  }
  Rank rank(uint32_t member) const { return what_.group.ranks[member]; }

  void add(const Event& event) {
    const ChunkTrees& chunk = forest_.chunks[event.chunk];
    const Region result = region_of(event.round, event.chunk);
    if (result.count == 0) return;
    const uint64_t number = event.round * forest_.chunks.size() + event.chunk;
    switch (event.kind) {
      case Event::Kind::before:
        return hooks_.before(result);
      case Event::Kind::reduce:
        return reduce(chunk.rising, result, number);
      case Event::Kind::rise:
        return rise(chunk.rising, result, number);
      case Event::Kind::fall:
        plan_.receive(rank(chunk.falling.parent), result);
        done_[number] = plan_.last_step();
        return;
      case Event::Kind::spread:
        for (const uint32_t child : chunk.falling.children) plan_.send(rank(child), result);
        return;
      case Event::Kind::after:
        return hooks_.after(result);
    }
  }

  // Reduces the partial results of the children, one after the other.
  void reduce(const TreeEnd& end, const Region& result, uint64_t number) {
    Region partial = own(result);
    const bool opens = plan_.widens() && partial.buffer != Buffer::wide && end.children.size() > 1;
    const Region further =
        opens ? plan_.take_wide(result.count) : (partial.buffer == Buffer::wide ? partial : result);
    for (const uint32_t child : end.children) {
      const bool last = child == end.children.back();
      plan_.receive_reduce(rank(child), partial, last ? result : further, last && end.depth == 0);
      partial = further;
    }
    if (end.depth == 0) done_[number] = plan_.last_step();
  }

  void rise(const TreeEnd& end, const Region& result, uint64_t number) {
    if (!end.children.empty()) return plan_.send(rank(end.parent), result);
    Region given = own(result);
    if (given.buffer == Buffer::wide) {
      plan_.copy(given, result);
      given = result;
    }
    std::vector<uint32_t> after;
    if (number >= forest_.window) {
      const uint32_t earlier = done_[number - forest_.window];
      if (earlier != kNotYet) after.push_back(earlier);
    }
    if (given_.size() >= kGivenAhead) after.push_back(given_[given_.size() - kGivenAhead]);
    plan_.send(rank(end.parent), given, std::move(after));
    given_.push_back(plan_.last_step());
  }

  const GroupReduction& what_;
  const Forest& forest_;
  const uint64_t rounds_;
  const ChunkHooks& hooks_;
  PlanBuilder& plan_;
  std::vector<uint64_t> ends_;   // of the chunks of a round, among their weights
  std::vector<uint32_t> done_;   // by chunk: the step after which this member has its result
  std::vector<uint32_t> given_;  // the sends of own input
};

}  // namespace

void Forest::set_window() {
  constexpr uint64_t kReserve = 4;
  window = (chunks.size() * 2 * height * hop + period - 1) / period + kReserve;
}

bool uses_forest(Algorithm algorithm) {
  return algorithm == Algorithm::direct || algorithm == Algorithm::trees ||
         algorithm == Algorithm::split || algorithm == Algorithm::recursive_split ||
         algorithm == Algorithm::leaf;
}

void build_forest(const GroupReduction& what, Algorithm algorithm, const PlanLimits& limits,
                  PlanBuilder& plan, const ChunkHooks& hooks) {
  const auto members = static_cast<uint32_t>(what.group.size());
  const uint64_t segment = segment_count(
      what.result.count * size_of(what.type) / limits.segments_per_tree, what.type, limits);
  const uint64_t chunks = std::max<uint64_t>((what.result.count + segment - 1) / segment, 1);
  const auto add = [&](const Forest& forest, uint64_t rounds) {
    ForestReduction(what, forest, rounds, hooks, plan).build();
  };
  if (algorithm == Algorithm::trees || algorithm == Algorithm::direct) {
    const uint64_t rounds = (chunks + limits.segments_per_tree - 1) / limits.segments_per_tree;
    const uint32_t arity =
        algorithm == Algorithm::trees ? kTreeArity : std::max<uint32_t>(members - 2, 1);
    return add(spread_forest(what.rates, what.group.self, arity, chunks / rounds), rounds);
  }
  const Forest forest =
      ring_forest(what.rates, ring_shares(what.rates, algorithm), what.group.self);
  add(forest, (chunks + forest.chunks.size() - 1) / forest.chunks.size());
}

}  // namespace r2ccl
