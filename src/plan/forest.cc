#include "plan/forest.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "plan/algorithms.h"

namespace r2ccl {
namespace {

// A member that only gives its input to a chunk does so when the chunk of so many rounds before it,
// beside those that rise and come down meanwhile, has reached it. So rounds travel in their order,
// and a slow host always has the chunks of some rounds to send.
constexpr uint64_t kRoundsInReserve = 2;

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
// time at both of its ends. Trees of different heights take the same time.
std::vector<Event> events_of(const Forest& forest, uint64_t rounds) {
  using Kind = Event::Kind;
  constexpr uint64_t kPeriod = uint64_t{1} << 20;
  std::vector<Event> events;
  for (uint64_t round = 0; round < rounds; ++round) {
    for (uint32_t index = 0; index < forest.chunks.size(); ++index) {
      const TreeEnd& end = forest.chunks[index];
      const auto add = [&](uint64_t hops, Kind kind) {
        const uint64_t way = hops * kPeriod * forest.rounds_rising / end.height;
        events.push_back({round * kPeriod + way, round, index, kind});
      };
      const uint64_t risen = end.height - end.depth;
      if (!end.children.empty()) add(risen - 1, Kind::reduce);
      if (end.depth > 0) add(risen, Kind::rise);
      if (end.depth > 0) add(end.height + end.depth - 1, Kind::fall);
      if (!end.children.empty()) add(end.height + end.depth, Kind::spread);
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

  const std::vector<TreeEnd>& chunks() const { return forest_.forest().chunks; }
  Rank rank(uint32_t member) const { return what_->group.ranks[member]; }
  Region result_of(const Event& event) const {
    return what_ == nullptr ? Region{} : forest_.chunk_of(what_->result, event.round, event.chunk);
  }
  uint32_t& done(const Event& event) { return done_[event.round * chunks().size() + event.chunk]; }

  void add(const Event& event) {
    const TreeEnd& end = chunks()[event.chunk];
    switch (event.kind) {
      case Event::Kind::reduce:
        return reduce(end, event);
      case Event::Kind::rise:
        return rise(end, event);
      case Event::Kind::fall:
        if (what_ != nullptr) plan_.receive(rank(end.parent), result_of(event));
        return finish(event);
      case Event::Kind::spread:
        if (what_ == nullptr) return;
        for (const uint32_t child : end.children) {
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
    const uint64_t ahead = 2 * forest_.forest().rounds_rising + kRoundsInReserve;
    if (event.round >= ahead) {
      Event earlier = event;
      earlier.round -= ahead;
      if (done(earlier) != kNotYet) after.push_back(done(earlier));
    }
    plan_.send(rank(end.parent), given, std::move(after));
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
  std::vector<uint32_t> done_;  // by chunk: the step after which this member has its result
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

ForestPlan::ForestPlan(const TotalRates& rates, uint32_t self, Algorithm algorithm, uint64_t count,
                       DataType type, const PlanLimits& limits)
    : forest_(make_forest(rates, forest_shares(rates, algorithm), self)) {
  ends_.push_back(0);
  uint64_t largest = 0;
  for (const TreeEnd& chunk : forest_.chunks) {
    ends_.push_back(ends_.back() + chunk.weight);
    largest = std::max(largest, chunk.weight);
  }
  const uint64_t chunk_count = scaled(count, largest, ends_.back());
  const uint64_t segment =
      segment_count(chunk_count * size_of(type) / limits.rounds_per_forest, type, limits);
  rounds_ = std::max<uint64_t>((chunk_count + segment - 1) / segment, 1);
}

Region ForestPlan::chunk_of(const Region& whole, uint64_t round, uint32_t chunk) const {
  const Region part = part_of(whole, round, rounds_);
  const auto cut = [&](uint64_t end) { return scaled(part.count, end, ends_.back()); };
  const uint64_t begin = cut(ends_[chunk]);
  return {part.buffer, part.offset + begin, cut(ends_[chunk + 1]) - begin};
}

bool uses_forest(Algorithm algorithm) {
  return algorithm == Algorithm::direct || algorithm == Algorithm::nested ||
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
