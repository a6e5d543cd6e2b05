// Whole jobs in one process, for tests: a rank is a thread with its own communicator and addresses
// of the loopback interface for NICs, and everything goes through r2ccl.h. Faults are acted out by
// the fault file.
//
// In one process the sanitizers see all ranks: a byte read or written after its operation ended is
// a finding, and so is a missing lock. ASan and TSan both look into what sendmsg and recvmsg touch.
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
#include <utility>
#include <vector>

#include "r2ccl/r2ccl.h"

namespace job {

inline constexpr int kNics = 2;  // of each rank
// For what must happen but has no bound of its own; sanitizers on a busy machine are slow.
inline constexpr int64_t kPatienceMs = 60'000;

// Nothing more can be made of this rank's part of the test.
class Broken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
void check(r2cclResult_t result, const std::string& what);

// The address that stands for a NIC.
std::string nic(int rank, int index);

// What a report says, as far as tests ask.
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
  uint64_t mirrored = 0;
  uint64_t replayed = 0;
  std::string text;

  // Of the paths at a NIC. False when there are none.
  bool all(const std::string& nic, const std::string& state) const;
  bool any(const std::string& nic, const std::string& state) const;
  // By NIC.
  std::vector<Path> paths_to(int peer) const;
  // Over all paths to the peer.
  uint64_t sent_to(int peer) const;
  uint64_t received_from(int peer) const;
};

// One rank's communicator. Aborts and destroys it in the end if nobody else did: so a rank that
// breaks does not keep the others waiting.
class Comm {
 public:
  Comm(int rank, int ranks, const r2cclUniqueId& id);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  r2cclComm_t handle() const { return handle_; }
  Report report() const;
  r2cclResult_t async_error() const;
  r2cclResult_t destroy();
  // For when the job is broken: unless it is destroyed.
  void abort();

 private:
  const int rank_;
  const int ranks_;
  std::mutex mutex_;  // guards the end of handle_
  r2cclComm_t handle_ = nullptr;
};

// What the ranks of the job run.
using RankBody = std::function<void(Comm&)>;

class Job {
 public:
  // Faults of NICs must be there before the ranks when they shall hold from the start.
  explicit Job(int ranks);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int ranks() const { return ranks_; }
  // Runs every body in a thread for each rank, on a communicator of its own; communicator `b` is
  // that of body `b`. Meanwhile runs `direct` here. All of them start once all communicators are
  // there: so no rank leaves while another is on its way in. Whoever throws Broken fails the test
  // and aborts the job.
  void run(const std::vector<RankBody>& bodies, const std::function<void()>& direct = nullptr);
  // For `direct`: stays valid until it has returned.
  Comm& comm(int rank, size_t body = 0) const { return *comms_[body][static_cast<size_t>(rank)]; }

  // Where its status sockets are.
  std::string status_directory() const;

  // Replaces what is wrong with a NIC, in the fault file's words; "" mends it.
  void fault(const std::string& nic, const std::string& words);
  // For `direct`: looks again and again; throws Broken when `holds` does not come true, or the
  // test has failed.
  void wait_for(const std::string& what, const std::function<bool()>& holds) const;

 private:
  void run_rank(int rank, size_t body, const r2cclUniqueId& id, const RankBody& work);
  std::map<std::string, std::string> environment_of(int rank) const;
  void arrive();
  void wait_for_all();

  const int ranks_;
  const std::string fault_file_;
  const std::string runtime_dir_;
  std::map<std::string, std::string> faults_;
  std::vector<std::vector<std::unique_ptr<Comm>>> comms_;  // by body and rank
  std::atomic<bool> broken_{false};
  std::mutex mutex_;  // guards missing_
  std::condition_variable all_arrived_;
  size_t missing_ = 0;  // communicators that are neither there nor given up
};

// Lets all ranks run the same rounds until somebody says stop.
class Rounds {
 public:
  // Whether the calling rank shall run this round; counts from 0.
  bool enter(int round);
  // Rounds that some rank is in are still run by all.
  void stop();
  int newest() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  int newest_ = -1;
  bool stopped_ = false;
};

// What an operation moves: differs by rank, element and round (`tag`), in all bits. Of one rank, or
// the sum over several.
struct Values {
  int first_rank = 0;
  int last_rank = 0;
  uint32_t tag = 0;
  int32_t operator[](size_t element) const;
};

// Memory of its own from malloc, so that the sanitizers see its end; its content goes first, so
// that wrong values show where they do not look.
class Buffer {
 public:
  explicit Buffer(size_t count);
  Buffer(size_t count, const Values& content);
  ~Buffer() { end(); }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  int32_t* data() { return data_; }
  void end();
  // Throws Broken at the first element that is wrong.
  void expect(const Values& right, const std::string& what) const;

 private:
  int32_t* data_ = nullptr;
  size_t count_ = 0;
};

// An operation under way with all that belongs to it.
class Operation {
 public:
  static Operation all_reduce(Comm& comm, uint32_t tag, size_t count);
  static Operation broadcast(Comm& comm, uint32_t tag, size_t count, int root);
  static Operation send(Comm& comm, uint32_t tag, size_t count, int peer);
  static Operation receive(Comm& comm, uint32_t tag, size_t count, int peer);

  Operation(Operation&& other) noexcept;
  // What was not finished is given up, and so the communicator.
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

// A large and a small collective at a time, round after round; then destroys the communicator.
void reduce_and_broadcast(Comm& comm, Rounds& rounds);

}  // namespace job
