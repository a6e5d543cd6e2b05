// Ranks that are far from each other.
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;

// Each end of a path adds the delay in each direction. The delay lasts from before the first
// connection until after the last goodbye, so it also affects the start and the end of the job.
TEST(Distance, CostsTimeButNoPath) {
  Job job(kRanks);
  const std::string delay = "delay 5";
  job.fault("127.0.0.1", delay);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int index = 0; index < kNics; ++index) job.fault(nic(rank, index), delay);
  }
  Rounds rounds;
  const RankBody body = [&](Comm& comm) { reduce_and_broadcast(comm, rounds); };
  job.run({body}, [&] {
    const auto everywhere = [&](int index, const std::string& state) {
      for (int rank = 0; rank < kRanks; ++rank) {
        if (!job.comm(rank).report().all(nic(rank, index), state)) return false;
      }
      return true;
    };
    const auto more_rounds = [&] {
      const int enough = rounds.newest() + 5;
      job.wait_for("more rounds", [&] { return rounds.newest() >= enough; });
    };
    job.wait_for("all paths", [&] { return everywhere(0, "up") && everywhere(1, "up"); });
    more_rounds();
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.comm(rank).report().retransmitted, 0U);
    const std::string at = nic(1, 0);
    job.fault(at, "hole " + delay);
    job.wait_for("end of " + at, [&] { return job.comm(1).report().all(at, "down"); });
    more_rounds();
    job.fault(at, delay);
    job.wait_for("return of " + at, [&] { return everywhere(0, "up"); });
    more_rounds();
    rounds.stop();
  });
}

}  // namespace
}  // namespace job
