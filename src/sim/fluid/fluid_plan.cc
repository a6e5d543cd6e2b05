#include "sim/fluid/fluid_plan.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

// Returns the bytes in the largest unit of which there is a whole one, with one decimal.
std::string text_of_bytes(uint64_t bytes) {
  constexpr std::array kUnits{"bytes", "KB", "MB", "GB"};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >> (10 * (unit + 1)) > 0) ++unit;
  const uint64_t one = uint64_t{1} << (10 * unit);
  const std::string tenths = unit == 0 ? "" : "." + std::to_string(bytes % one * 10 / one);
  return std::to_string(bytes / one) + tenths + " " + kUnits[unit];
}

// Builds the parts, one rank after the other on each thread, and drops each long form at once.
class Builder {
 public:
  Builder(int32_t ranks, const FluidPlan::PartOf& part_of, uint64_t memory_max)
      : part_of_(part_of), memory_max_(memory_max), parts_(static_cast<size_t>(ranks)) {}

  Status run() {
    const size_t processors = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> others;
    for (size_t i = 1; i < std::min(processors, parts_.size()); ++i) {
      others.emplace_back([this] { work(); });
    }
    work();
    for (std::thread& each : others) each.join();
    return failure_;
  }

  std::vector<CompactPlan> take() { return std::move(parts_); }
  uint64_t memory() const { return memory_; }

 private:
  void work() {
    for (std::optional<size_t> rank = claim(); rank.has_value(); rank = claim()) {
      note(*rank, build(*rank));
    }
  }

  Result<CompactPlan> build(size_t rank) const {
    try {
      return CompactPlan::of(part_of_(Rank(static_cast<int32_t>(rank))));
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }

  std::optional<size_t> claim() {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok() || next_ == parts_.size()) return std::nullopt;
    return next_++;
  }

  void note(size_t rank, Result<CompactPlan> part) {
    const std::lock_guard lock(mutex_);
    if (!part.ok()) {
      failure_ = part.status();
      return;
    }
    parts_[rank] = std::move(part.value());
    memory_ += parts_[rank].memory();
    ++built_;
    // The first ranks foretell the others.
    const uint64_t whole = memory_ / built_ * parts_.size();
    if (memory_ <= memory_max_ && (built_ < kForetelling || whole / 2 <= memory_max_)) return;
    failure_ = {Code::invalid_argument,
                "the plan needs " + text_of_bytes(std::max(whole, memory_)) + " of memory, and " +
                    text_of_bytes(memory_max_) +
                    " are allowed; take larger segments, fewer bytes or fewer ranks"};
  }

  static constexpr uint64_t kForetelling = 16;

  const FluidPlan::PartOf& part_of_;
  const uint64_t memory_max_;
  std::mutex mutex_;  // guards the following
  size_t next_ = 0;
  uint64_t built_ = 0;
  uint64_t memory_ = 0;
  Status failure_;
  std::vector<CompactPlan> parts_;
};

std::string pair_text(size_t from, size_t to) {
  return "from rank " + std::to_string(from) + " to rank " + std::to_string(to);
}

// Compares the messages of a queue of sends with the receives that they meet.
Status check_pair(const std::vector<CompactPlan>& ranks, size_t from, uint32_t send_queue) {
  const CompactPlan::Queue& sends = ranks[from].queues()[send_queue];
  const auto to = static_cast<size_t>(sends.peer.value());
  R2CCL_CHECK(to < ranks.size() && to != from);
  const uint32_t receive_queue = ranks[to].find(false, Rank(static_cast<int32_t>(from)));
  const bool found = receive_queue < ranks[to].queues().size();
  const CompactPlan::Queue receives =
      found ? ranks[to].queues()[receive_queue] : CompactPlan::Queue();
  if (receives.length != sends.length) {
    return {Code::invalid_argument, std::to_string(sends.length) + " sends " + pair_text(from, to) +
                                        " meet " + std::to_string(receives.length) + " receives"};
  }
  CompactStep send;
  CompactStep receive;
  uint32_t send_at = sends.begin;
  uint32_t receive_at = receives.begin;
  for (uint32_t i = 0; i < sends.length; ++i) {
    ranks[from].read_step(send_at, send);
    ranks[to].read_step(receive_at, receive);
    if (send.count == receive.count) continue;
    return {Code::invalid_argument, "message " + std::to_string(i) + " " + pair_text(from, to) +
                                        " has other elements at its two ends"};
  }
  return {};
}

Status check_messages(const std::vector<CompactPlan>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (uint32_t queue = 0; queue < ranks[rank].queues().size(); ++queue) {
      const CompactPlan::Queue& each = ranks[rank].queues()[queue];
      if (each.sends) {
        R2CCL_RETURN_IF_ERROR(check_pair(ranks, rank, queue));
        continue;
      }
      const auto peer = static_cast<size_t>(each.peer.value());
      R2CCL_CHECK(peer < ranks.size());
      if (ranks[peer].find(true, Rank(static_cast<int32_t>(rank))) < ranks[peer].queues().size()) {
        continue;
      }
      return {Code::invalid_argument, "no send " + pair_text(peer, rank) + " meets a receive"};
    }
  }
  return {};
}

}  // namespace

Result<FluidPlan> FluidPlan::of(const PlanKey& key, const PlanLimits& limits, uint64_t memory_max) {
  // All ranks take the same algorithm, so it is chosen once.
  PlanKey chosen = key;
  chosen.algorithm = choose_algorithm(key, limits);
  const PartOf part_of = [&](Rank rank) { return make_plan(chosen, rank, limits); };
  return of(key.rank_count, size_of(key.type), part_of, memory_max);
}

Result<FluidPlan> FluidPlan::of(int32_t ranks, uint64_t element_bytes, const PartOf& part_of,
                                uint64_t memory_max) {
  R2CCL_CHECK(ranks >= 1);
  Builder builder(ranks, part_of, memory_max);
  R2CCL_RETURN_IF_ERROR(builder.run());
  FluidPlan plan;
  plan.memory_ = builder.memory();
  plan.ranks_ = builder.take();
  R2CCL_RETURN_IF_ERROR(check_messages(plan.ranks_));
  plan.element_bytes_ = element_bytes;
  for (const CompactPlan& rank : plan.ranks_) {
    for (const CompactPlan::Queue& queue : rank.queues()) {
      if (queue.sends) plan.messages_ += queue.length;
    }
  }
  return plan;
}

}  // namespace r2ccl::sim
