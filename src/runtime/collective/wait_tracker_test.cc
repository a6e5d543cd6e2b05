#include "runtime/collective/wait_tracker.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <set>

namespace r2ccl {
namespace {

constexpr TimeNs kStep = 20 * kMillisecond;

std::string name(Rank rank) {
  return "rank " + std::to_string(rank.value());
}

// Ranks that report their waits to each other. A report takes a random time, in order per pair.
class World {
 public:
  explicit World(int32_t ranks, uint64_t seed = 1) : random_(seed) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      sides_.push_back(std::make_unique<Side>());
      Side& side = *sides_.back();
      side.receives.resize(static_cast<size_t>(ranks));
      side.sends.resize(static_cast<size_t>(ranks));
      WaitTracker::Callbacks callbacks;
      callbacks.send = [this, rank](Rank peer, CallReport::Reason reason) {
        send(Rank(rank), peer, reason);
      };
      callbacks.collective = [&side](uint64_t number) {
        return pending_call(side.history, number);
      };
      callbacks.waits_on = [&side] { return side.waits_on; };
      callbacks.lacks = [&side](const PendingCall&) { return side.lacks; };
      callbacks.doubt = [&side](Rank peer) { side.doubted.insert(peer); };
      callbacks.silence_of = [this, &side](Rank peer) {
        EXPECT_TRUE(side.doubted.contains(peer)) << "the link was not asked";
        return at(peer.value()).silence;
      };
      callbacks.warn = [&side](const PendingCall& call, TimeNs waited, const Blocker& blocker) {
        side.warnings.push_back(describe(call) + ": waiting for " + describe(blocker, name));
        side.warned_after = waited;
      };
      side.tracker = std::make_unique<WaitTracker>(Rank(rank), ranks, callbacks);
    }
  }

  // Starts the rank's next collective, in which it waits for these ranks.
  void begin(int32_t rank, const std::vector<int32_t>& waits_on) {
    Side& side = at(rank);
    PlanKey key;
    key.count = 5;
    key.rank_count = static_cast<int32_t>(sides_.size());
    side.history.begin(key);
    side.running = true;
    side.waits_on.clear();
    for (const int32_t peer : waits_on) side.waits_on.push_back(Rank(peer));
  }
  void end(int32_t rank) { at(rank).running = false; }
  // Lets a thread of the rank wait in its next Recv from the peer, or Send to it.
  void transfer(int32_t rank, PendingCall::Kind kind, int32_t peer) {
    Side& side = at(rank);
    PendingCall call;
    call.kind = kind;
    call.key.count = 7;
    call.peer = Rank(peer);
    call.tag = 3;
    auto& counts = kind == PendingCall::Kind::receive ? side.receives : side.sends;
    call.number = ++counts[static_cast<size_t>(peer)];
    side.transfers.push_back(call);
  }
  void end_transfers(int32_t rank) { at(rank).transfers.clear(); }
  // Lets the thread wait for the same call again.
  void wait_again(int32_t rank, const std::vector<PendingCall>& calls) {
    at(rank).transfers = calls;
  }
  const std::vector<PendingCall>& transfers(int32_t rank) { return at(rank).transfers; }
  void match_tagged(int32_t rank) { at(rank).lacks = false; }
  void stop(int32_t rank, Blocker::Kind silence = Blocker::Kind::stopped) {
    at(rank).stopped = true;
    at(rank).silence = silence;
  }
  void go_on(int32_t rank) {
    at(rank).stopped = false;
    at(rank).silence = Blocker::Kind::silent;
  }

  void run(TimeNs duration) {
    for (const TimeNs until = now_ + duration; now_ < until; now_ += kStep) {
      deliver();
      for (auto& side : sides_) {
        if (side->stopped) continue;
        side->tracker->set_collective(side->history.latest().number, side->running, now_);
        side->tracker->set_transfers(side->transfers, now_);
        side->tracker->progress(now_);
      }
    }
  }

  std::string text(int32_t rank, size_t call = 0) {
    const auto calls = at(rank).tracker->calls(now_);
    return call < calls.size() ? describe(calls[call].blocker, name) : "no call";
  }
  Blocker blocker(int32_t rank) { return at(rank).tracker->calls(now_).front().blocker; }
  const std::vector<std::string>& warnings(int32_t rank) { return at(rank).warnings; }
  // Returns how long the call of the last line had waited.
  TimeNs warned_after(int32_t rank) { return at(rank).warned_after; }
  WaitTracker& tracker(int32_t rank) { return *at(rank).tracker; }
  TimeNs now() const { return now_; }
  size_t reports() const { return reports_; }

 private:
  struct Side {
    CallHistory history;
    bool running = false;
    bool stopped = false;
    bool lacks = true;  // the counterparts of its tagged calls
    std::vector<Rank> waits_on;
    std::vector<PendingCall> transfers;
    std::vector<uint64_t> sends;
    std::vector<uint64_t> receives;
    std::unique_ptr<WaitTracker> tracker;
    std::vector<std::string> warnings;
    TimeNs warned_after = 0;
    Blocker::Kind silence = Blocker::Kind::silent;  // as the links of the others know it
    std::set<Rank> doubted;
  };
  struct Letter {
    Rank from;
    CallReport report;
    TimeNs at = 0;
  };
  Side& at(int32_t rank) { return *sides_[static_cast<size_t>(rank)]; }

  void send(Rank from, Rank to, CallReport::Reason reason) {
    Side& side = at(from.value());
    CallReport report;
    report.reason = reason;
    report.number = side.history.latest().number;
    report.sends = side.sends[static_cast<size_t>(to.value())];
    report.receives = side.receives[static_cast<size_t>(to.value())];
    side.tracker->complete(to, now_, &report);
    auto& queue = letters_[{from, to}];
    TimeNs due = now_ + static_cast<TimeNs>(random_() % 3) * kStep;
    if (!queue.empty()) due = std::max(due, queue.back().at);
    queue.push_back({from, decode_calls(reason, encode_calls(report)).value(), due});
    ++reports_;
  }
  void deliver() {
    for (auto& [pair, queue] : letters_) {
      Side& to = at(pair.second.value());
      while (!queue.empty() && queue.front().at <= now_ && !to.stopped) {
        const Letter letter = queue.front();
        queue.pop_front();
        to.tracker->on_report(letter.from, letter.report, now_);
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::map<std::pair<Rank, Rank>, std::deque<Letter>> letters_;
  size_t reports_ = 0;
  TimeNs now_ = kSecond;
};

TEST(WaitTracker, NamesTheTagOfAMissingCall) {
  World world(3);
  world.transfer(0, PendingCall::Kind::receive_tagged, 1);
  world.transfer(2, PendingCall::Kind::send_tagged, 0);
  world.run(5 * kSecond);
  EXPECT_EQ(world.text(0), "rank 1, which has sent no further message with tag 3 to rank 0");
  // Rank 0 waits itself: rank 1 is the root.
  EXPECT_EQ(world.text(2), "rank 1, which has sent no further message with tag 3 to rank 0");
  world.match_tagged(0);
  world.run(15 * kSecond);
  EXPECT_EQ(world.text(0), "rank 1, which has done its part: the bytes are on their way");
  EXPECT_EQ(world.text(2),
            "rank 0, which has made no further Recv with tag 3 from rank 2 and waits for rank 1");
}

TEST(WaitTracker, NamesALateRankToAllThatWaitForItInAChain) {
  World world(5);
  for (int call = 0; call < 2; ++call) {
    for (int32_t rank = 0; rank < 5; ++rank) {
      if (call == 0 || rank != 2) world.begin(rank, {(rank + 4) % 5});
    }
  }
  world.end(2);
  world.run(5 * kSecond);
  for (const int32_t rank : {0, 1, 3, 4}) {
    EXPECT_EQ(world.text(rank), "rank 2, which is at 1") << rank;
  }
  world.run(60 * kSecond);
  for (const int32_t rank : {0, 1, 3, 4}) {
    ASSERT_EQ(world.warnings(rank).size(), 1U) << rank;
    EXPECT_EQ(world.warnings(rank).front(),
              "AllReduce 2 (5 float32, sum): waiting for rank 2, which is at 1");
    EXPECT_LE(world.warned_after(rank), kSecond) << rank;
  }
  EXPECT_TRUE(world.warnings(2).empty());
  EXPECT_LE(world.reports(), 4U * 2U * 14U) << "to neighbours only, every 10 s in the end";
}

// A straggler of less than 0.9 s is not worth a line.
TEST(WaitTracker, HasNoLineForARankThatComesSoonEnough) {
  World world(2);
  world.begin(0, {1});
  world.run(WaitTracker::kWarnAfter - 100 * kMillisecond);
  EXPECT_EQ(world.text(0), "rank 1, which has called no collective yet");
  world.begin(1, {0});
  world.run(5 * kSecond);
  EXPECT_TRUE(world.warnings(0).empty());
  EXPECT_TRUE(world.warnings(1).empty());
}

struct Silence {
  Blocker::Kind kind;
  const char* words;
  TimeNs told_within;
};

TEST(WaitTracker, SaysWhoAnswersInPlaceOfASilentRank) {
  const std::vector<Silence> rows = {
      {Blocker::Kind::stopped,
       "though its host's kernel does: it is stopped, swapping, or has no CPU time", kSecond},
      {Blocker::Kind::unreached, "nor does its host", kSecond},
      {Blocker::Kind::silent, "though its process runs: it may not have made this communicator yet",
       3 * kSecond},
  };
  for (const Silence& row : rows) {
    World world(4);
    for (int32_t rank = 0; rank < 4; ++rank) world.begin(rank, {(rank + 3) % 4});
    world.stop(2, row.kind);
    world.run(6 * kSecond);
    const std::string words = std::string("rank 2, which does not answer, ") + row.words;
    for (const int32_t rank : {0, 1, 3}) {
      EXPECT_EQ(world.text(rank), words) << rank;
      ASSERT_EQ(world.warnings(rank).size(), 1U) << rank;
      EXPECT_EQ(world.warnings(rank).front(), "AllReduce 1 (5 float32, sum): waiting for " + words);
      EXPECT_LE(world.warned_after(rank), row.told_within) << rank;
    }
    world.go_on(2);
    world.run(12 * kSecond);
    for (const int32_t rank : {0, 1, 2, 3}) {
      EXPECT_EQ(world.blocker(rank).kind, Blocker::Kind::running) << rank;
    }
  }
}

// The process is heard, so only the network delays the answer.
TEST(WaitTracker, NamesNoRankWhoseAnswerIsLate) {
  World world(2);
  for (int32_t rank = 0; rank < 2; ++rank) world.begin(rank, {1 - rank});
  world.stop(1, Blocker::Kind::silent);
  world.run(1900 * kMillisecond);
  EXPECT_EQ(world.text(0), "rank 1");
  world.go_on(1);
  world.run(10 * kSecond);
  EXPECT_TRUE(world.warnings(0).empty());
  EXPECT_EQ(world.text(0), "rank 1, which is in it, too");
}

TEST(WaitTracker, NamesNoRankWhileAllRanksAreInTheCall) {
  World world(3);
  for (int32_t rank = 0; rank < 3; ++rank) world.begin(rank, {(rank + 1) % 3, (rank + 2) % 3});
  world.run(120 * kSecond);
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(world.warnings(rank).empty());
    EXPECT_EQ(world.blocker(rank).kind, Blocker::Kind::running);
  }
}

TEST(WaitTracker, NamesBothOfTwoRecvsThatWaitForEachOther) {
  World world(2);
  world.transfer(0, PendingCall::Kind::receive, 1);
  world.transfer(1, PendingCall::Kind::receive, 0);
  world.run(15 * kSecond);
  ASSERT_EQ(world.warnings(0).size(), 1U);
  EXPECT_EQ(world.warnings(0).front(),
            "Recv 1 (7 float32) from rank 1: waiting for rank 1, which has made 0 Sends to rank 0 "
            "and waits for rank 0");
  ASSERT_EQ(world.warnings(1).size(), 1U);
  EXPECT_GE(world.warned_after(0), WaitTracker::kWarnWithoutRootAfter) << "a root might have come";
}

// A caller may wait with a bound, again and again.
TEST(WaitTracker, HasOneLineForARecvHoweverOftenItsCallerWaits) {
  World world(2);
  world.transfer(0, PendingCall::Kind::receive, 1);
  const std::vector<PendingCall> calls = world.transfers(0);
  for (int wait = 0; wait < 5; ++wait) {
    world.wait_again(0, calls);
    world.run(2 * kSecond);
    world.end_transfers(0);
    world.run(kStep);
  }
  EXPECT_EQ(world.warnings(0).size(), 1U);
  world.transfer(0, PendingCall::Kind::receive, 1);
  world.run(2 * kSecond);
  ASSERT_EQ(world.warnings(0).size(), 2U);
  EXPECT_EQ(world.warnings(0).back(),
            "Recv 2 (7 float32) from rank 1: waiting for rank 1, which has made 0 Sends to rank 0");
}

TEST(WaitTracker, AsksInTimeForARecvBesideALongCollective) {
  World world(3);
  world.begin(0, {1});
  world.begin(1, {0});
  world.run(30 * kSecond);
  EXPECT_TRUE(world.warnings(0).empty());
  world.transfer(0, PendingCall::Kind::receive, 2);
  world.run(2 * kSecond);
  ASSERT_EQ(world.warnings(0).size(), 1U);
  EXPECT_LE(world.warned_after(0), kSecond);
  // Rank 1 waits for rank 0, which waits for rank 2 now.
  EXPECT_EQ(world.text(1), "rank 2, which has made 0 Sends to rank 0");
}

TEST(WaitTracker, FollowsAChainOfSendsRecvsAndCollectives) {
  World world(4);
  for (int32_t rank = 0; rank < 4; ++rank) world.begin(rank, {});
  for (int32_t rank = 0; rank < 4; ++rank) world.end(rank);
  world.begin(0, {1});                               // rank 1 does not arrive,
  world.transfer(1, PendingCall::Kind::receive, 2);  // because it waits for rank 2,
  world.transfer(2, PendingCall::Kind::send, 3);     // which waits for rank 3.
  world.run(5 * kSecond);
  for (const int32_t rank : {0, 1, 2}) {
    EXPECT_EQ(world.text(rank), "rank 3, which has made 0 Recvs from rank 2") << rank;
  }
  world.run(10 * kSecond);
  EXPECT_EQ(world.warnings(0).size() + world.warnings(1).size() + world.warnings(2).size(), 3U);
  EXPECT_TRUE(world.warnings(3).empty());
}

TEST(WaitTracker, ForgetsARootThatHasMovedOn) {
  World world(3);
  for (int32_t rank = 0; rank < 3; ++rank) world.begin(rank, {(rank + 1) % 3, (rank + 2) % 3});
  for (int32_t rank = 0; rank < 3; ++rank) world.end(rank);
  world.begin(0, {1, 2});
  world.begin(1, {0, 2});
  world.run(5 * kSecond);
  EXPECT_EQ(world.text(0), "rank 2, which is at 1");
  world.begin(2, {0, 1});
  world.run(60 * kSecond);
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(world.blocker(rank).kind, Blocker::Kind::running) << rank << world.text(rank);
  }
}

// Three ranks wait in a circle, so that each hears the root again from its neighbour.
TEST(WaitTracker, ForgetsARootThatGoesRoundInACircle) {
  World world(4);
  for (int32_t rank = 0; rank < 4; ++rank) world.begin(rank, {});
  for (int32_t rank = 0; rank < 4; ++rank) world.end(rank);
  world.begin(0, {1});
  world.begin(1, {2, 3});
  world.begin(2, {0});
  world.run(20 * kSecond);
  for (int32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(world.text(rank), "rank 3, which is at 1");
  world.begin(3, {0});
  world.run(60 * kSecond);
  for (int32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.blocker(rank).kind, Blocker::Kind::running) << rank << world.text(rank);
  }
}

TEST(WaitTracker, AsksAtOnceForACallerWhoseBoundIsShort) {
  World world(2);
  world.begin(0, {1});
  world.run(kStep);
  EXPECT_EQ(world.text(0), "rank 1");
  world.tracker(0).hurry(world.now());
  world.run(kSecond);
  EXPECT_EQ(world.text(0), "rank 1, which has called no collective yet");
}

TEST(WaitTracker, BelievesNoRankThatDoesNotExist) {
  World world(2);
  world.begin(0, {1});
  world.run(3 * kSecond);
  CallReport report;
  report.reason = CallReport::Reason::answer;
  report.number = 1;
  report.waits = true;
  for (const int32_t bad : {-2, 2, INT32_MAX, INT32_MIN}) {
    report.waits_for = Rank(bad);
    report.root = {.kind = Blocker::Kind::behind, .rank = Rank(bad)};
    world.tracker(0).on_report(Rank(1), report, world.now());
    EXPECT_EQ(world.text(0), "rank 1, which is in it, too");
    report.root = {.kind = Blocker::Kind::no_send, .rank = Rank(1), .towards = Rank(bad)};
    world.tracker(0).on_report(Rank(1), report, world.now());
    EXPECT_EQ(world.text(0), "rank 1, which is in it, too");
  }
}

// Random graphs of waits with some late and some stopped ranks. Every rank from which one of these
// can be reached names such a rank, and no rank names a rank that waits.
TEST(WaitTracker, NamesARankAtTheEndOfAChainInRandomGraphs) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<int32_t>(2 + random() % 14);
    World world(ranks, seed);
    std::set<int32_t> idle;
    std::vector<std::vector<int32_t>> edges(static_cast<size_t>(ranks));
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (random() % 5 == 0 || (idle.empty() && rank == ranks - 1)) idle.insert(rank);
    }
    for (int32_t rank = 0; rank < ranks; ++rank) {
      world.begin(rank, {});
      world.end(rank);
      if (idle.contains(rank)) {
        if (random() % 2 == 0) world.stop(rank);
        continue;
      }
      auto& peers = edges[static_cast<size_t>(rank)];
      for (size_t i = 0; i < 1 + random() % 3; ++i) {
        peers.push_back(static_cast<int32_t>(
            (static_cast<uint64_t>(rank) + 1 + random() % static_cast<uint64_t>(ranks - 1)) %
            static_cast<uint64_t>(ranks)));
      }
      world.begin(rank, peers);
    }
    std::set<int32_t> reach = idle;  // grows to all ranks that depend on an idle one
    for (bool grows = true; grows;) {
      grows = false;
      for (int32_t rank = 0; rank < ranks; ++rank) {
        for (const int32_t peer : edges[static_cast<size_t>(rank)]) {
          if (reach.contains(peer)) grows = reach.insert(rank).second || grows;
        }
      }
    }
    world.run((10 + ranks) * kSecond);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (idle.contains(rank)) continue;
      const Blocker blocker = world.blocker(rank);
      ASSERT_EQ(blocker.is_root(), reach.contains(rank)) << "seed " << seed << " rank " << rank;
      if (blocker.is_root()) {
        ASSERT_TRUE(idle.contains(blocker.rank.value())) << "seed " << seed << " rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace r2ccl
