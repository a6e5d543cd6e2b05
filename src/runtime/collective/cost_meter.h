// Measures the costs by which plans are chosen (plan/plan_costs.h), at the start of a communicator,
// and makes all ranks agree on them.
//
// The ranks exchange messages in patterns, each some rounds: those that plans consist of, among as
// many ranks as in a plan. So the times hold for the cores, NICs and links that the ranks of this
// job share. A rank's time of a pattern is the median of three batches of rounds. Rank 0 gets the
// times of all ranks, takes the median of each pattern, and sends every rank the costs that follow
// from them. These travel as notices: messages would open data connections between rank 0 and all.
//
// A shaped NIC lets a burst pass at its full speed. A pattern of many bytes has 1.5 MB from the
// NICs of a host, and the median round is not one of the first. A shaper that lets more than 0.75
// MB pass at once looks faster than it is.
//
// Driving thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "plan/host_groups.h"
#include "plan/plan_costs.h"
#include "runtime/collective/cost_patterns.h"
#include "runtime/link/message_port.h"
#include "runtime/point_to_point/point_to_point.h"

namespace r2ccl {

class CostMeter {
 public:
  using Done = std::function<void(const PlanCosts& costs)>;
  // Sends the body of a notice of kind `costs` to another rank.
  using Send = std::function<void(Rank to, std::span<const std::byte> body)>;

  // As for PointToPoint, whose `channel` it uses; `clock` must outlive it too.
  CostMeter(Rank self, ChannelId channel, const std::vector<MessagePort*>& ports,
            const HostGroups& hosts, const Clock& clock, Send send);
  CostMeter(const CostMeter&) = delete;
  CostMeter& operator=(const CostMeter&) = delete;

  // Every rank starts once. Calls `done` at most once: from inside a callback of a link, from
  // on_notice(), or from here if there is one rank.
  void start(Done done);
  // Takes the body of a notice of kind `costs`. Ignores one that this rank does not wait for.
  void on_notice(Rank from, std::span<const std::byte> body);
  // Ends the measurement without a result. After the return no buffer is touched.
  void cancel(const Status& why) {
    done_ = nullptr;
    messages_.cancel(why);
  }
  // The same once nothing moves bytes any more. Needs no memory.
  void abandon(const Status& why) noexcept {
    done_ = nullptr;
    messages_.abandon(why);
  }
  // Returns whether it has ended, or has not begun.
  bool idle() const { return done_ == nullptr && messages_.idle(); }
  // Returns the ranks that the measurement waits for.
  std::vector<Rank> waits_on() const;

 private:
  // Batches of rounds of a pattern, after the first rounds, which do not count: ranks begin them at
  // different times.
  static constexpr int kBatches = 3;

  void run();
  int last_round() const { return part_.first_rounds - 1 + kBatches * part_.rounds; }
  void post_receives(int round);
  void post_sends();
  void end_rounds();
  void note_time();
  void agree();
  void collect(Rank from, const PatternTimes& times);
  void decide();
  void finish(const PlanCosts& costs);

  const Rank self_;
  const HostGroups hosts_;
  const Clock& clock_;
  const size_t ranks_;
  const Send send_;
  Done done_;  // from the start to the end of the measurement
  bool agrees_ = false;

  size_t pattern_ = 0;  // all before it are over
  PatternPart part_;
  int round_ = 0;
  TimeNs batch_began_ = 0;
  std::array<size_t, 2> receives_left_{};   // of the rounds of even and of odd number
  std::vector<uint64_t> batches_;           // the time of a round in each, in ns
  PatternTimes times_{};                    // of this rank
  std::map<Rank, PatternTimes> collected_;  // on rank 0

  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  PointToPoint messages_;  // last: its end touches the buffers no more
};

}  // namespace r2ccl
