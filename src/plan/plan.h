// A plan describes one collective: each rank's sends, receives, reductions and their order. It is a
// value: plain data, comparable, built by a pure function and the same on every rank. The executor
// runs it, the checker (plan/analysis/checker.h) proves it, and sim/fluid tells its time.
//
// Execution rules, which the checker assumes and the executor keeps:
//  * A step starts when all its `after` steps are complete. A send or receive step also waits until
//    every earlier step of the list with the same direction and peer has started. So the i-th send
//    from a to b in a's list meets the i-th receive from a in b's list.
//  * A send is complete when its source may be overwritten. A receive is complete when the bytes
//    are in their place. A receive_reduce lands in staging of the executor's own; it is complete
//    when target = source (op) received has been done, element by element, with the operands in
//    the order that the step states.
//    Only the reduction waits for `after`: the bytes may arrive before. Staging may be scarce: the
//    executor assigns slots in the order of the list, so a plan must get by with one.
//  * A reduce step does target = source (op) addend in this rank's own memory.
//  * Steps that are ready may run in any order; so plans order overlapping accesses by `after`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/types.h"
#include "plan/host_groups.h"
#include "plan/hosts/view.h"
#include "plan/limits.h"
#include "plan/plan_costs.h"

namespace r2ccl {

// `scratch` and `wide` are memory of the executor.
//  * `scratch` holds partial results that are not this rank's to return.
//  * `wide` holds, in float32, partial results of a 16-bit type (has_wide_form()) to which this
//  rank
//    adds once more before it sends or returns them. Only reductions and copies use it. A
//    reduction with another target, and a copy out of it, round to the 16-bit type. A copy
//    into it widens. Messages and addends are always of the 16-bit type.
enum class Buffer : uint8_t { input, output, scratch, wide };

// Elements [offset, offset + count) of a buffer. In place, input and output share memory
// (plan/holdings.h tells how they lie).
struct Region {
  Buffer buffer = Buffer::input;
  uint64_t offset = 0;
  uint64_t count = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

enum class StepKind : uint8_t {
  send,            // source -> peer
  receive,         // peer -> target
  receive_reduce,  // target = source (op) the bytes of peer, or in the other order
  copy,            // target = source
  reduce,          // target = source (op) addend
};

// Returns whether a step sends or receives.
constexpr bool has_peer(StepKind kind) {
  return kind != StepKind::copy && kind != StepKind::reduce;
}

// Which operand of a reduction is the left one. Sums of floats do not depend on it, but the bits of
// a NaN do.
enum class Operands : uint8_t { own_first, received_first };

struct Step {
  StepKind kind = StepKind::copy;
  Rank peer{};      // send and receive kinds
  Region source{};  // all but receive
  Region target{};  // all but send
  Region addend{};  // reduce
  Operands operands = Operands::own_first;
  // Target then holds the complete reduction: avg divides here, before it rounds.
  bool last_reduction = false;
  std::vector<uint32_t> after{};  // indices of earlier steps of the same list
  friend bool operator==(const Step&, const Step&) = default;
};

enum class Collective : uint8_t {
  all_reduce,
  broadcast,
  barrier,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all
};

// The forms of each collective:
//                                  few hops            fewest bytes   between
//   AllReduce                      recursive_doubling  ring           halving_doubling
//   Broadcast, Reduce              halving_doubling    ring
//                                  (a binomial tree)   (a chain)
//   AllGather, ReduceScatter       recursive_doubling  ring           direct
//                                  (Bruck)
// The others have one algorithm. Where ranks share hosts, AllReduce, AllGather and ReduceScatter
// are also `hierarchical`: within each host, then among the hosts. Where hosts have unequal
// bandwidth, AllReduce also has the algorithms from `direct` on (docs/schedules.md). Where a
// collective lacks an algorithm, its name is as `automatic`.
enum class Algorithm : uint8_t {
  automatic,
  ring,
  halving_doubling,
  recursive_doubling,
  hierarchical,
  direct,           // each rank sends to each other one; owners' shares follow their bandwidth
  nested,           // rings within rings: the slower a host, the fewer of them it is in
  split,            // R2CCL-AllReduce: a ring of all, and one without the slowest host
  recursive_split,  // the same again among the hosts that are left
  leaf,             // OptCC's four stages: one ring, without the slowest host
  packed            // trees that divide the work of each rail in each direction
};

// The blocks of a vector in this rank's memory, one for each rank. Counts and starts are in
// elements.
struct BlockLayout {
  std::vector<uint64_t> counts;  // empty: PlanKey::count each
  std::vector<uint64_t> starts;  // empty: one after another
  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};

// The input of a plan, which is a pure function of it. All ranks must agree on it, except where it
// says so: its hash travels in every chunk.
struct PlanKey {
  Collective collective = Collective::all_reduce;
  Algorithm algorithm = Algorithm::automatic;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;  // ranks may differ
  int32_t rank_count = 1;
  Rank root;  // broadcast, reduce, gather, scatter
  // Elements of the vector; of each block in the collectives that have blocks, if they are equal.
  uint64_t count = 0;
  // The blocks of the long vector of all_gather and reduce_scatter, the root's of gather and
  // scatter, and those that this rank sends in all_to_all. In the first two all ranks agree on the
  // counts, in the others the two ranks of a pair (in gather and scatter a rank other than the root
  // needs only its own). They need not agree on the starts.
  BlockLayout blocks;
  BlockLayout received;  // all_to_all: the blocks that this rank receives
  HostGroups hosts;
  View view;        // one entry for each host
  PlanCosts costs;  // only `automatic` depends on them
  // Reductions of floating-point elements are in rank order, ((x0 + x1) + x2) + ..., so their bits
  // depend on nothing else in the key.
  bool reproducible = false;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// Returns whether the call must reduce in rank order. Integers give the same bits in any order.
bool reduces_in_rank_order(const PlanKey& key);

// Returns the hash; never 0, so that 0 can mean "no plan".
uint64_t plan_hash(const PlanKey& key);

// One rank's part of a plan.
struct RankPlan {
  Rank rank;
  std::vector<Step> steps;
  uint64_t scratch = 0;  // elements of the buffer `scratch`
  uint64_t wide = 0;     // elements, of 4 bytes each, of the buffer `wide`
  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

// Returns the algorithm that the collective uses. `automatic` is the one that takes the least time
// by the costs of the key (plan/cost_model.h).
Algorithm choose_algorithm(const PlanKey& key, const PlanLimits& limits = kPlanLimits);

// Returns the part of `rank` in the plan of `key`. Cost: proportional to the steps of this rank
// (times a logarithm).
RankPlan make_plan(const PlanKey& key, Rank rank, const PlanLimits& limits = kPlanLimits);

}  // namespace r2ccl
