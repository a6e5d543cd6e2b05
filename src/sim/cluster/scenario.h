// What one simulated run consists of: a cluster, the operations of its job, and the faults that
// happen to it. A value: a seed makes one, a file can say one, and the same scenario is the same
// run, bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/types.h"

namespace r2ccl::sim {

// One call that every rank of a communicator makes.
struct OperationSpec {
  enum class Kind : uint8_t {
    all_reduce,
    broadcast,
    barrier,
    shift,       // Send to the next rank, Recv from the previous one
    all_to_all,  // Send to and Recv from everybody
    // The root makes `count` calls of one element each, the others make theirs much later: it sends
    // to the next rank, or, in place, broadcasts to all.
    run_ahead,
  };
  Kind kind = Kind::all_reduce;
  int communicator = 0;
  DataType type = DataType::int64;
  ReduceOp op = ReduceOp::sum;
  uint64_t count = 0;  // elements; of point-to-point kinds for each peer
  int root = 0;
  bool in_place = false;
  friend bool operator==(const OperationSpec&, const OperationSpec&) = default;
};
const char* to_string(OperationSpec::Kind kind);

enum class FaultKind : uint8_t {
  down,           // a NIC is taken down
  pull,           // its cable is pulled
  hole,           // it sends and receives nothing, and nobody is told
  hole_tx,        // it sends nothing
  hole_rx,        // it receives nothing
  loss,           // `amount` of a million full frames vanish, each way
  delay,          // every packet takes `amount` ns longer
  jitter,         // by up to `amount` ns, at random
  slow,           // it has `amount` bytes a second
  mtu_hole,       // frames of more than `amount` bytes vanish
  flap,           // it is pulled `amount` times, each time for half of `duration` / `amount`
  all_nics,       // all data NICs of the host are pulled
  dark,           // all data NICs of the host are holes
  rail,           // the switch of a rail: NIC `nic` of every host is a hole
  control,        // the management NIC of the host is a hole
  partition,      // hosts 0 .. host - 1 and the others do not reach each other
  sever,          // only between NIC `nic` of `host` and of `other_host`
  readdress,      // the NIC is down, and has another address when it is back
  reset,          // a connection of the NIC is reset
  cut,            // a connection of the NIC goes silent for ever
  failed_call,    // the `amount`-th system call of the host from now fails with EIO
  stop,           // the process is stopped, and continued
  deschedule,     // the same, as the scheduler does it: for a moment
  suspend,        // the whole host stands still, with its kernel
  kill,           // the process is killed; there is no coming back
  flip,           // bit `amount` of the next header or control frame of a connection is changed
  repeat,         // the next frame of a connection comes twice
  lost_chunk,     // the next chunk that the host sends on the NIC is taken for a probe
  abort,          // the rank's caller aborts
  call_mismatch,  // the rank's next AllReduce is not the one that the others make
  drain,          // an operator at the rank takes its NIC out of service, and puts it back
  status,         // an operator at the rank asks how every rank is
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::status) + 1;
const char* to_string(FaultKind kind);
// The fault is one of a single NIC, and not of a host or of what connects hosts.
bool of_a_nic(FaultKind kind);
// Bytes are changed, and nothing is wrong with any NIC.
bool of_bytes(FaultKind kind);
// A person does it, and nothing is wrong with any NIC.
bool of_people(FaultKind kind);
// Its `amount` says how bad it is.
bool needs_amount(FaultKind kind);

struct FaultSpec {
  FaultKind kind = FaultKind::hole;
  TimeNs at = 0;  // after the job's begin
  // Waits until chunks are under way through the NIC, but no longer than kBusyWait.
  bool when_busy = false;
  TimeNs duration = 0;  // what does not end by itself is mended then
  int host = 0;
  int nic = 0;
  int other_host = 0;
  uint64_t amount = 0;
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;
};
inline constexpr TimeNs kBusyWait = 50 * kMillisecond;

struct Scenario {
  uint64_t seed = 1;  // of what the scenario leaves to chance: jitter, loss, nonces
  int hosts = 2;
  int nics = 2;
  uint64_t rate_bytes_per_s = 31'250'000;  // of each NIC, each way
  TimeNs latency = 50 * kMicrosecond;      // one way
  TimeNs wakeup_jitter = 0;
  uint64_t segment_bytes = 16 * 1024;  // what a kernel sends at once
  uint64_t socket_bytes = 256 * 1024;  // what a socket holds in each direction
  bool nics_write = false;  // into memory by themselves, until they are told not to: as with RDMA
  bool management = true;
  bool damping = true;
  int communicators = 1;
  int depth = 1;         // operations of one communicator that a rank has started at a time
  TimeNs think_max = 0;  // between operations a rank does something else for up to so long
  // A rank leaves when its own operations have ended; otherwise all do when those of all have.
  bool leave_early = false;
  std::vector<OperationSpec> operations;  // in the order in which every rank calls them
  std::vector<FaultSpec> faults;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

// The scenario that the seed stands for: 2 to 16 ranks, 1 to 8 NICs, at least 20 operations and
// three faults; in a third of the seeds two or three communicators. Seeds above kSeedsWithoutPeople
// also have operators and callers that abort or disagree.
Scenario scenario_of(uint64_t seed);
inline constexpr uint64_t kSeedsWithoutPeople = 10'000;

// One line: what it is, for people.
std::string describe(const Scenario& scenario);
std::string describe(const FaultSpec& fault);
std::string describe(const OperationSpec& operation);

}  // namespace r2ccl::sim
