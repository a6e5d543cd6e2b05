// Several communicators of the same ranks, each driven by a thread of its own.
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr size_t kLarge = 60 * 1003;
constexpr size_t kSmall = 517;
constexpr int kRoundsDuringFault = 3;

// Exchanges messages between all pairs of ranks.
void exchange(Comm& comm, Rounds& rounds) {
  for (int round = 0; rounds.enter(round); ++round) {
    // The values differ from the other communicator's.
    const uint32_t tag = 1'000'000 + static_cast<uint32_t>(round) * 2;
    std::vector<Operation> open;
    for (int step = 1; step < comm.ranks(); ++step) {
      const int to = (comm.rank() + step) % comm.ranks();
      const int from = (comm.rank() + comm.ranks() - step) % comm.ranks();
      open.push_back(Operation::send(comm, tag, kLarge, to));
      open.push_back(Operation::receive(comm, tag, kLarge, from));
      open.push_back(Operation::send(comm, tag + 1, kSmall, to));
      open.push_back(Operation::receive(comm, tag + 1, kSmall, from));
    }
    for (Operation& operation : open) operation.finish();
  }
  check(comm.destroy(), "destroy");
}

TEST(Communicators, OfTheSameRanksPassThroughFaultsSideBySide) {
  Job job(kRanks);
  std::vector<Rounds> rounds(2);
  const auto both = [&](int rank, const std::string& at, const std::string& state) {
    return job.comm(rank, 0).report().all(at, state) && job.comm(rank, 1).report().all(at, state);
  };
  const auto more_rounds = [&] {
    const std::vector<int> before = {rounds[0].newest(), rounds[1].newest()};
    job.wait_for("progress of both communicators", [&] {
      return rounds[0].newest() >= before[0] + kRoundsDuringFault &&
             rounds[1].newest() >= before[1] + kRoundsDuringFault;
    });
  };
  const RankBody collectives = [&](Comm& comm) { reduce_and_broadcast(comm, rounds[0]); };
  const RankBody pairs = [&](Comm& comm) { exchange(comm, rounds[1]); };
  job.run({collectives, pairs}, [&] {
    for (const std::string words : {"down", "hole", "hole-tx"}) {
      const int rank = words == "down" ? 0 : 1;
      const std::string at = nic(rank, words == "hole" ? 0 : 1);
      job.wait_for("start of " + at, [&] { return both(rank, at, "up"); });
      job.fault(at, words);
      job.wait_for("end of " + at, [&] { return both(rank, at, "down"); });
      more_rounds();
      job.fault(at, "");
      job.wait_for("return of " + at, [&] { return both(rank, at, "up"); });
    }
    more_rounds();
    for (Rounds& each : rounds) each.stop();
  });
}

}  // namespace
}  // namespace job
