// The input of one simulated run: a cluster, the operations of its job, and the faults. A scenario
// is a value. A seed gives one, a file can hold one, and the same scenario gives the same run, bit
// for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "plan/host_groups.h"
#include "plan/plan.h"
#include "plan/plan_costs.h"

namespace r2ccl::sim {

// One operation that every rank of a communicator calls.
struct OperationSpec {
  enum class Kind : uint8_t {
    all_reduce,
    broadcast,
    barrier,
    shift,        // Send to the next rank, Recv from the previous one
    send_to_all,  // Send to and Recv from every rank
    // The root makes `count` calls of one element each, and the other ranks make their calls much
    // later. The root sends to the next rank, or, in place, broadcasts to all.
    run_ahead,
    reduce,
    all_gather,
    reduce_scatter,
    gather,
    scatter,
    all_to_all,
    // Tagged messages to and from every rank, several a tag, up to `count` elements each. The Recvs
    // of one tag begin after the other tags have ended.
    tagged,
    tagged_ahead,  // as run_ahead: tagged Sends of the root to the next rank
  };
  Kind kind = Kind::all_reduce;
  int communicator = 0;
  DataType type = DataType::int64;
  ReduceOp op = ReduceOp::sum;
  uint64_t count = 0;  // elements; of each block in kinds with blocks, and for each peer
  // Blocks have different counts, up to about `count`; some have none.
  bool unequal = false;
  int root = 0;
  bool in_place = false;  // where the kind and the rank can
  Algorithm algorithm = Algorithm::automatic;
  friend bool operator==(const OperationSpec&, const OperationSpec&) = default;
};
inline constexpr int kOperationKinds = static_cast<int>(OperationSpec::Kind::tagged_ahead) + 1;
const char* to_string(OperationSpec::Kind kind);
// Returns whether the kind has a block for each rank.
bool has_blocks(OperationSpec::Kind kind);
// Returns whether the kind is a collective, which an algorithm carries out.
inline bool has_plan(OperationSpec::Kind kind) {
  using Kind = OperationSpec::Kind;
  return has_blocks(kind) || kind == Kind::all_reduce || kind == Kind::broadcast ||
         kind == Kind::barrier || kind == Kind::reduce;
}

enum class FaultKind : uint8_t {
  down,           // a NIC goes down
  pull,           // the cable of a NIC is pulled
  hole,           // a NIC silently sends and receives nothing
  hole_tx,        // a NIC silently sends nothing
  hole_rx,        // a NIC silently receives nothing
  loss,           // `amount` of a million full frames vanish, each way
  delay,          // every packet takes `amount` ns longer
  jitter,         // every packet takes up to `amount` ns longer, at random
  slow,           // the NIC has a rate of `amount` bytes a second
  mtu_hole,       // frames of more than `amount` bytes vanish
  flap,           // the cable is pulled `amount` times, each time for half of `duration` / `amount`
  all_nics,       // all data NICs of the host are pulled
  dark,           // all data NICs of the host are holes
  rail,           // the switch of a rail: NIC `nic` of every host is a hole
  control,        // the management NIC of the host is a hole
  partition,      // hosts 0 .. host - 1 and the others do not reach each other
  sever,          // NIC `nic` of `host` and that of `other_host` do not reach each other
  readdress,      // the NIC goes down, and returns with another address
  reset,          // a connection of the NIC is reset
  cut,            // a connection of the NIC goes silent for ever
  failed_call,    // the `amount`-th system call of the host from now fails with EIO
  stop,           // the process stops and continues later
  deschedule,     // the same for a moment, as a scheduler does it
  suspend,        // the whole host stops, with its kernel
  kill,           // the process is killed and does not return
  flip,           // bit `amount` of the next header or control frame of a connection is changed
  repeat,         // the next frame of a connection arrives twice
  add,            // up to a header's bytes follow the next frame of a connection, then nothing
  lost_chunk,     // the next chunk that the host sends on the NIC has the type of a probe
  abort,          // the rank's caller aborts
  call_mismatch,  // the rank's next AllReduce differs from the call of the other ranks
  drain,          // an operator at the rank takes its NIC out of service and puts it back
  status,         // an operator at the rank asks for the status of every rank
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::status) + 1;
const char* to_string(FaultKind kind);
// Returns whether the fault affects a single NIC, and not a host or the network between hosts.
bool of_a_nic(FaultKind kind);
// Returns whether the fault changes bytes while every NIC works.
bool of_bytes(FaultKind kind);
// Returns whether the fault is the action of a person while every NIC works.
bool of_people(FaultKind kind);
// Returns whether the fault needs an `amount`.
bool needs_amount(FaultKind kind);

struct FaultSpec {
  FaultKind kind = FaultKind::hole;
  TimeNs at = 0;  // after the beginning of the job
  // The fault waits until chunks are in flight through the NIC, but no longer than kBusyWait.
  bool when_busy = false;
  TimeNs duration = 0;  // a fault that does not end by itself is mended after this
  int host = 0;
  int nic = 0;
  int other_host = 0;
  uint64_t amount = 0;
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;
};
inline constexpr TimeNs kBusyWait = 50 * kMillisecond;

struct Scenario {
  uint64_t seed = 1;  // for jitter, loss and nonces, which the scenario does not state
  int hosts = 2;
  int nics = 2;
  uint64_t rate_bytes_per_s = 31'250'000;  // the rate of each NIC, in each direction
  TimeNs latency = 50 * kMicrosecond;      // one way
  TimeNs wakeup_jitter = 0;
  uint64_t segment_bytes = 16 * 1024;      // the most bytes that a kernel sends at once
  uint64_t socket_bytes = 256 * 1024;      // the most bytes that a socket holds in each direction
  uint64_t initial_window_bytes = 14'480;  // TCP's congestion window of a new connection
  // NICs write into memory without the kernel, as with RDMA, until the engine withdraws the memory.
  bool nics_write = false;
  bool management = true;
  // Plans take so many neighbouring ranks for the ranks of one host, though each has its own.
  int plan_host_ranks = 1;
  // Plans are chosen as if a hop took this long; 0: by the default costs.
  TimeNs plan_hop = 0;
  // Plans are chosen as if a host carried so many bytes a second each way; 0: by the default costs.
  uint64_t plan_bytes_per_s = 0;
  // Links that the measurement of costs would use have data connections from the start. False: each
  // link opens them when it first has messages.
  bool data_at_start = true;
  bool damping = true;
  TimeNs cutoff = 300 * kSecond;
  int communicators = 1;
  int depth = 1;         // operations of one communicator that a rank runs at a time
  TimeNs think_max = 0;  // the longest pause of a rank between operations
  // True: a rank leaves when its own operations have ended. False: all ranks leave when the
  // operations of all ranks have ended.
  bool leave_early = false;
  std::vector<OperationSpec> operations;  // in the order in which every rank calls them
  std::vector<FaultSpec> faults;
  std::vector<uint32_t> plan_hosts() const;
  PlanCosts plan_costs() const;
  // Returns the duration of the longest fault of that kind; 0 without one.
  TimeNs longest(FaultKind kind) const;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

// Returns the scenario of the seed: 2 to 16 ranks, 1 to 8 NICs, at least 20 operations and three
// faults. A third of the seeds have two or three communicators. Seeds above kSeedsWithoutPeople
// also have operators, and callers that abort or disagree.
Scenario scenario_of(uint64_t seed);
inline constexpr uint64_t kSeedsWithoutPeople = 10'000;
// Seeds above this also draw from the collectives that have blocks, Reduce, tagged messages, and
// all types and reductions.
inline constexpr uint64_t kSeedsWithoutBlocks = 100'000;
// In the seeds above this hosts 0 and 1 lose rails until they share none, and stay so for longer
// than the bound of a host that is cut off. The other faults leave host 2 in reach of both.
inline constexpr uint64_t kSeedsWithRails = 200'000;

// Returns one line that describes the value to people.
std::string describe(const Scenario& scenario);
std::string describe(const FaultSpec& fault);
std::string describe(const OperationSpec& operation);

}  // namespace r2ccl::sim
