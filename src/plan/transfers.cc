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
// wide memory, if they have a wide form, while further reductions follow; then its output where the
// result is its own, or a slot of `scratch` until it is sent.
class Partials {
 public:
  Partials(const Contents& contents, uint64_t slot, uint64_t spare_slots)
      : contents_(contents), slot_(slot), spare_slots_(spare_slots) {}

  Region place(const Range& range) const {
    const auto wide = wide_.find(range.begin);
    if (wide != wide_.end()) return wide->second;
    const auto found = places_.find(range.begin);
    if (found == places_.end()) return in(Buffer::input, contents_.input, range);
    R2CCL_CHECK(found->second.count == range.count);
    return found->second;
  }

  // Returns the place of the next partial result of the range, which is reduced further.
  Region further_target(const Range& range, PlanBuilder& plan) {
    if (!plan.widens()) return target(range);
    const auto [found, is_new] = wide_.try_emplace(range.begin);
    if (is_new) found->second = plan.take_wide(range.count);
    return found->second;
  }
  // Returns the place of the next partial result of the range.
  Region target(const Range& range) {
    wide_.erase(range.begin);
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
  std::map<uint64_t, Region> wide_;    // the same
};

// The number of reductions that are still to come, of each range.
class Remaining {
 public:
  explicit Remaining(const Transfers& transfers) {
    for (const Transfer& transfer : transfers.list()) {
      if (transfer.sends) ++left_[{transfer.range.begin, transfer.range.count}];
    }
  }
  // Counts one reduction of the range. Returns whether it is the last one.
  bool ends(const Range& range) { return --left_[{range.begin, range.count}] == 0; }

 private:
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> left_;  // by first element and count
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
  Remaining remaining(transfers);
  const std::vector<Transfer>& list = transfers.list();
  for (auto transfer = list.rbegin(); transfer != list.rend(); ++transfer) {
    const Range& range = transfer->range;
    const Region partial = partials.place(range);
    if (transfer->sends) {
      const bool last = remaining.ends(range);
      plan.receive_reduce(transfer->peer, partial,
                          last ? partials.target(range) : partials.further_target(range, plan),
                          last && holds(contents.output, range));
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
  const auto scratch = [](const Range& range) {
    return Region{Buffer::scratch, range.begin, range.count};
  };
  const uint64_t count = contents.extents.input_count;
  const Region all = plan.widens() ? plan.take_wide(count) : scratch({0, count});
  const auto place = [&](const Range& range) {
    return Region{all.buffer, all.offset + range.begin, range.count};
  };
  plan.set_scratch(count);
  plan.copy({Buffer::input, 0, count}, all);
  Remaining remaining(transfers);
  const std::vector<Transfer>& list = transfers.list();
  for (auto transfer = list.rbegin(); transfer != list.rend(); ++transfer) {
    const Range& range = transfer->range;
    if (!transfer->sends) {
      plan.copy(place(range), scratch(range));
      plan.send(transfer->peer, scratch(range));
      continue;
    }
    const bool last = holds(contents.output, range) && remaining.ends(range);
    plan.receive_reduce(transfer->peer, place(range),
                        last ? in(Buffer::output, contents.output, range) : place(range), last);
  }
}

}  // namespace r2ccl
