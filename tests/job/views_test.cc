// The plans of a communicator that was split off follow the NICs of its hosts, as r2ccl.h shows it.
#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 5;
constexpr int kMembers = 4;  // of the child: the first ranks
constexpr size_t kCount = 200'000;
constexpr int kCounted = 20;  // rounds

// The communicators of a color, each of a rank of the job.
class Children {
 public:
  void put(int rank, r2cclComm_t comm) { comms_[static_cast<size_t>(rank)] = comm; }
  r2cclComm_t of(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // Returns whether the ranks of the child have all agreed on a view of this version.
  bool all_have(uint64_t version) const {
    return std::all_of(comms_.begin(), comms_.begin() + kMembers, [&](r2cclComm_t comm) {
      return comm != nullptr && report_of(comm).view_version == version;
    });
  }

 private:
  std::array<std::atomic<r2cclComm_t>, kRanks> comms_{};
};

uint64_t sent_by(r2cclComm_t comm) {
  const Report report = report_of(comm);
  uint64_t bytes = 0;
  for (int peer = 0; peer < kMembers; ++peer) bytes += report.sent_to(peer);
  return bytes;
}

void reduce(Comm& comm, Children& children, Rounds& rounds) {
  const int color = comm.rank() < kMembers ? 0 : R2CCL_SPLIT_NOCOLOR;
  r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
  config.algorithm = "leaf";
  r2cclComm_t child = nullptr;
  check(r2cclCommSplit(comm.handle(), color, -comm.rank(), &child, &config), "split");
  children.put(comm.rank(), child);
  for (int round = 0; child != nullptr && rounds.enter(round); ++round) {
    const auto tag = static_cast<uint32_t>(round);
    Buffer data(kCount, {comm.rank(), comm.rank(), tag});
    check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum, child, nullptr),
          "sum");
    data.expect({0, kMembers - 1, tag}, "round " + std::to_string(round));
  }
  check(r2cclBarrier(comm.handle(), nullptr), "barrier");
  if (child != nullptr) check(r2cclCommDestroy(child), "destroy the child");
  check(comm.destroy(), "destroy");
}

// Returns the bytes that a rank sends, as a part of those that another one sends meanwhile. Both
// send some bytes again on a busy machine.
double part_sent(const Job& job, const Rounds& rounds, r2cclComm_t rank, r2cclComm_t other) {
  const auto pass = [&](int count) {
    const int end = rounds.newest() + count;
    job.wait_for("more rounds", [&] { return rounds.newest() >= end; });
  };
  pass(3);  // the rounds that had begun with another plan
  const uint64_t before = sent_by(rank);
  const uint64_t before_of_other = sent_by(other);
  pass(kCounted);
  const auto sent = static_cast<double>(sent_by(rank) - before);
  return sent / static_cast<double>(sent_by(other) - before_of_other);
}

TEST(Views, OfACommunicatorThatIsSplitOffFollowALostNic) {
  Job job(kRanks);
  Children children;
  Rounds rounds;
  job.run({[&](Comm& comm) { reduce(comm, children, rounds); }}, [&] {
    constexpr int kSlow = 1;
    job.wait_for("child on each rank", [&] { return children.all_have(0); });
    // In a ring all send alike; a leaf sends the vector once, of 2 (p - 1) vectors that all send.
    constexpr double kBetween = 0.8;  // 1 and 3 / 5
    const r2cclComm_t slow = children.of(kSlow);
    const r2cclComm_t other = children.of(kSlow + 1);
    EXPECT_GT(part_sent(job, rounds, slow, other), kBetween);
    job.fault(nic(kSlow, 0), "down");
    job.wait_for("view without the NIC", [&] { return children.all_have(1); });
    EXPECT_LT(part_sent(job, rounds, slow, other), kBetween);
    // The ranks of the child are those of the job backwards, and so are the hosts of its view.
    const std::string text = report_of(slow).text;
    const size_t whole = text.find(R"("host":"host2","nics":[{"nic":"lo@127.0.1.3","send":1000)");
    const size_t lost = text.find(R"("host":"host1","nics":[{"nic":"lo@127.0.1.2","send":0)");
    EXPECT_NE(lost, std::string::npos) << text;
    EXPECT_LT(whole, lost) << text;
    job.fault(nic(kSlow, 0), "");
    job.wait_for("view with the NIC", [&] { return children.all_have(2); });
    EXPECT_GT(part_sent(job, rounds, slow, other), kBetween);
    rounds.stop();
  });
}

}  // namespace
}  // namespace job
