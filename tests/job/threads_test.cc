// The calls that r2ccl.h permits several threads to make on one communicator at the same time.
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr int kThreads = 3;
constexpr int kOperations = 120;
constexpr size_t kSmall = 401;
constexpr size_t kLarge = 40 * 1003;

// Hands out the operations of a rank in the one order that all ranks share, to any thread that
// asks.
class Sequence {
 public:
  explicit Sequence(Comm& comm) : comm_(comm) {}

  std::optional<Operation> start_next() {
    const std::lock_guard lock(mutex_);
    if (next_ == kOperations) return std::nullopt;
    const auto tag = static_cast<uint32_t>(next_++);
    const size_t count = tag / 12 % 2 == 0 ? kSmall : kLarge;
    const int step = tag % 12 < 6 ? 1 : 2;
    const int to = (comm_.rank() + step) % comm_.ranks();
    const int from = (comm_.rank() + comm_.ranks() - step) % comm_.ranks();
    switch (tag % 6) {
      case 0:
        return Operation::all_reduce(comm_, tag, count);
      case 1:
        return Operation::send(comm_, tag + 1, count, to);
      case 2:
        return Operation::receive(comm_, tag, count, from);
      case 3:
        return Operation::broadcast(comm_, tag, count, static_cast<int>(tag) % comm_.ranks());
      case 4:
        return Operation::receive(comm_, tag + 1, count, from);
      default:
        return Operation::send(comm_, tag, count, to);
    }
  }

 private:
  Comm& comm_;
  std::mutex mutex_;  // orders the calls, as r2ccl.h asks for
  int next_ = 0;
};

// Makes all the queries that any thread may make at any time.
void ask(const Comm& comm, const std::atomic<bool>& over) {
  while (!over) {
    if (comm.async_error() != r2cclSuccess) throw Broken(r2cclGetLastError(comm.handle()));
    if (*r2cclGetLastError(comm.handle()) != '\0') throw Broken("an error where there is none");
    int rank = -1;
    int ranks = -1;
    check(r2cclCommUserRank(comm.handle(), &rank), "rank");
    check(r2cclCommCount(comm.handle(), &ranks), "count");
    if (rank != comm.rank() || ranks != comm.ranks()) throw Broken("the wrong rank");
    (void)comm.report();
  }
}

TEST(Threads, OfOneRankMayTakeTurnsInStartingAndWaitAtTheSameTime) {
  Job job(kRanks);
  const RankBody body = [&](Comm& comm) {
    Sequence sequence(comm);
    std::atomic<bool> over{false};
    auto asking = std::async(std::launch::async, [&] { ask(comm, over); });
    std::vector<std::future<void>> working;
    for (int thread = 0; thread < kThreads; ++thread) {
      working.push_back(std::async(std::launch::async, [&] {
        while (std::optional<Operation> started = sequence.start_next()) started->finish();
      }));
    }
    for (auto& each : working) each.wait();
    over = true;
    for (auto& each : working) each.get();
    asking.get();
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

}  // namespace
}  // namespace job
