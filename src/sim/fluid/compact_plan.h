// A rank's plan in a few bytes a step, for plans of up to a hundred million steps. The steps of one
// direction and peer (a step queue) lie in a row, each as differences from the one before.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "plan/plan.h"

namespace r2ccl::sim {

// A step as the simulator needs it. The elements lie anywhere.
struct CompactStep {
  uint32_t number = 0;
  uint64_t count = 0;
  bool reduces = false;      // a receive_reduce
  uint32_t after = 0;        // where the numbers of the steps that it waits for begin in the code
  uint32_t after_count = 0;  // how many they are
};

class CompactPlan {
 public:
  struct Queue {
    bool sends = false;
    Rank peer;
    uint32_t begin = 0;  // in the code
    uint32_t length = 0;
  };
  CompactPlan() = default;
  // Fails when the plan is too long for the numbers of the code.
  static Result<CompactPlan> of(const RankPlan& plan);

  uint32_t steps() const { return steps_; }
  // The receives first, each direction by ascending peer.
  const std::vector<Queue>& queues() const { return queues_; }
  // Returns the number of the queue, or that of all queues if there is none.
  uint32_t find(bool sends, Rank peer) const;
  // Copies have no queue.
  const std::vector<CompactStep>& copies() const { return copies_; }
  uint32_t staged_begin() const { return staged_begin_; }
  uint32_t staged_count() const { return staged_count_; }
  uint64_t memory() const;

  // Reads the step at `at`, which moves to the next one. `step` is the one before of the queue, at
  // first an empty one.
  void read_step(uint32_t& at, CompactStep& step) const;
  // Reads one number.
  uint32_t read(uint32_t& at) const {
    const uint8_t* place = code_.data() + at;
    const auto value = static_cast<uint32_t>(take(place));
    at = static_cast<uint32_t>(place - code_.data());
    return value;
  }

 private:
  void write(const RankPlan& plan, const std::vector<uint32_t>& order,
             const std::vector<uint32_t>& queue_numbers);
  void add(const Step& step, uint32_t number, CompactStep& before);
  void put(uint64_t value);
  // Most numbers are below 128, and have one byte.
  static uint64_t take(const uint8_t*& place) {
    if (*place < 0x80) return *place++;
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = *place++;
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }

  uint32_t steps_ = 0;
  std::vector<Queue> queues_;
  std::vector<CompactStep> copies_;
  std::vector<uint8_t> code_;
  uint32_t staged_begin_ = 0;  // the queues of the receive_reduce steps, in the order of the plan
  uint32_t staged_count_ = 0;
};

}  // namespace r2ccl::sim
