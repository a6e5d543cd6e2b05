// Whole jobs in one process, for tests: a rank is a thread with its own communicator, its NICs are
// addresses of the loopback interface, and every access goes through r2ccl.h. The fault file
// simulates faults.
//
// In one process the sanitizers see all ranks: a byte read or written after its operation ended is
// a finding, and so is a missing lock. ASan and TSan both check the memory that sendmsg and recvmsg
// touch.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "r2ccl/r2ccl.h"

namespace job {

inline constexpr int kNics = 2;  // for each rank
// The bound of events that must happen but have no bound of their own; sanitizers on a busy machine
// are slow.
inline constexpr int64_t kPatienceMs = 60'000;

// Thrown when this rank cannot continue its part of the test.
class Broken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
void check(r2cclResult_t result, const std::string& what);
// Adds the numbers of the members, in each of which the elements differ, and checks the sums.
void expect_sum(r2cclComm_t comm, int own, const std::vector<int>& members);

// Returns how many TCP sockets this process has, which has all ranks.
size_t tcp_sockets();

// Returns the address that stands for a NIC.
std::string nic(int rank, int index);

// The contents of a report that tests read.
struct Report {
  struct Path {
    int peer = 0;
    std::string nic;  // the local one's address
    std::string state;
    uint64_t incarnation = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  std::vector<Path> paths;
  uint64_t hedged = 0;
  uint64_t retransmitted = 0;
  uint64_t view_version = 0;
  std::string text;

  // Returns whether all paths at a NIC have this state. False if there are none.
  bool all(const std::string& nic, const std::string& state) const;
  bool any(const std::string& nic, const std::string& state) const;
  // Returns the paths to a peer, by NIC.
  std::vector<Path> paths_to(int peer) const;
  // Returns the sum over all paths to the peer.
  uint64_t sent_to(int peer) const;
  uint64_t received_from(int peer) const;
};
Report report_of(r2cclComm_t comm);

// One rank's communicator. The destructor aborts and destroys it if it still exists, so that a rank
// that breaks does not keep the others waiting.
class Comm {
 public:
  Comm(int rank, int ranks, const r2cclUniqueId& id);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  r2cclComm_t handle() const { return handle_; }
  Report report() const { return report_of(handle_); }
  r2cclResult_t async_error() const;
  r2cclResult_t destroy();
  // Aborts the communicator of a broken job, unless it is destroyed.
  void abort();

 private:
  const int rank_;
  const int ranks_;
  std::mutex mutex_;  // guards the end of handle_
  r2cclComm_t handle_ = nullptr;
};

// The function that the ranks of the job run.
using RankBody = std::function<void(Comm&)>;

class Job {
 public:
  // A fault that shall hold from the start must be set before the ranks start. `algorithm`: a value
  // of R2CCL_ALGO.
  explicit Job(int ranks, std::string algorithm = "auto");
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int ranks() const { return ranks_; }
  // Runs every body in a thread for each rank, on a communicator of its own; communicator `b` is
  // that of body `b`. Meanwhile runs `direct` here. The bodies start once all communicators exist,
  // so that no rank leaves while another one joins. A body that throws Broken fails the test and
  // aborts the job.
  void run(const std::vector<RankBody>& bodies, const std::function<void()>& direct = nullptr);
  // Starts a thread with the environment of a further rank, which is not one of ranks().
  std::thread newcomer(int rank, std::function<void()> work) const;
  // For `direct`: stays valid until it has returned.
  Comm& comm(int rank, size_t body = 0) const { return *comms_[body][static_cast<size_t>(rank)]; }

  // Returns the directory of its status sockets.
  std::string status_directory() const;

  // Replaces the fault of a NIC, in the fault file's words; "" repairs the NIC.
  void fault(const std::string& nic, const std::string& words);
  // For `direct`: polls `holds`. Throws Broken if `holds` does not become true, or the test has
  // failed.
  void wait_for(const std::string& what, const std::function<bool()>& holds) const;

 private:
  void run_rank(int rank, size_t body, const r2cclUniqueId& id, const RankBody& work);
  std::map<std::string, std::string> environment_of(int rank) const;
  void arrive();
  void wait_for_all();

  const int ranks_;
  const std::string algorithm_;
  const std::string fault_file_;
  const std::string runtime_dir_;
  std::map<std::string, std::string> faults_;
  std::vector<std::vector<std::unique_ptr<Comm>>> comms_;  // by body and rank
  std::atomic<bool> broken_{false};
  std::mutex mutex_;  // guards missing_
  std::condition_variable all_arrived_;
  size_t missing_ = 0;  // communicators that are still expected: neither made nor given up
};

// Lets all ranks run the same rounds until a thread calls stop().
class Rounds {
 public:
  // Returns whether the calling rank shall run this round; counts from 0.
  bool enter(int round);
  // Ends after the rounds that a rank has entered: all ranks still run those.
  void stop();
  int newest() const;

 private:
  mutable std::mutex mutex_;  // guards the members below
  int newest_ = -1;
  bool stopped_ = false;
};

// The values of an operation: they differ by rank, element and round (`tag`), in all bits. They are
// one rank's, or the sum over several ranks.
struct Values {
  int first_rank = 0;
  int last_rank = 0;
  uint32_t tag = 0;
  int32_t operator[](size_t element) const;
};

// Memory of its own from malloc, so that the sanitizers see its end. The destructor clears it
// first, so that wrong values show where the sanitizers do not look.
class Buffer {
 public:
  explicit Buffer(size_t count);
  Buffer(size_t count, const Values& content);
  ~Buffer() { end(); }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  int32_t* data() { return data_; }
  void end();
  // Throws Broken at the first wrong element.
  void expect(const Values& right, const std::string& what) const;

 private:
  int32_t* data_ = nullptr;
  size_t count_ = 0;
};

// An outstanding operation with all its buffers.
class Operation {
 public:
  static Operation all_reduce(Comm& comm, uint32_t tag, size_t count);
  static Operation broadcast(Comm& comm, uint32_t tag, size_t count, int root);
  static Operation send(Comm& comm, uint32_t tag, size_t count, int peer);
  static Operation receive(Comm& comm, uint32_t tag, size_t count, int peer);

  Operation(Operation&& other) noexcept;
  // Aborts an operation that was not finished, with its communicator.
  ~Operation();

  // Waits, frees the source at once, then checks and frees the target.
  void finish();

 private:
  Operation(std::string what, Buffer source, Buffer target, const Values& right)
      : what_(std::move(what)),
        source_(std::move(source)),
        target_(std::move(target)),
        right_(right) {}

  std::string what_;
  Buffer source_;
  Buffer target_;
  Values right_;
  r2cclRequest_t request_ = nullptr;
};

// Runs a large and a small collective at a time, round after round; then destroys the communicator.
void reduce_and_broadcast(Comm& comm, Rounds& rounds);

}  // namespace job
