// Flips one bit on the wire of a running job, 200 times, in data headers, control frames and
// greetings, and adds bytes that are no frame.
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 2;
constexpr int kFlips = 200;
constexpr int kGreetingEvery = 20;  // a connection waits in vain for each of these
constexpr std::chrono::seconds kNoticed{20};

// A pattern at the start of the bytes, whose fifth is the version of the wire format, and the
// number of bits that every such frame has.
struct Frames {
  const char* pattern;
  int bits;
};
constexpr Frames kData{"523243440c", 8 * 104};
constexpr Frames kControl{"5232434c0c000000", 8 * 190};
constexpr Frames kGreeting{"5232434c01", 8 * 80};

uint64_t incarnations(const Job& job) {
  uint64_t sum = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const Report::Path& path : job.comm(rank).report().paths) sum += path.incarnation;
  }
  return sum;
}

bool all_up(const Job& job) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const Report report = job.comm(rank).report();
    const auto up = [](const Report::Path& path) { return path.state == "up"; };
    if (!std::all_of(report.paths.begin(), report.paths.end(), up)) return false;
  }
  return true;
}

std::string order(const Frames& frames, std::mt19937& random, int number) {
  const int bit = static_cast<int>(random() % static_cast<uint32_t>(frames.bits));
  return std::string("flip ") + frames.pattern + " " + std::to_string(bit + 1) + " " +
         std::to_string(number);
}

// A flip is noticed at the next frame, once the library has read the fault file: on an idle machine
// within 1 s. A machine with other work takes its time.
void flip_all(Job& job) {
  std::mt19937 random(2024);
  std::chrono::steady_clock::duration longest{};
  for (int number = 1; number <= kFlips; ++number) {
    const int index = static_cast<int>(random() % kNics);
    const int rank = number % kGreetingEvery == 0 ? 1 : static_cast<int>(random() % kRanks);
    job.wait_for("all paths", [&] { return all_up(job); });
    const uint64_t before = incarnations(job);
    // Rank 0 greets when it opens the connection anew that the other end closed.
    if (number % kGreetingEvery == 0) job.fault(nic(0, index), order(kGreeting, random, number));
    const auto began = std::chrono::steady_clock::now();
    job.fault(nic(rank, index), order(random() % 2 == 0 ? kData : kControl, random, number));
    job.wait_for("end of a path after flip " + std::to_string(number),
                 [&] { return incarnations(job) > before || !all_up(job); });
    longest = std::max(longest, std::chrono::steady_clock::now() - began);
  }
  job.wait_for("all paths", [&] { return all_up(job); });
  EXPECT_LT(longest, kNoticed);
}

// One verdict for the attack on each pair, or for all pairs of the two hosts, and no other one.
void expect_tampered(const Comm& comm) {
  size_t count = 64;
  std::vector<r2cclVerdict_t> verdicts(count);
  verdicts[0].size = sizeof verdicts[0];
  check(r2cclCommGetVerdicts(comm.handle(), verdicts.data(), &count), "verdicts");
  EXPECT_GE(count, 1U);
  EXPECT_LE(count, kNics + 1U);
  for (size_t i = 0; i < std::min(count, verdicts.size()); ++i) {
    EXPECT_EQ(verdicts[i].kind, r2cclTampered);
    EXPECT_EQ(verdicts[i].scope, r2cclScopePair);
    EXPECT_NE(std::string(verdicts[i].host), std::string(verdicts[i].peer_host));
  }
}

TEST(Tampering, WithTheWireCostsConnectionsButNoElementAndNoNicsName) {
  Job job(kRanks);
  Rounds rounds;
  const RankBody body = [&](Comm& comm) { reduce_and_broadcast(comm, rounds); };
  job.run({body}, [&] {
    flip_all(job);
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string text = job.comm(rank).report().text;
      EXPECT_NE(text.find("\"kind\":\"tampered\""), std::string::npos) << text;
      expect_tampered(job.comm(rank));
      EXPECT_NE(text.find("corrupted"), std::string::npos) << text;
    }
    rounds.stop();
  });
}

// One message at a time in turns, so the connections are idle between the messages.
void play_ping_pong(Comm& comm, Rounds& rounds) {
  for (int round = 0; rounds.enter(round); ++round) {
    const auto tag = static_cast<uint32_t>(round);
    const bool begins = comm.rank() == round % kRanks;
    (begins ? Operation::send(comm, tag, 100, 1 - comm.rank())
            : Operation::receive(comm, tag, 100, 1 - comm.rank()))
        .finish();
  }
  check(comm.destroy(), "destroy");
}

// Fewer bytes than a header, on several connections, and nothing after them. No tag covers them, so
// they must prove nothing against a rank.
TEST(Tampering, BytesThatAreNoFrameCostOnlyTheirConnections) {
  constexpr int kTimes = 6;
  Job job(kRanks);
  Rounds rounds;
  const RankBody body = [&](Comm& comm) { play_ping_pong(comm, rounds); };
  job.run({body}, [&] {
    for (int number = 1; number <= kTimes; ++number) {
      job.wait_for("all paths", [&] { return all_up(job); });
      const uint64_t before = incarnations(job);
      const std::string order =
          std::string("add ") + kData.pattern + " 50 " + std::to_string(number);
      for (int index = 0; index < kNics; ++index) job.fault(nic(number % kRanks, index), order);
      job.wait_for("end of a path after bytes " + std::to_string(number),
                   [&] { return incarnations(job) > before || !all_up(job); });
    }
    job.wait_for("all paths", [&] { return all_up(job); });
    rounds.stop();
  });
}

}  // namespace
}  // namespace job
