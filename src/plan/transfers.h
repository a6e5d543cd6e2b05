// A distribution: the transfers of one rank by which elements reach the ranks that lack them. An
// algorithm of Broadcast, AllGather, Gather, Scatter or AllToAll names them, in an order in which a
// sequential run would be correct. A distribution run backwards is a reduction: each receiver sends
// its partial result, and each sender reduces it (Reduce is the reverse of Broadcast, ReduceScatter
// that of AllGather). Private to this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/holdings.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/plan_builder.h"

namespace r2ccl {

class Transfers {
 public:
  struct Transfer {
    bool sends = false;
    Rank peer;
    Range range;
  };

  // `segment`: the most elements of a message.
  explicit Transfers(uint64_t segment) : segment_(segment) {}

  // Add the messages of a range. A range without elements has none.
  void send(Rank peer, const Range& range) { add(true, peer, range); }
  void receive(Rank peer, const Range& range) { add(false, peer, range); }
  // Add one message without bytes, which only tells that there are none.
  void send_empty(Rank peer) { list_.push_back({true, peer, {}}); }
  void receive_empty(Rank peer) { list_.push_back({false, peer, {}}); }

  const std::vector<Transfer>& list() const { return list_; }

 private:
  void add(bool sends, Rank peer, const Range& range);

  const uint64_t segment_;
  std::vector<Transfer> list_;
};

// Adds the steps of a distribution. Each range of a send lies in one piece in the input, or in the
// output after it was received there.
void distribute(const Transfers& transfers, const Contents& contents, PlanBuilder& plan);
// The same where a range may consist of own and received elements, which lie together in the
// output: the rank copies its own ones there first.
void distribute_from_output(const Transfers& transfers, const Contents& contents,
                            PlanBuilder& plan);

// Adds the steps of a distribution run backwards. All transfers of an element have equal ranges.
void reduce_backwards(const Transfers& transfers, const Contents& contents,
                      const PlanLimits& limits, DataType type, PlanBuilder& plan);
// The same where ranges may differ: the partial results of the whole vector lie in `scratch`, or in
// wide memory until they are sent.
void reduce_backwards_in_scratch(const Transfers& transfers, const Contents& contents,
                                 PlanBuilder& plan);

}  // namespace r2ccl
