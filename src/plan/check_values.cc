// Values: runs the plan on expressions instead of numbers. Equal expressions have equal ids, so two
// ranks hold the same bits exactly when they hold the same id.
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "plan/checker_parts.h"

namespace r2ccl::checker {
namespace {

using Expression = uint32_t;
constexpr Expression kUndefined = UINT32_MAX;

class RankSet {
 public:
  explicit RankSet(size_t ranks) : words_((ranks + 63) / 64) {}
  void insert(size_t rank) { words_[rank / 64] |= uint64_t{1} << (rank % 64); }
  void insert(const RankSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool contains(size_t rank) const { return (words_[rank / 64] >> (rank % 64) & 1) != 0; }
  bool overlaps(const RankSet& other) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }
  // Returns the first rank missing of `ranks`; `ranks` when none is.
  size_t first_missing(size_t ranks) const {
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (!contains(rank)) return rank;
    }
    return ranks;
  }

 private:
  std::vector<uint64_t> words_;
};

// Expression r < p is rank r's input; the others are reductions of two expressions.
class Expressions {
 public:
  explicit Expressions(size_t ranks) : ranks_(ranks) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      inputs_.emplace_back(ranks);
      inputs_.back().insert(rank);
    }
  }
  const RankSet& inputs(Expression expression) const { return inputs_[expression]; }
  size_t first_missing(Expression expression) const {
    return inputs_[expression].first_missing(ranks_);
  }
  Expression reduce(Expression a, Expression b) {
    const auto [known, is_new] = known_.insert({{a, b}, static_cast<Expression>(inputs_.size())});
    if (is_new) {
      RankSet both = inputs_[a];
      both.insert(inputs_[b]);
      inputs_.push_back(std::move(both));
    }
    return known->second;
  }

 private:
  size_t ranks_;
  std::vector<RankSet> inputs_;
  std::map<std::pair<Expression, Expression>, Expression> known_;
};

class SymbolicRun {
 public:
  explicit SymbolicRun(const Subject& subject)
      : subject_(subject), expressions_(subject.plans.size()) {
    cuts_ = {0, subject.key.count};
    for (const RankPlan& plan : subject.plans) {
      for (const Step& step : plan.steps) {
        for (const Region& region : {step.source, step.target}) {
          cuts_.push_back(region.offset);
          cuts_.push_back(region.offset + region.count);
        }
      }
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    const size_t pieces = cuts_.size() - 1;
    for (size_t rank = 0; rank < subject.plans.size(); ++rank) {
      const bool has_input = subject.key.collective == Collective::all_reduce ||
                             static_cast<size_t>(subject.key.root.value()) == rank;
      const Expression input = has_input ? static_cast<Expression>(rank) : kUndefined;
      inputs_.emplace_back(pieces, input);
      outputs_.emplace_back(pieces, subject.in_place[rank] ? input : kUndefined);
    }
  }

  Status run(const std::vector<StepId>& schedule) {
    for (const StepId id : schedule) {
      switch (subject_.step(id).kind) {
        case StepKind::send:
          R2CCL_RETURN_IF_ERROR(take(id));
          break;
        case StepKind::copy:
          R2CCL_RETURN_IF_ERROR(take(id));
          put(id, id);
          break;
        case StepKind::receive:
          put(subject_.send_of(id), id);
          break;
        case StepKind::receive_reduce:
          R2CCL_RETURN_IF_ERROR(reduce(id));
          break;
      }
    }
    return check_outputs();
  }

 private:
  std::vector<Expression>& memory(size_t rank, Buffer buffer) {
    const bool separate = buffer == Buffer::input && !subject_.in_place[rank];
    return separate ? inputs_[rank] : outputs_[rank];
  }

  std::pair<size_t, size_t> pieces_of(const Region& region) const {
    const auto at = [&](uint64_t offset) {
      return static_cast<size_t>(std::lower_bound(cuts_.begin(), cuts_.end(), offset) -
                                 cuts_.begin());
    };
    return {at(region.offset), at(region.offset + region.count)};
  }

  // Records what a send or copy reads. A send may be complete, and its source overwritten, before
  // its receiver reduces.
  Status take(StepId id) {
    const Region& source = subject_.step(id).source;
    const std::vector<Expression>& read = memory(id.rank, source.buffer);
    const auto [begin, end] = pieces_of(source);
    std::vector<Expression> taken;
    for (size_t i = begin; i < end; ++i) {
      if (read[i] == kUndefined)
        return subject_.wrong(id, "reads elements that were never written");
      taken.push_back(read[i]);
    }
    taken_[id] = std::move(taken);
    return Status::ok_status();
  }

  // Writes what `from` has read to the target of `to`; for a copy both are the same step.
  void put(StepId from, StepId to) {
    const auto taken = taken_.extract(from);
    const size_t begin = pieces_of(subject_.step(to).target).first;
    std::ranges::copy(taken.mapped(),
                      memory(to.rank, Buffer::output).begin() + static_cast<std::ptrdiff_t>(begin));
  }

  Status reduce(StepId receive) {
    const Step& step = subject_.step(receive);
    const auto taken = taken_.extract(subject_.send_of(receive));
    const std::vector<Expression>& own = memory(receive.rank, step.source.buffer);
    std::vector<Expression>& target = memory(receive.rank, Buffer::output);
    const auto [begin, end] = pieces_of(step.target);
    for (size_t i = begin; i < end; ++i) {
      const Expression received = taken.mapped()[i - begin];
      if (own[i] == kUndefined)
        return subject_.wrong(receive, "reads elements that were never written");
      if (expressions_.inputs(own[i]).overlaps(expressions_.inputs(received))) {
        return subject_.wrong(receive, "reduces an input that is already in");
      }
      target[i] = step.operands == Operands::own_first ? expressions_.reduce(own[i], received)
                                                       : expressions_.reduce(received, own[i]);
      const bool full = expressions_.first_missing(target[i]) == subject_.plans.size();
      if (full != step.last_reduction) {
        return subject_.wrong(receive, full ? "is the last reduction but does not say so"
                                            : "is not the last reduction");
      }
    }
    return Status::ok_status();
  }

  Status check_outputs() const {
    for (size_t rank = 0; rank < outputs_.size(); ++rank) {
      for (size_t i = 0; i + 1 < cuts_.size(); ++i) {
        R2CCL_RETURN_IF_ERROR(check_output(rank, i));
      }
    }
    return Status::ok_status();
  }

  Status check_output(size_t rank, size_t piece) const {
    const Expression value = outputs_[rank][piece];
    const std::string where = "rank " + std::to_string(rank) + ", elements [" +
                              std::to_string(cuts_[piece]) + ", " +
                              std::to_string(cuts_[piece + 1]) + "): ";
    if (value == kUndefined) return Status(Code::internal, where + "never written");
    if (subject_.key.collective == Collective::broadcast) {
      if (value == static_cast<Expression>(subject_.key.root.value())) return Status::ok_status();
      return Status(Code::internal, where + "not the root's");
    }
    const size_t missing = expressions_.first_missing(value);
    if (missing < outputs_.size()) {
      return Status(Code::internal,
                    where + "the input of rank " + std::to_string(missing) + " is missing");
    }
    if (value == outputs_[0][piece]) return Status::ok_status();
    return Status(Code::internal, where + "reduced in another order than on rank 0");
  }

  const Subject& subject_;
  Expressions expressions_;
  std::vector<uint64_t> cuts_;  // element positions: piece i is from cuts_[i] to cuts_[i + 1]
  std::vector<std::vector<Expression>> inputs_;      // per rank and piece
  std::vector<std::vector<Expression>> outputs_;     // in place also the input
  std::map<StepId, std::vector<Expression>> taken_;  // by send: its expressions, until they arrive
};

}  // namespace

Status check_values(const Subject& subject, const std::vector<StepId>& schedule) {
  return SymbolicRun(subject).run(schedule);
}

// Checks that no rank ends before all began. A step knows that a rank has begun when that follows
// from its `after` steps. An acknowledgement proves nothing, because a rank may take in bytes
// before it posts the receive.
Status check_barrier(const Subject& subject, const std::vector<StepId>& schedule) {
  const size_t ranks = subject.plans.size();
  std::vector<std::vector<RankSet>> known(ranks);
  std::vector<RankSet> at_end(ranks, RankSet(ranks));
  for (size_t rank = 0; rank < ranks; ++rank) {
    known[rank].assign(subject.plans[rank].steps.size(), RankSet(ranks));
    at_end[rank].insert(rank);
  }
  for (const StepId id : schedule) {
    RankSet& here = known[id.rank][id.index];
    here.insert(id.rank);
    for (const uint32_t before : subject.step(id).after) here.insert(known[id.rank][before]);
    if (subject.step(id).kind == StepKind::receive) {
      const StepId send = subject.send_of(id);
      here.insert(known[send.rank][send.index]);
    }
    at_end[id.rank].insert(here);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t missing = at_end[rank].first_missing(ranks);
    if (missing < ranks) {
      return Status(Code::internal, "rank " + std::to_string(rank) + " may leave before rank " +
                                        std::to_string(missing) + " has come");
    }
  }
  return Status::ok_status();
}

}  // namespace r2ccl::checker
