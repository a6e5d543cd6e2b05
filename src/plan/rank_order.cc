// Reductions in rank order: each element is ((x0 + x1) + x2) + ..., added at one rank, its owner.
// So its bits do not depend on which rank that is, and owners may change with the bandwidth of
// hosts (owners.cc). Each rank sends each owner its elements, which the owner adds in the order of
// the ranks, its own in their place among them. Then the owner of a part of an AllReduce sends the
// sum to all, and the owner of a part of a Reduce sends it to the root: 2 (p - 1) / p of the vector
// in an AllReduce of equal ranks, as in a ring, in two hops and 2 (p - 1) messages or more.
//
// The list of a rank has rounds: a piece (one segment) of every owner's range is sent in each, to
// the owners in turn from the next rank on, so that they do not all get the first message at once.
// The owner takes the messages of a piece one in each *turn*. Where there are many ranks, it begins
// the next piece before it has taken all of them: the rounds are `stride_` turns apart. The staging
// pool has fewer slots than there are ranks, so owners that all took one piece at a time would all
// wait for the same few ranks, and leave the others idle.
//
//   turn         0      1      2      3      4      5      6        p = 5, stride 2
//   piece 0      x0     x1     x2     x3     x4
//   piece 1                    x0     x1     x2     x3     x4
//
// A piece's partial result has a slot of scratch memory, or a place in wide memory, which later
// pieces use again.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "plan/algorithms.h"
#include "plan/holdings.h"

namespace r2ccl {
namespace {

class RankOrder {
 public:
  RankOrder(const PlanKey& key, const Contents& contents, const PlanLimits& limits,
            PlanBuilder& plan)
      : key_(key),
        contents_(contents),
        plan_(plan),
        ranks_(static_cast<uint64_t>(key.rank_count)),
        self_(static_cast<uint64_t>(plan.rank().value())),
        owned_(owned_ranges(key, limits)) {
    uint64_t most = 0;
    for (const Range& range : owned_) most = std::max(most, range.count);
    const uint64_t bytes = most * size_of(key.type);
    segment_ = segment_count(bytes / limits.segments_per_block, key.type, limits);
    pieces_ = (most + segment_ - 1) / segment_;
    slots_ = limits.spare_scratch_bytes / (segment_ * size_of(key.type));
    if (plan.widens()) slots_ = std::min(slots_, wide_count(limits) / segment_);
    slots_ = std::max<uint64_t>(slots_, 1);
    // Half of the slots have a piece that is reduced, and half one that waits to be sent.
    const uint64_t open = std::max<uint64_t>(slots_ / 2, 1);
    stride_ = std::max((ranks_ + open - 1) / open, std::min(ranks_, limits.messages_per_segment));
    lag_ = open;
    if (key.collective == Collective::all_reduce) {
      // The results have their place in the output, so the sums may all come first.
      lag_ = std::max(pieces_, open);
    }
    R2CCL_CHECK(segment_ > 0 && stride_ > 0 && lag_ > 0);
  }

  void build() {
    const uint64_t rounds = pieces_ + (shares_results() ? lag_ : 0);
    const uint64_t turns = (rounds - 1) * stride_ + ranks_;
    for (uint64_t turn = 0; turn < turns; ++turn) {
      if (turn % stride_ == 0 && turn / stride_ < rounds) send_round(turn / stride_);
      // The first round that has not ended.
      uint64_t round = turn < ranks_ ? 0 : (turn - ranks_) / stride_ + 1;
      for (; round < rounds && round * stride_ <= turn; ++round) {
        take(round, turn - round * stride_);
      }
    }
    plan_.set_scratch(scratch_);
  }

 private:
  // Returns whether owners send results to other ranks.
  bool shares_results() const {
    if (key_.collective == Collective::reduce_scatter) return false;
    return owned_[0] != owned_[1] || owned_[0].count == 0;
  }
  bool gets_results(uint64_t rank) const {
    return key_.collective == Collective::all_reduce ||
           rank == static_cast<uint64_t>(key_.root.value());
  }
  Rank rank(uint64_t number) const { return Rank(static_cast<int32_t>(number)); }

  // Returns a piece of an owner's range; without elements beyond its end.
  Range piece_of(uint64_t owner, uint64_t piece) const {
    const Range& range = owned_[owner];
    const uint64_t skipped = std::min(piece * segment_, range.count);
    return {range.begin + skipped, std::min(segment_, range.count - skipped)};
  }
  Region input(const Range& range) const {
    if (range.count == 0) return {};
    return {Buffer::input, offset_of(contents_.input, range), range.count};
  }
  Region result(uint64_t piece) {
    const Range range = piece_of(self_, piece);
    if (range.count == 0 || !holds(contents_.output, range)) return slot(piece);
    return {Buffer::output, offset_of(contents_.output, range), range.count};
  }
  Region slot(uint64_t piece) {
    const uint64_t offset = piece % slots_ * segment_;
    const uint64_t count = piece_of(self_, piece).count;
    if (count > 0) scratch_ = std::max(scratch_, offset + segment_);
    return {Buffer::scratch, offset, count};
  }

  void send_round(uint64_t round) {
    for (uint64_t distance = 1; distance < ranks_; ++distance) {
      const uint64_t peer = (self_ + distance) % ranks_;
      if (round < pieces_) plan_.send(rank(peer), input(piece_of(peer, round)));
      if (shares_results() && round >= lag_ && gets_results(peer)) {
        plan_.send(rank(peer), result(round - lag_));
      }
    }
  }

  // Takes the messages of `from` in a round.
  void take(uint64_t round, uint64_t from) {
    if (round < pieces_ && piece_of(self_, round).count > 0) add(round, from);
    if (from == self_ || !shares_results() || round < lag_ || !gets_results(self_)) return;
    const Range range = piece_of(from, round - lag_);
    if (range.count == 0) return;
    plan_.receive(rank(from), {Buffer::output, offset_of(contents_.output, range), range.count});
  }

  // Takes the elements of rank 0, to which the first ones are added.
  void begin(uint64_t piece, const Region& own) {
    if (self_ == 0) return;
    if (self_ > 1) {
      plan_.receive(rank(0), partials_[piece] = slot(piece));
    } else {
      plan_.receive_reduce(rank(0), own, next(piece, 1), ranks_ == 2, Operands::received_first);
    }
  }

  // Adds the elements of `from` to a piece of this rank's range.
  void add(uint64_t piece, uint64_t from) {
    const Region own = input(piece_of(self_, piece));
    if (from == 0) return begin(piece, own);
    const bool last = from + 1 == ranks_;
    const Region partial = self_ == 0 && from == 1 ? own : partials_[piece];
    if (from != self_) {
      plan_.receive_reduce(rank(from), partial, next(piece, from), last);
    } else if (self_ > 1) {
      plan_.reduce(partial, own, next(piece, from), last);
    }
    if (last) partials_.erase(piece);
  }
  // Returns the place of the sum of a piece up to the elements of `from`.
  Region next(uint64_t piece, uint64_t from) {
    if (from + 1 == ranks_) return result(piece);
    Region& partial = partials_[piece];
    if (!plan_.widens()) return partial = slot(piece);
    if (partial.buffer != Buffer::wide) {
      partial = plan_.take_wide(segment_);
      partial.count = piece_of(self_, piece).count;
    }
    return partial;
  }

  const PlanKey& key_;
  const Contents& contents_;
  PlanBuilder& plan_;
  const uint64_t ranks_;
  const uint64_t self_;
  const std::vector<Range> owned_;
  uint64_t segment_ = 0;  // elements of a piece
  uint64_t pieces_ = 0;   // of the longest range
  uint64_t slots_ = 0;
  uint64_t stride_ = 0;  // turns from one round to the next
  uint64_t lag_ = 0;     // rounds from the elements of a piece to its result
  uint64_t scratch_ = 0;
  std::map<uint64_t, Region> partials_;  // of the pieces that are being reduced
};

}  // namespace

void build_in_rank_order(const PlanKey& key, const Contents& contents, const PlanLimits& limits,
                         PlanBuilder& plan) {
  RankOrder(key, contents, limits, plan).build();
}

}  // namespace r2ccl
