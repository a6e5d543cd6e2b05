// Values: runs the plan on expressions instead of numbers. Equal expressions have equal ids, so two
// ranks hold the same bits exactly when they hold the same id. Where a partial result has a wide
// form, an expression also says whether it is rounded.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/analysis/checker_parts.h"

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

// Expression r < p is rank r's input; the others are reductions of two expressions, rounded or in
// wide form.
class Expressions {
 public:
  explicit Expressions(size_t ranks) : ranks_(ranks) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      inputs_.emplace_back(ranks);
      inputs_.back().insert(rank);
      reductions_.emplace_back();
    }
  }
  const RankSet& inputs(Expression expression) const { return inputs_[expression]; }
  size_t first_missing(Expression expression) const {
    return inputs_[expression].first_missing(ranks_);
  }
  bool is_wide(Expression expression) const { return std::get<2>(reductions_[expression]); }
  Expression reduce(Expression a, Expression b, bool wide) {
    const Reduction reduction{a, b, wide};
    const auto [known, is_new] =
        known_.insert({reduction, static_cast<Expression>(inputs_.size())});
    if (is_new) {
      RankSet both = inputs_[a];
      both.insert(inputs_[b]);
      inputs_.push_back(std::move(both));
      reductions_.push_back(reduction);
    }
    return known->second;
  }
  // Returns the expression when it is rounded after its last reduction.
  Expression round(Expression expression) {
    if (!is_wide(expression)) return expression;
    const auto [a, b, wide] = reductions_[expression];
    return reduce(a, b, false);
  }

 private:
  using Reduction = std::tuple<Expression, Expression, bool>;  // the operands, and is_wide()

  size_t ranks_;
  std::vector<RankSet> inputs_;
  std::vector<Reduction> reductions_;  // of an input: its operands mean nothing
  std::map<Reduction, Expression> known_;
};

// Elements in a row, each with the same expression of its own inputs.
struct Run {
  uint64_t count = 0;
  uint64_t element = 0;  // the first one's number in the vector
  Expression value = kUndefined;
  bool kept = false;  // a partial result that this rank has rounded and not sent

  Run part(uint64_t skipped, uint64_t length) const {
    return {length, element + skipped, value, kept};
  }
};
using Runs = std::vector<Run>;

// The contents of a piece of memory.
class Memory {
 public:
  void write(uint64_t offset, const Run& run) {
    if (run.count == 0) return;
    const auto end = cut(offset + run.count);
    runs_.erase(cut(offset), end);
    runs_[offset] = run;
  }
  void write(uint64_t offset, const Runs& runs) {
    for (const Run& run : runs) {
      write(offset, run);
      offset += run.count;
    }
  }
  // Undefined elements have an undefined value.
  Runs read(uint64_t offset, uint64_t count) {
    const uint64_t end = offset + count;
    Runs found;
    const auto last = cut(end);
    for (auto it = cut(offset); it != last; ++it) {
      if (it->first > offset) found.push_back({.count = it->first - offset});
      found.push_back(it->second);
      offset = it->first + it->second.count;
    }
    if (offset < end) found.push_back({.count = end - offset});
    return found;
  }

 private:
  std::map<uint64_t, Run>::iterator cut(uint64_t offset) {
    const auto next = runs_.lower_bound(offset);
    if (next == runs_.begin()) return next;
    const auto before = std::prev(next);
    const uint64_t kept = offset - before->first;
    if (before->second.count <= kept) return next;
    const Run rest = before->second.part(kept, before->second.count - kept);
    before->second.count = kept;
    return runs_.insert(next, {offset, rest});
  }
  std::map<uint64_t, Run> runs_;  // by offset
};

// Calls f(run of a, run of b) for equally long parts of both; returns its first error.
template <typename F>
Status for_each_pair(const Runs& a, const Runs& b, F f) {
  uint64_t skipped_a = 0;
  uint64_t skipped_b = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint64_t count = std::min(a[i].count - skipped_a, b[j].count - skipped_b);
    R2CCL_RETURN_IF_ERROR(f(a[i].part(skipped_a, count), b[j].part(skipped_b, count)));
    skipped_a += count;
    skipped_b += count;
    if (skipped_a == a[i].count) skipped_a = 0, ++i;
    if (skipped_b == b[j].count) skipped_b = 0, ++j;
  }
  return Status::ok_status();
}

class SymbolicRun {
 public:
  explicit SymbolicRun(const Subject& subject)
      : subject_(subject), expressions_(subject.plans.size()), memories_(subject.plans.size()) {
    if (reduces_in_rank_order(subject.keys[0])) in_rank_order_ = reduction_in_rank_order();
    for (size_t rank = 0; rank < subject.plans.size(); ++rank) {
      for (const Holding& held : subject.contents[rank].input) {
        const Region place{Buffer::input, held.offset, held.range.count};
        memory(rank, place)
            .write(subject.address_of(rank, place),
                   {held.range.count, held.range.begin, expression_of(held.of)});
      }
    }
  }

  Status run(const std::vector<StepId>& schedule) {
    for (const StepId id : schedule) {
      switch (subject_.step(id).kind) {
        case StepKind::send:
          R2CCL_RETURN_IF_ERROR(take(id));
          mark_sent(id);
          break;
        case StepKind::copy:
          R2CCL_RETURN_IF_ERROR(take(id));
          if (subject_.step(id).target.buffer != Buffer::wide) round(taken_[id]);
          put(id, id);
          break;
        case StepKind::receive:
          put(subject_.send_of(id), id);
          break;
        case StepKind::receive_reduce:
          R2CCL_RETURN_IF_ERROR(reduce(id, taken_.extract(subject_.send_of(id)).mapped()));
          break;
        case StepKind::reduce:
          R2CCL_RETURN_IF_ERROR(reduce(id, read(id.rank, subject_.step(id).addend)));
          break;
      }
    }
    for (size_t rank = 0; rank < memories_.size(); ++rank) {
      for (const Holding& held : subject_.contents[rank].output) {
        R2CCL_RETURN_IF_ERROR(check_result(rank, held));
      }
    }
    return Status::ok_status();
  }

 private:
  static Expression expression_of(Rank of) { return static_cast<Expression>(of.value()); }

  // Returns ((x0 + x1) + x2) + ..., which a type with a wide form rounds once, at the end.
  Expression reduction_in_rank_order() {
    Expression sum = 0;
    for (size_t rank = 1; rank < memories_.size(); ++rank) {
      const bool wide = subject_.has_wide_form() && rank + 1 < memories_.size();
      sum = expressions_.reduce(sum, static_cast<Expression>(rank), wide);
    }
    return sum;
  }

  Memory& memory(size_t rank, const Region& region) {
    const bool shared = region.buffer == Buffer::input && subject_.in_place(rank);
    return memories_[rank][static_cast<size_t>(shared ? Buffer::output : region.buffer)];
  }
  Runs read(size_t rank, const Region& region) {
    return memory(rank, region).read(subject_.address_of(rank, region), region.count);
  }
  void write(size_t rank, const Region& region, const Runs& runs) {
    memory(rank, region).write(subject_.address_of(rank, region), runs);
  }

  // Records what a send or copy reads. A send may be complete, and its source overwritten, before
  // its receiver reduces.
  Status take(StepId id) {
    Runs taken = read(id.rank, subject_.step(id).source);
    for (const Run& run : taken) {
      if (run.value == kUndefined)
        return subject_.wrong(id, "reads elements that were never written");
    }
    taken_[id] = std::move(taken);
    return Status::ok_status();
  }

  void round(Runs& runs) {
    for (Run& run : runs) {
      if (!expressions_.is_wide(run.value)) continue;
      run.value = expressions_.round(run.value);
      run.kept = true;
    }
  }

  // Neither the sender nor the receiver still has to send these values before it adds to them.
  void mark_sent(StepId id) {
    Runs& sent = taken_[id];
    for (Run& run : sent) run.kept = false;
    write(id.rank, subject_.step(id).source, sent);
  }

  // Writes what `from` has read to the target of `to`; for a copy both are the same step.
  void put(StepId from, StepId to) {
    write(to.rank, subject_.step(to).target, taken_.extract(from).mapped());
  }

  // `others`: the operands that were received, or are added from this rank's memory.
  Status reduce(StepId id, const Runs& others) {
    const Step& step = subject_.step(id);
    Runs reduced;
    R2CCL_RETURN_IF_ERROR(
        for_each_pair(read(id.rank, step.source), others, [&](const Run& own, const Run& other) {
          reduced.push_back(own);
          return reduce(id, reduced.back(), other);
        }));
    write(id.rank, step.target, reduced);
    return Status::ok_status();
  }

  Status reduce(StepId id, Run& own, const Run& other) {
    const Step& step = subject_.step(id);
    if (own.value == kUndefined || other.value == kUndefined)
      return subject_.wrong(id, "reads elements that were never written");
    if (own.element != other.element)
      return subject_.wrong(id, "reduces elements of different numbers");
    if (expressions_.inputs(own.value).overlaps(expressions_.inputs(other.value))) {
      return subject_.wrong(id, "reduces an input that is already in");
    }
    if (own.kept || other.kept) {
      return subject_.wrong(id, "adds to what it rounded and did not send");
    }
    const bool wide = step.target.buffer == Buffer::wide;
    own.value = step.operands == Operands::own_first
                    ? expressions_.reduce(own.value, other.value, wide)
                    : expressions_.reduce(other.value, own.value, wide);
    own.kept = subject_.has_wide_form() && !wide;
    const bool full = expressions_.first_missing(own.value) == subject_.plans.size();
    if (full != step.last_reduction) {
      return subject_.wrong(
          id, full ? "is the last reduction but does not say so" : "is not the last reduction");
    }
    if (full && wide) return subject_.wrong(id, "is the last reduction but does not round");
    return Status::ok_status();
  }

  Status check_result(size_t rank, const Holding& held) {
    uint64_t element = held.range.begin;
    for (const Run& run : read(rank, {Buffer::output, held.offset, held.range.count})) {
      const std::string where = "rank " + std::to_string(rank) + ", elements [" +
                                std::to_string(element) + ", " +
                                std::to_string(element + run.count) + "): ";
      if (run.value == kUndefined) return Status(Code::internal, where + "never written");
      if (run.element != element) {
        return Status(Code::internal,
                      where + "holds element " + std::to_string(run.element) + " instead");
      }
      R2CCL_RETURN_IF_ERROR(held.of == kNoRank ? check_reduction(run, where)
                                               : check_input(run, held.of, where));
      element += run.count;
    }
    return Status::ok_status();
  }

  static Status check_input(const Run& run, Rank of, const std::string& where) {
    if (run.value == expression_of(of)) return Status::ok_status();
    return Status(Code::internal, where + "not the input of rank " + std::to_string(of.value()));
  }

  Status check_reduction(const Run& run, const std::string& where) {
    const size_t missing = expressions_.first_missing(run.value);
    if (missing < memories_.size()) {
      return Status(Code::internal,
                    where + "the input of rank " + std::to_string(missing) + " is missing");
    }
    if (in_rank_order_ && run.value != *in_rank_order_) {
      return Status(Code::internal, where + "not reduced in rank order");
    }
    for (const Run& first : reductions_.read(run.element, run.count)) {
      if (first.value == kUndefined || first.value == run.value) continue;
      return Status(Code::internal, where + "reduced in another order than on another rank");
    }
    reductions_.write(run.element, run);
    return Status::ok_status();
  }

  const Subject& subject_;
  Expressions expressions_;
  std::vector<std::array<Memory, 4>> memories_;  // by rank and buffer; in place input is output
  std::map<StepId, Runs> taken_;                 // by send: what it read, until that arrives
  Memory reductions_;                            // complete results, by element
  std::optional<Expression> in_rank_order_;      // the value that all of them must have
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
