#include "plan/transfers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

using Transfer = Transfers::Transfer;

Region in(Buffer buffer, const std::vector<Holding>& holdings, const Range& range) {
  return {buffer, offset_of(holdings, range), range.count};
}

// Copies the rank's own elements to where they belong in its output.
void copy_own(const Contents& contents, PlanBuilder& plan) {
  for (const Holding& held : contents.output) {
    if (held.of != plan.rank()) continue;
    plan.copy(in(Buffer::input, contents.input, held.range),
              {Buffer::output, held.offset, held.range.count});
  }
}

void add_step(const Transfer& transfer, const Region& region, PlanBuilder& plan) {
  if (region.count > 0) {
    return transfer.sends ? plan.send(transfer.peer, region) : plan.receive(transfer.peer, region);
  }
  return transfer.sends ? plan.send_empty(transfer.peer) : plan.receive_empty(transfer.peer);
}

// The places of one rank's partial results while a distribution runs backwards: at first its input;
// its output where the result is its own; otherwise a slot of `scratch`, until it is sent.
class Partials {
 public:
  Partials(const Contents& contents, uint64_t slot, uint64_t spare_slots)
      : contents_(contents), slot_(slot), spare_slots_(spare_slots) {}

  Region place(const Range& range) const {
    const auto found = places_.find(range.begin);
    if (found == places_.end()) return in(Buffer::input, contents_.input, range);
    R2CCL_CHECK(found->second.count == range.count);
    return found->second;
  }

  // Returns the place of the next partial result of the range.
  Region target(const Range& range) {
    const auto [found, is_new] = places_.try_emplace(range.begin);
    if (is_new) {
      found->second = holds(contents_.output, range)
                          ? in(Buffer::output, contents_.output, range)
                          : Region{Buffer::scratch, take_slot(), range.count};
    }
    return found->second;
  }

  // The partial result was sent. Its slot has another use once that send is complete. So the slots
  // take turns, and the oldest comes first.
  void forget(const Range& range) {
    const auto sent = places_.extract(range.begin);
    if (!sent.empty()) free_.push_back(sent.mapped().offset);
  }

  uint64_t scratch() const { return scratch_; }

 private:
  uint64_t take_slot() {
    if (free_.size() < spare_slots_) return std::exchange(scratch_, scratch_ + slot_);
    const uint64_t slot = free_.front();
    free_.pop_front();
    return slot;
  }

  const Contents& contents_;
  const uint64_t slot_;
  const uint64_t spare_slots_;
  uint64_t scratch_ = 0;
  std::deque<uint64_t> free_;
  std::map<uint64_t, Region> places_;  // by first element
};

// The number of reductions that are still to come, of each range of the rank's own result.
class Remaining {
 public:
  Remaining(const Transfers& transfers, const Contents& contents) {
    for (const Transfer& transfer : transfers.list()) {
      if (transfer.sends && holds(contents.output, transfer.range)) ++left_[transfer.range.begin];
    }
  }
  // Counts one reduction of the range. Returns whether it completes a result of this rank.
  bool completes(const Range& range) {
    const auto found = left_.find(range.begin);
    return found != left_.end() && --found->second == 0;
  }

 private:
  std::map<uint64_t, uint64_t> left_;  // by first element
};

}  // namespace

void Transfers::add(bool sends, Rank peer, const Range& range) {
  for (uint64_t done = 0; done < range.count; done += segment_) {
    list_.push_back({sends, peer, {range.begin + done, std::min(segment_, range.count - done)}});
  }
}

void distribute(const Transfers& transfers, const Contents& contents, PlanBuilder& plan) {
  for (const Transfer& transfer : transfers.list()) {
    if (transfer.range.count == 0) {
      add_step(transfer, {}, plan);
    } else if (transfer.sends && holds(contents.input, transfer.range)) {
      add_step(transfer, in(Buffer::input, contents.input, transfer.range), plan);
    } else {
      add_step(transfer, in(Buffer::output, contents.output, transfer.range), plan);
    }
  }
  // The copy comes last, so that the bytes travel meanwhile.
  copy_own(contents, plan);
}

void distribute_from_output(const Transfers& transfers, const Contents& contents,
                            PlanBuilder& plan) {
  copy_own(contents, plan);
  for (const Transfer& transfer : transfers.list()) {
    add_step(transfer, in(Buffer::output, contents.output, transfer.range), plan);
  }
}

void reduce_backwards(const Transfers& transfers, const Contents& contents,
                      const PlanLimits& limits, DataType type, PlanBuilder& plan) {
  uint64_t slot = 1;
  for (const Transfer& transfer : transfers.list()) slot = std::max(slot, transfer.range.count);
  Partials partials(contents, slot, limits.spare_scratch_bytes / (slot * size_of(type)) + 1);
  Remaining remaining(transfers, contents);
  const std::vector<Transfer>& list = transfers.list();
  for (auto transfer = list.rbegin(); transfer != list.rend(); ++transfer) {
    const Range& range = transfer->range;
    const Region partial = partials.place(range);
    if (transfer->sends) {
      plan.receive_reduce(transfer->peer, partial, partials.target(range),
                          remaining.completes(range));
    } else {
      plan.send(transfer->peer, partial);
      partials.forget(range);
    }
  }
  plan.set_scratch(partials.scratch());
}

void reduce_backwards_in_scratch(const Transfers& transfers, const Contents& contents,
                                 PlanBuilder& plan) {
  // Equal blocks lie one after another, so an element's number is its place.
  const auto place = [](const Range& range) {
    return Region{Buffer::scratch, range.begin, range.count};
  };
  plan.set_scratch(contents.extents.input_count);
  plan.copy({Buffer::input, 0, contents.extents.input_count},
            place({0, contents.extents.input_count}));
  Remaining remaining(transfers, contents);
  const std::vector<Transfer>& list = transfers.list();
  for (auto transfer = list.rbegin(); transfer != list.rend(); ++transfer) {
    const Range& range = transfer->range;
    if (!transfer->sends) {
      plan.send(transfer->peer, place(range));
      continue;
    }
    const bool last = holds(contents.output, range) && remaining.completes(range);
    plan.receive_reduce(transfer->peer, place(range),
                        last ? in(Buffer::output, contents.output, range) : place(range), last);
  }
}

}  // namespace r2ccl
