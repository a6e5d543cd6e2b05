// After an operation is complete the library does not touch its buffers: the test frees them at
// once, while chunks of them are hedged and retransmitted.
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr size_t kSmall = 1003;  // below 32 KB: copied when it is sent
constexpr size_t kLarge = 100 * 1003;

// Starts all operations at once, and frees each buffer as soon as its operation is complete.
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
  Breaker(Job& job, const Rounds& rounds) : job_(job), rounds_(rounds) {}

  uint64_t hedged() const { return sum(&Report::hedged); }
  uint64_t retransmitted() const { return sum(&Report::retransmitted); }

  // Every operation in flight has ended then, and its buffers are gone.
  void wait_for_rounds() {
    const int enough = rounds_.newest() + 2;
    job_.wait_for("more rounds", [&] { return rounds_.newest() >= enough; });
  }

  // The fault is so short that, on an idle machine, the path survives it.
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

  // The NIC finishes the frames that it has begun long after other paths have delivered their
  // chunks.
  void crawl(int rank, int index) {
    const std::string at = nic(rank, index);
    const uint64_t before = hedged();
    job_.fault(at, "slow 20000 queue 1000");
    job_.wait_for("mirrors of " + at, [&] { return hedged() > before; });
    wait_for_rounds();
    mend(rank, index);
  }

  void mend(int rank, int index) {
    job_.fault(nic(rank, index), "");
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
};

RankBody rounds_of(Rounds& rounds) {
  return [&rounds](Comm& comm) {
    for (int round = 0; rounds.enter(round); ++round) run_round(comm, round);
    check(comm.destroy(), "destroy");
  };
}

TEST(Buffers, AreTouchedNoMoreWhenChunksAreRetransmitted) {
  Job job(kRanks);
  Rounds rounds;
  job.run({rounds_of(rounds)}, [&] {
    Breaker breaker(job, rounds);
    breaker.wait_for_rounds();
    for (int cycle = 0; cycle < 3 || breaker.retransmitted() == 0 || breaker.hedged() == 0;
         ++cycle) {
      breaker.blink((cycle + 1) % kRanks, cycle % kNics);
      breaker.take_down((cycle + 2) % kRanks, cycle % kNics, "down");
      breaker.take_down(cycle % kRanks, (cycle + 1) % kNics, "hole-rx");
    }
    rounds.stop();
  });
}

TEST(Buffers, AreTouchedNoMoreByFramesCutShort) {
  Job job(kRanks);
  Rounds rounds;
  job.run({rounds_of(rounds)}, [&] {
    Breaker breaker(job, rounds);
    breaker.wait_for_rounds();
    for (int cycle = 0; cycle < 4; ++cycle) breaker.crawl(cycle % kRanks, cycle % kNics);
    rounds.stop();
  });
}

}  // namespace
}  // namespace job
