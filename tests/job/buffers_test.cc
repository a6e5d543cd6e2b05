// After an operation is complete nothing touches its buffers: they are freed at once, while chunks
// of them are mirrored and replayed.
#include <deque>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr size_t kSmall = 1003;  // below 32 KB: copied when it is sent
constexpr size_t kLarge = 100 * 1003;
constexpr size_t kHuge = 300 * 1003;
constexpr const char* kFar = "delay 4";
constexpr size_t kStreamed = 8;  // operations in flight

// Everything at once; each buffer is freed as soon as its operation is complete.
void run_round(Comm& comm, int round) {
  const auto tag = static_cast<uint32_t>(round) * 8;
  const int next = (comm.rank() + 1) % comm.ranks();
  const int before = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  std::vector<Operation> open;
  open.push_back(Operation::send(comm, tag, kSmall, next));
  open.push_back(Operation::send(comm, tag + 1, kLarge, next));
  open.push_back(Operation::all_reduce(comm, tag + 2, kLarge));
  open.push_back(Operation::receive(comm, tag, kSmall, before));
  open.push_back(Operation::receive(comm, tag + 1, kLarge, before));
  open.push_back(Operation::broadcast(comm, tag + 3, kLarge, round % comm.ranks()));
  open.push_back(Operation::all_reduce(comm, tag + 4, kSmall));
  open.push_back(Operation::broadcast(comm, tag + 5, kSmall, (round + 1) % comm.ranks()));
  for (Operation& operation : open) operation.finish();
}

class Breaker {
 public:
  Breaker(Job& job, const Rounds& rounds, const std::string& words = "") : job_(job), rounds_(rounds), words_(words) {}

  uint64_t mirrored() const { return sum(&Report::mirrored); }
  uint64_t replayed() const { return sum(&Report::replayed); }

  // Whatever was under way has ended, and its buffers are gone.
  void wait_for_rounds() {
    const int enough = rounds_.newest() + 2;
    job_.wait_for("more rounds", [&] { return rounds_.newest() >= enough; });
  }

  void slow_down(int rank, int index) {
    const uint64_t before = mirrored();
    job_.fault(nic(rank, index), std::string(kFar) + " slow 300000");
    job_.wait_for("mirrors", [&] { return mirrored() > before; });
    wait_for_rounds();
    mend(rank, index);
  }

  // Short enough, on an idle machine, for the path to live on.
  void blink(int rank, int index) {
    const std::string at = nic(rank, index);
    job_.fault(at, "hole");
    job_.wait_for("hole at " + at, [&] { return !job_.comm(rank).report().all(at, "up"); });
    wait_for_rounds();
    mend(rank, index);
  }

  void take_down(int rank, int index, const std::string& words) {
    const std::string at = nic(rank, index);
    job_.fault(at, words);
    job_.wait_for("end of " + at, [&] { return job_.comm(rank).report().any(at, "down"); });
    mend(rank, index);
  }

  void mend(int rank, int index) {
    job_.fault(nic(rank, index), words_);
    const std::string at = nic(rank, index);
    job_.wait_for("return of " + at, [&] { return job_.comm(rank).report().all(at, "up"); });
    wait_for_rounds();
  }

 private:
  uint64_t sum(uint64_t Report::*what) const {
    uint64_t bytes = 0;
    for (int rank = 0; rank < job_.ranks(); ++rank) bytes += job_.comm(rank).report().*what;
    return bytes;
  }

  Job& job_;
  const Rounds& rounds_;
  const std::string words_;
};

RankBody rounds_of(Rounds& rounds) {
  return [&rounds](Comm& comm) {
    for (int round = 0; rounds.enter(round); ++round) run_round(comm, round);
    check(comm.destroy(), "destroy");
  };
}

// A stream that keeps every path full, both ways between two ranks.
void run_stream(Comm& comm, Rounds& rounds) {
  const int peer = 1 - comm.rank();
  std::deque<Operation> open;
  for (int round = 0; rounds.enter(round); ++round) {
    const auto tag = static_cast<uint32_t>(round);
    open.push_back(Operation::send(comm, tag, kHuge, peer));
    open.push_back(Operation::receive(comm, tag, kHuge, peer));
    if (open.size() < kStreamed) continue;
    open.front().finish();
    open.pop_front();
    open.front().finish();
    open.pop_front();
  }
  for (Operation& operation : open) operation.finish();
  check(comm.destroy(), "destroy");
}

// Frames are cut short in the middle when the NIC takes no more, while their chunks are delivered
// by the other NIC, and go on when their buffers are long gone.
TEST(Buffers, AreTouchedNoMoreByFramesThatASlowNicIsStillBusyWith) {
  Job job(2);
  Rounds rounds;
  for (int i=0;i<4;++i) job.fault(nic(i%2,i/2),kFar);
  job.run({[&](Comm& comm) { run_stream(comm, rounds); }}, [&] {
    Breaker breaker(job, rounds,kFar);
    breaker.wait_for_rounds();
    for (int time = 0; time < 4; ++time) breaker.slow_down(time % 2, time / 2);
    rounds.stop();
  });
}

TEST(Buffers, AreTouchedNoMoreWhateverIsReplayed) {
  Job job(kRanks);
  Rounds rounds;
  job.run({rounds_of(rounds)}, [&] {
    Breaker breaker(job, rounds);
    breaker.wait_for_rounds();
    for (int cycle = 0; cycle < 3 || breaker.replayed() == 0; ++cycle) {
      breaker.blink((cycle + 1) % kRanks, cycle % kNics);
      breaker.take_down((cycle + 2) % kRanks, cycle % kNics, "down");
      breaker.take_down(cycle % kRanks, (cycle + 1) % kNics, "hole-rx");
    }
    rounds.stop();
  });
}

}  // namespace
}  // namespace job
