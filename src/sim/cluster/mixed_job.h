// A job of mixed operations on every rank of a cluster. Each rank runs the operations of a scenario
// in order. The job checks every element of every result, and watches every buffer after the end of
// its operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/operation_values.h"
#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

class MixedJob {
 public:
  MixedJob(Cluster& cluster, const Scenario& scenario);
  ~MixedJob();

  void start();
  // Returns whether every rank that still takes part has ended every operation.
  bool finished() const { return left_ == 0; }
  bool finished(int rank) const { return left_of_[static_cast<size_t>(rank)] == 0; }
  // Excludes the rank from now on: it begins no more operations, and finished() does not wait for
  // it.
  void leave_out(int rank);
  // From now on operations may end with an error.
  void expect_failure() { failure_expected_ = true; }
  // Returns whether a rank has made another call than the others (SimRank::other_call).
  bool calls_differ() const { return calls_differ_; }

  // The time in which a rank was busy with an operation.
  struct Span {
    int rank = 0;
    size_t operation = 0;
    TimeNs from = 0;
    TimeNs to = 0;
    bool checked = false;  // it ended well
  };
  const std::vector<Span>& spans() const { return spans_; }
  uint64_t checked() const { return checked_; }  // elements
  uint64_t ended() const { return ended_; }      // operations, on all ranks
  // Reports writes to the buffers of ended operations to the cluster's check, and frees these
  // buffers.
  void inspect_buffers();

 private:
  // An operation's memory on one rank.
  struct Buffers {
    std::vector<std::byte> input;
    std::vector<std::byte> output;  // empty for an operation in place
    std::vector<std::byte> before;  // a copy of the input, unless it is in place
  };
  struct Call {
    size_t operation = 0;  // its index in the scenario
    OperationMemory memory;
    Buffers buffers;
    size_t parts_left = 1;  // the sends and receives of a point-to-point kind
    size_t first_left = 0;  // `tagged`: the receives that end before those of the last tag begin
    bool failed = false;
    TimeNs began = 0;
  };
  // One rank's part in one communicator.
  struct Member {
    std::vector<size_t> operations;  // indices
    size_t next = 0;
    size_t running = 0;
    bool thinking = false;
  };

  Member& member(int rank, int communicator) {
    return members_[static_cast<size_t>(rank * scenario_.communicators + communicator)];
  }
  void advance(int rank, int communicator);
  void begin(int rank, size_t operation);
  void begin_collective(int rank, Call& call);
  void make_other_call(int rank, PlanKey& key);
  void begin_exchange(int rank, Call& call);
  void begin_run_ahead(int rank, Call& call);
  void begin_run(int rank, Call& call);
  void begin_tagged(int rank, Call& call);
  void receive_tagged(int rank, Call& call, bool last_tag);
  void tagged_ended(int rank, Call& call, const Status& status, bool right_size);
  void part_ended(int rank, Call& call, const Status& status);
  void end(int rank, Call& call);
  void verify(int rank, const Call& call);
  const std::vector<std::byte>& expected(size_t operation, int rank);
  void retire(Buffers buffers);

  Cluster& cluster_;
  const Scenario scenario_;
  Random random_;
  std::vector<Member> members_;
  std::vector<bool> left_out_;
  std::vector<std::unique_ptr<Call>> calls_;  // running calls
  std::deque<Buffers> graves_;                // the buffers of ended calls, filled with kGrave
  uint64_t grave_bytes_ = 0;
  std::vector<Span> spans_;
  std::vector<uint64_t> left_of_;  // by rank: operations that have not ended
  uint64_t left_ = 0;              // the sum over the ranks that take part
  bool failure_expected_ = false;
  bool calls_differ_ = false;
  // The expected outputs of recent operations that give the same output on all ranks.
  // expected_here_ holds the last expected output of any other operation.
  std::map<size_t, std::vector<std::byte>> expected_;
  std::vector<std::byte> expected_here_;
  uint64_t checked_ = 0;
  uint64_t ended_ = 0;
};

}  // namespace r2ccl::sim
