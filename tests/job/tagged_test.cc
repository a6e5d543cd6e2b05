// Messages with tags and of unknown size.
#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr size_t kSmall = 1000;
constexpr size_t kLarge = 300'000;  // elements: it waits for its Recv

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

Values from(int rank, uint32_t tag) {
  return {rank, rank, tag};
}

r2cclResult_t send(Comm& comm, Buffer& data, size_t count, int peer, int tag,
                   r2cclRequest_t* request = nullptr) {
  return r2cclSendTagged(data.data(), count, r2cclInt32, peer, tag, comm.handle(), request);
}

r2cclResult_t receive(Comm& comm, Buffer& data, size_t most, int peer, int tag, size_t* received,
                      r2cclRequest_t* request = nullptr) {
  return r2cclRecvTagged(data.data(), most, r2cclInt32, peer, tag, received, comm.handle(),
                         request);
}

TEST(Tagged, TellTheSizeInTheOrderOfEachTag) {
  Job job(2);
  job.run({[](Comm& comm) {
    const std::array<size_t, 5> counts = {3, 0, kLarge, 8184, 8185};  // the last two: 32,736 bytes
    const int peer = 1 - comm.rank();
    std::vector<Buffer> sources;
    std::vector<r2cclRequest_t> sends;
    for (uint32_t i = 0; i < counts.size(); ++i) {
      sources.emplace_back(counts[i], from(comm.rank(), i));
      check(send(comm, sources.back(), counts[i], peer, i % 2, &sends.emplace_back()), "send");
    }
    for (const uint32_t i : {1U, 3U, 0U, 2U, 4U}) {
      Buffer target(counts[i]);
      size_t received = 77;
      check(receive(comm, target, counts[i], peer, i % 2, i == 4 ? nullptr : &received), "receive");
      EXPECT_EQ(received, i == 4 ? 77 : counts[i]);
      target.expect(from(peer, i), "message");
    }
    check(r2cclRequestWaitAll(static_cast<int>(sends.size()), sends.data(), kPatienceMs), "wait");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Tagged, ALateRecvHoldsUpNoOtherTag) {
  constexpr int kMany = 5000;  // more than there is credit for
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer small(10, from(0, 1));
    Buffer large(kLarge, from(0, 2));
    if (comm.rank() == 0) {
      std::vector<r2cclRequest_t> requests(kMany + 1);
      for (int i = 0; i < kMany; ++i) {
        const bool big = i % 1000 == 999;
        check(send(comm, big ? large : small, big ? kLarge : 10, 1, 1,
                   &requests[static_cast<size_t>(i)]),
              "send");
      }
      check(send(comm, large, kLarge, 1, 2, &requests.back()), "send");
      check(send(comm, small, 10, 1, 3), "send");
      check(r2cclRequestWait(&requests.back(), kPatienceMs), "wait for tag 2");
      int done = 1;
      check(r2cclRequestTest(&requests[kMany - 2], &done), "test");
      EXPECT_EQ(done, 0) << "no Recv has taken it, and there is no credit";
      check(r2cclRequestWaitAll(kMany, requests.data(), kPatienceMs), "wait for tag 1");
    } else {
      Buffer target(kLarge);
      size_t count = 0;
      check(receive(comm, target, kLarge, 0, 3, &count), "tag 3");
      EXPECT_EQ(count, 10U);
      check(receive(comm, target, kLarge, 0, 2, &count), "tag 2");
      target.expect(from(0, 2), "tag 2");
      for (int i = 0; i < kMany; ++i) {
        check(receive(comm, target, kLarge, 0, 1, &count), "tag 1");
        EXPECT_EQ(count, i % 1000 == 999 ? kLarge : 10);
      }
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Tagged, InAGroup) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int peer = 1 - comm.rank();
    Buffer source(kLarge, from(comm.rank(), 3));
    Buffer own(kLarge), other(kLarge), none(kLarge);
    std::array<size_t, 3> counts{};
    r2cclRequest_t request = nullptr;
    check(r2cclGroupStart(), "start");
    check(send(comm, source, kLarge, comm.rank(), 5), "send");
    check(receive(comm, none, kLarge, comm.rank(), 6, &counts[2], &request), "receive");
    check(send(comm, source, kLarge, peer, 5), "send");
    check(receive(comm, other, kLarge, peer, 5, &counts[0]), "receive");
    check(receive(comm, own, kLarge, comm.rank(), 5, &counts[1]), "receive");
    check(r2cclGroupEnd(), "end");
    EXPECT_EQ(counts[0], kLarge);
    EXPECT_EQ(counts[1], kLarge);
    own.expect(from(comm.rank(), 3), "what it sent to itself");
    other.expect(from(peer, 3), "the other's");
    check(send(comm, source, 0, comm.rank(), 6), "send");
    check(r2cclRequestWait(&request, kPatienceMs), "wait");
    EXPECT_EQ(counts[2], 0U);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Tagged, ALongerMessageIsAnErrorInWordsOnAllRanks) {
  for (const size_t count : {kSmall, kLarge}) {
    Job job(3);
    job.run({[count](Comm& comm) {
      Buffer data(count, from(0, 1));
      if (comm.rank() == 0) {
        // A small message has gone when its Recv finds that it is too long.
        EXPECT_EQ(send(comm, data, count, 1, 7),
                  count == kSmall ? r2cclSuccess : r2cclInvalidUsage);
      } else if (comm.rank() == 1) {
        EXPECT_EQ(receive(comm, data, kSmall - 1, 0, 7, nullptr), r2cclInvalidUsage);
      }
      // All ranks learn of it.
      const r2cclResult_t later = r2cclAllReduce(data.data(), data.data(), kSmall, r2cclInt32,
                                                 r2cclSum, comm.handle(), nullptr);
      EXPECT_EQ(later, r2cclInvalidUsage);
      EXPECT_TRUE(said(std::to_string(4 * count) + " bytes of int32 with tag 7 to rank 1 "))
          << r2cclGetLastError(nullptr);
      EXPECT_TRUE(said("takes at most 3996 bytes of int32")) << r2cclGetLastError(nullptr);
      EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 0 ", 0), 0U);
      check(comm.destroy(), "destroy");
    }});
  }
}

TEST(Tagged, WithoutARecvFailFinalizeOnAllRanks) {
  for (const size_t count : {kSmall, kLarge}) {
    for (const bool meet : {false, true}) {
      Job job(2);
      job.run({[=](Comm& comm) {
        Buffer data(count, from(comm.rank(), 1));
        r2cclRequest_t request = nullptr;
        if (meet && comm.rank() == 1) check(receive(comm, data, count, 0, 8, nullptr), "meet");
        if (meet && comm.rank() == 0) check(send(comm, data, 1, 1, 8), "meet");
        if (comm.rank() == 0) check(send(comm, data, count, 1, 7, &request), "send");
        EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage);
        // The goodbye of rank 1 may pass the message on its way, which then ends at rank 0.
        EXPECT_TRUE(said("finalizes without a Recv for " + std::to_string(4 * count) +
                         " bytes of int32 with tag 7 from rank 0 ") ||
                    said("has left: it finalized its communicator while rank 0 "))
            << r2cclGetLastError(nullptr);
        EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 1 ", 0), 0U);
        (void)r2cclRequestWait(&request, kPatienceMs);
        check(comm.destroy(), "destroy");
      }});
    }
  }
}

TEST(Tagged, ARecvWithoutASendFailsFinalize) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer data(kSmall);
    r2cclRequest_t request = nullptr;
    if (comm.rank() == 0) {
      check(receive(comm, data, kSmall, 1, 7, nullptr, &request), "receive");
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclRemoteError);
    } else {
      EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage);
    }
    EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 1 ", 0), 0U)
        << r2cclGetLastError(nullptr);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Tagged, RefuseWrongArguments) {
  Job job(1);
  job.run({[](Comm& comm) {
    Buffer data(kSmall);
    for (const int tag : {-1, -2}) {
      EXPECT_EQ(send(comm, data, 1, 0, tag), r2cclInvalidArgument);
      EXPECT_TRUE(said("tag is " + std::to_string(tag))) << r2cclGetLastError(nullptr);
      EXPECT_EQ(receive(comm, data, 1, 0, tag, nullptr), r2cclInvalidArgument);
      EXPECT_TRUE(said("there are no wildcards")) << r2cclGetLastError(nullptr);
    }
    EXPECT_EQ(receive(comm, data, 1, -1, 1, nullptr), r2cclInvalidArgument);
    EXPECT_EQ(receive(comm, data, 1, 0, 1, reinterpret_cast<size_t*>(8)), r2cclInvalidArgument);
    EXPECT_TRUE(said("received is no size_t")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(comm.async_error(), r2cclSuccess);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Tagged, AWaitNamesTheRankAndTheTag) {
  Job job(2);
  std::atomic<bool> over{false};
  job.run({[&](Comm& comm) {
    Buffer data(kSmall, from(1, 1));
    if (comm.rank() == 0) {
      r2cclRequest_t request = nullptr;
      check(receive(comm, data, kSmall, 1, 7, nullptr, &request), "receive");
      while (r2cclRequestWait(&request, 200) == r2cclTimeout &&
             !said("RecvTagged 1 (tag 7, up to 1000 int32) from rank 1: waiting for rank 1 ")) {
      }
      EXPECT_TRUE(said("which has sent no further message with tag 7 to rank 0"))
          << r2cclGetLastError(nullptr);
      over = true;
      check(r2cclRequestWait(&request, kPatienceMs), "wait");
      data.expect(from(1, 1), "message");
    } else {
      job.wait_for("the text", [&] { return over.load(); });
      check(send(comm, data, kSmall, 0, 7), "send");
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Tagged, AnAbortEndsThem) {
  Job job(2);
  job.run({[](Comm& comm) {
    Buffer data(kLarge, from(1, 1));
    if (comm.rank() == 0) {
      const r2cclResult_t ended = receive(comm, data, kLarge, 1, 7, nullptr);
      EXPECT_EQ(ended, r2cclRemoteError);
      EXPECT_TRUE(said("rank 1 ") && said("aborted")) << r2cclGetLastError(nullptr);
    } else {
      r2cclRequest_t request = nullptr;
      check(send(comm, data, kLarge, 0, 8, &request), "send");
      comm.abort();
      data.end();
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclAborted);
    }
    check(comm.destroy(), "destroy");
  }});
}

// Messages of all sizes, while NICs fail and return.
TEST(Tagged, SurviveTheLossOfNics) {
  constexpr int kRanks = 3;
  Job job(kRanks);
  Rounds rounds;
  const RankBody body = [&rounds](Comm& comm) {
    for (int round = 0; rounds.enter(round); ++round) {
      const std::array<size_t, 4> counts = {0, 17, 8000, 100 * 1003};
      std::vector<Buffer> sources, targets;
      std::vector<size_t> received(counts.size() * kRanks);
      std::vector<r2cclRequest_t> requests;
      for (size_t i = 0; i < received.size(); ++i) {
        const int peer = static_cast<int>(i) % kRanks;
        const auto tag = static_cast<uint32_t>(round) * 16 + static_cast<uint32_t>(i);
        sources.emplace_back(counts[i / kRanks], from(comm.rank(), tag));
        targets.emplace_back(counts[3]);
        check(send(comm, sources.back(), counts[i / kRanks], peer, static_cast<int>(i % 2),
                   &requests.emplace_back()),
              "send");
      }
      // Tag 1 first. The i-th message of a peer is the i-th to a rank: its place among the sources
      // differs by the rank.
      for (const size_t tag : {size_t{1}, size_t{0}}) {
        for (size_t i = 0; i < received.size(); ++i) {
          const size_t there = i / kRanks * kRanks + static_cast<size_t>(comm.rank());
          if (there % 2 != tag) continue;
          check(receive(comm, targets[i], counts[3], static_cast<int>(i) % kRanks,
                        static_cast<int>(tag), &received[i], &requests.emplace_back()),
                "receive");
        }
      }
      check(r2cclRequestWaitAll(static_cast<int>(requests.size()), requests.data(), kPatienceMs),
            "wait");
      for (size_t i = 0; i < received.size(); ++i) {
        const int peer = static_cast<int>(i) % kRanks;
        const size_t there = i / kRanks * kRanks + static_cast<size_t>(comm.rank());
        const auto tag = static_cast<uint32_t>(round) * 16 + static_cast<uint32_t>(there);
        ASSERT_EQ(received[i], counts[i / kRanks]);
        Buffer got(received[i]);
        std::copy_n(targets[i].data(), received[i], got.data());
        got.expect(from(peer, tag), "message " + std::to_string(i));
      }
    }
    check(comm.destroy(), "destroy");
  };
  job.run({body}, [&] {
    for (int cycle = 0; cycle < 4; ++cycle) {
      const std::string at = nic(cycle % kRanks, cycle % kNics);
      job.fault(at, cycle % 2 == 0 ? "hole" : "down");
      job.wait_for("fault", [&] { return !job.comm(cycle % kRanks).report().all(at, "up"); });
      job.fault(at, "");
      job.wait_for("return", [&] { return job.comm(cycle % kRanks).report().all(at, "up"); });
      const int enough = rounds.newest() + 2;
      job.wait_for("rounds", [&] { return rounds.newest() >= enough; });
    }
    rounds.stop();
  });
}

}  // namespace
}  // namespace job
