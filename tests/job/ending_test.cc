// The ends of communicators: abort from another thread, and destroy with outstanding sends.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kAtOnce = std::chrono::seconds(8);  // a wait would take ten seconds, or forever
constexpr size_t kHuge = 2 << 20;                  // number of elements; seconds at the rate below
constexpr const char* kSlow = "slow 1000000 queue 1000";

// The operations of the rank that is aborted. It frees its buffers the moment that abort returns,
// while its calls may not have returned yet.
struct Victim {
  Buffer source = Buffer(kHuge, {0, 0, 0});
  Buffer target = Buffer(kHuge);
  Buffer received = Buffer(kHuge);
  std::atomic<bool> freed{false};

  void free() {
    source.end();
    target.end();
    received.end();
    freed = true;
  }
};

void run_victim(Job& job, Comm& comm, Victim& victim) {
  r2cclRequest_t request = nullptr;
  check(r2cclRecv(victim.received.data(), kHuge, r2cclInt32, 1, comm.handle(), &request), "recv");
  auto waiting = std::async(std::launch::async, [&] { return r2cclRequestWait(&request, -1); });
  const r2cclResult_t reduced = r2cclAllReduce(victim.source.data(), victim.target.data(), kHuge,
                                               r2cclInt32, r2cclSum, comm.handle(), nullptr);
  EXPECT_EQ(reduced, r2cclAborted);
  EXPECT_EQ(waiting.get(), r2cclAborted);
  EXPECT_EQ(comm.async_error(), r2cclAborted);
  job.wait_for("end of the victim's buffers", [&] { return victim.freed.load(); });
}

void run_other(Comm& comm) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) buffers.emplace_back(kHuge, Values{});
  r2cclRequest_t request = nullptr;
  if (comm.rank() == 1) {
    check(r2cclSend(buffers[2].data(), kHuge, r2cclInt32, 0, comm.handle(), &request), "send");
  }
  const r2cclResult_t reduced = r2cclAllReduce(buffers[0].data(), buffers[1].data(), kHuge,
                                               r2cclInt32, r2cclSum, comm.handle(), nullptr);
  EXPECT_EQ(reduced, r2cclRemoteError);
  EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 0 ", 0), 0U)
      << r2cclGetLastError(nullptr);
  if (request != nullptr) {
    EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclRemoteError);
  }
}

void set_nics_of_victim(Job& job, const std::string& words) {
  for (int index = 0; index < kNics; ++index) job.fault(nic(0, index), words);
}

// The victim's NICs are slow from the first operation on, so the abort cuts frames from and to its
// buffers short. `before` may add faults; then all faults end, and `after` waits until those frames
// are complete.
void abort_in_flight(const std::function<void(Job&)>& before,
                     const std::function<bool(Job&)>& after) {
  Job job(3);
  Victim victim;
  std::atomic<bool> slow{false};
  std::atomic<bool> over{false};
  const RankBody body = [&](Comm& comm) {
    job.wait_for("slow NICs", [&] { return slow.load(); });
    comm.rank() == 0 ? run_victim(job, comm, victim) : run_other(comm);
    job.wait_for("end of the test", [&] { return over.load(); });
    check(comm.destroy(), "destroy");
  };
  job.run({body}, [&] {
    const Report begin = job.comm(0).report();
    set_nics_of_victim(job, kSlow);
    slow = true;
    job.wait_for("traffic", [&] {
      const Report report = job.comm(0).report();
      return report.sent_to(1) > begin.sent_to(1) + 200'000 &&
             report.received_from(1) > begin.received_from(1) + 100'000;
    });
    before(job);
    const Clock::time_point start = Clock::now();
    check(r2cclCommAbort(job.comm(0).handle()), "abort");
    victim.free();
    EXPECT_LT(Clock::now() - start, kAtOnce);
    job.wait_for("news at the others", [&] {
      return job.comm(1).async_error() == r2cclRemoteError &&
             job.comm(2).async_error() == r2cclRemoteError;
    });
    set_nics_of_victim(job, "");
    job.wait_for("end of the outstanding frames", [&] { return after(job); });
    over = true;
  });
}

TEST(Abort, EndsEveryWaitAtOnceAndLeavesTheBuffersToTheCaller) {
  abort_in_flight([](Job&) {},
                  [](Job& job) {
                    const auto victim = job.comm(0).report().paths_to(1);
                    const auto other = job.comm(1).report().paths_to(0);
                    return std::equal(victim.begin(), victim.end(), other.begin(), other.end(),
                                      [](const Report::Path& a, const Report::Path& b) {
                                        // A path that was lost took its frames with it.
                                        if (a.incarnation > 1) return a.state == "up";
                                        return a.sent == b.received && a.received == b.sent;
                                      });
                  });
}

TEST(Abort, LeavesTheBuffersToTheCallerWithFramesStuckInAHole) {
  const std::string at = nic(0, 0);
  abort_in_flight(
      [&](Job& job) {
        job.fault(at, std::string("hole ") + kSlow);
        job.wait_for("notice of the hole", [&] { return !job.comm(0).report().all(at, "up"); });
      },
      [&](Job& job) { return job.comm(0).report().all(at, "up"); });
}

TEST(Abort, TellsItsReasonToTheOtherRanks) {
  const std::string reason = "raised ValueError: \x1b[31mred\n" + std::string(10'000, 'x');
  Job job(2);
  const RankBody body = [&](Comm& comm) {
    if (comm.rank() == 0) check(r2cclCommAbortWith(comm.handle(), reason.c_str()), "abort");
    job.wait_for("news of the abort", [&] { return comm.async_error() != r2cclSuccess; });
    const std::string said = r2cclGetLastError(comm.handle());
    EXPECT_NE(said.find("raised ValueError: ?[31mred?xxx"), std::string::npos) << said;
    EXPECT_LT(said.size(), 1000U);
    if (comm.rank() == 1) {
      EXPECT_EQ(comm.async_error(), r2cclRemoteError);
      EXPECT_EQ(said.rfind("rank 0 (", 0), 0U) << said;
      EXPECT_NE(said.find(" aborted: raised"), std::string::npos) << said;
    }
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

TEST(Abort, NeedsNoReason) {
  Job job(2);
  const RankBody body = [&](Comm& comm) {
    const char* reason = comm.rank() == 0 ? nullptr : "";
    check(r2cclCommAbortWith(comm.handle(), reason), "abort");
    EXPECT_NE(std::string(r2cclGetLastError(comm.handle())).find("r2cclCommAbort was called"),
              std::string::npos);
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

// Gives another thread time to begin its announced call. The results do not depend on this, but the
// test proves its point only if the call has begun.
void let_others_run(const Comm& comm) {
  for (int i = 0; i < 100; ++i) (void)comm.report();
}

TEST(Finalize, EndsAtOnceWhenAnotherThreadAborts) {
  Job job(2);
  std::atomic<bool> finalizing{false};
  std::atomic<bool> over{false};
  const RankBody body = [&](Comm& comm) {
    if (comm.rank() == 0) {
      finalizing = true;
      const Clock::time_point start = Clock::now();
      EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclAborted);
      EXPECT_LT(Clock::now() - start, kAtOnce);
      over = true;
    }
    // If the notice of the abort came in the middle of destroy, destroy would return it.
    job.wait_for("end of the finalize", [&] { return over.load(); });
    job.wait_for("news of the abort", [&] { return comm.async_error() != r2cclSuccess; });
    check(comm.destroy(), "destroy");
  };
  job.run({body}, [&] {
    job.wait_for("finalize", [&] { return finalizing.load(); });
    let_others_run(job.comm(0));
    check(r2cclCommAbort(job.comm(0).handle()), "abort");
  });
}

constexpr int kMessages = 40;
// The link copies messages this small.
constexpr size_t kMessage = 24 * 1024 / sizeof(int32_t);

// They complete without a posted receive, so most are still at their sender.
void send_all(Comm& comm) {
  for (int i = 0; i < kMessages; ++i) {
    Operation::send(comm, static_cast<uint32_t>(i), kMessage, 1).finish();
  }
}

TEST(Destroy, DeliversSendsThatCompletedBefore) {
  Job job(2);
  std::atomic<bool> sent{false};
  const RankBody body = [&](Comm& comm) {
    if (comm.rank() == 0) {
      const std::string at = nic(0, 0);
      job.wait_for("start of " + at, [&] { return comm.report().all(at, "up"); });
      job.fault(at, "hole");
      send_all(comm);
      sent = true;
    } else {
      job.wait_for("sends", [&] { return sent.load(); });
      for (int i = 0; i < kMessages; ++i) {
        Operation::receive(comm, static_cast<uint32_t>(i), kMessage, 0).finish();
      }
    }
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

TEST(Finalize, FailsWithASendToItselfThatIsNeverReceived) {
  Job job(2);
  const RankBody body = [](Comm& comm) {
    Buffer data(10, Values{});
    r2cclRequest_t request = nullptr;
    if (comm.rank() == 0) {
      check(r2cclSend(data.data(), 10, r2cclInt32, 0, comm.handle(), &request), "send");
    }
    EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage) << "on every rank";
    EXPECT_NE(std::string(r2cclGetLastError(nullptr)).find("rank 0 "), std::string::npos)
        << r2cclGetLastError(nullptr);
    if (request != nullptr) {
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclInvalidUsage);
    }
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

// Rank 2 leaves while the others wait for it in an operation.
TEST(Finalize, ThatComesTooEarlyIsTheMistakeOfTheRankThatLeaves) {
  for (const auto leave : {r2cclCommFinalize, r2cclCommDestroy}) {
    Job job(3);
    const RankBody body = [&](Comm& comm) {
      Buffer data(kMessage, Values{});
      if (comm.rank() != 2) {
        const r2cclResult_t reduced = r2cclAllReduce(data.data(), data.data(), kMessage, r2cclInt32,
                                                     r2cclSum, comm.handle(), nullptr);
        EXPECT_EQ(reduced, r2cclRemoteError) << r2cclGetLastError(nullptr);
        EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 2 ", 0), 0U);
        return check(comm.destroy(), "destroy");
      }
      const bool destroys = leave == r2cclCommDestroy;
      EXPECT_EQ(destroys ? comm.destroy() : leave(comm.handle()), r2cclInvalidUsage);
      const std::string told = r2cclGetLastError(nullptr);
      EXPECT_NE(told.find("still waits for it"), std::string::npos) << told;
      if (!destroys) check(comm.destroy(), "destroy");
    };
    job.run({body});
  }
}

TEST(Finalize, FailsOnBothEndsOfALargeSendThatIsNeverReceived) {
  Job job(2);
  const RankBody body = [](Comm& comm) {
    Buffer data(comm.rank() == 0 ? kHuge : 0, Values{});
    r2cclRequest_t request = nullptr;
    if (comm.rank() == 0) {
      check(r2cclSend(data.data(), kHuge, r2cclInt32, 1, comm.handle(), &request), "send");
    }
    EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage) << r2cclGetLastError(nullptr);
    EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 1 ", 0), 0U);
    if (request != nullptr) {
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclRemoteError);
    }
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

// Posts a Recv, tagged or not, that the other of two ranks never meets.
r2cclRequest_t receive_in_vain(Comm& comm, Buffer& data, bool tagged) {
  const int other = 1 - comm.rank();
  r2cclRequest_t request = nullptr;
  check(tagged ? r2cclRecvTagged(data.data(), 10, r2cclInt32, other, 7, nullptr, comm.handle(),
                                 &request)
               : r2cclRecv(data.data(), 10, r2cclInt32, other, comm.handle(), &request),
        "receive");
  return request;
}

void expect_both_named(const std::string& call) {
  const std::string told = r2cclGetLastError(nullptr);
  for (const std::string& word : {std::string("rank 0 "), std::string("rank 1 "), call}) {
    EXPECT_NE(told.find(word), std::string::npos) << told;
  }
}

constexpr auto kSoon = std::chrono::seconds(60);  // it takes little more than one second

TEST(Finalize, OfTwoRanksThatReceiveFromEachOtherEndsWithBothCallsInWords) {
  for (const bool tagged : {false, true}) {
    Job job(2);
    const RankBody body = [tagged](Comm& comm) {
      Buffer data(10);
      r2cclRequest_t request = receive_in_vain(comm, data, tagged);
      const Clock::time_point start = Clock::now();
      EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage);
      EXPECT_LT(Clock::now() - start, kSoon);
      expect_both_named(tagged ? "RecvTagged 1 (tag 7)" : "Recv 1 ");
      EXPECT_NE(r2cclRequestWait(&request, kPatienceMs), r2cclSuccess);
      check(comm.destroy(), "destroy");
    };
    job.run({body});
  }
}

TEST(Finalize, WithAnOpenRecvEndsTheRecvOfARankThatWaitsForIt) {
  for (const bool tagged : {false, true}) {
    Job job(2);
    const RankBody body = [tagged](Comm& comm) {
      Buffer data(10);
      r2cclRequest_t request = receive_in_vain(comm, data, tagged);
      const Clock::time_point start = Clock::now();
      if (comm.rank() == 0) {
        EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclInvalidUsage);
      }
      EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclInvalidUsage);
      EXPECT_LT(Clock::now() - start, kSoon);
      expect_both_named(tagged ? "RecvTagged 1 (tag 7)" : "Recv 1 ");
      check(comm.destroy(), "destroy");
    };
    job.run({body});
  }
}

// Calls that match and take long are no reason for an error: no rank counts one that has not begun.
TEST(Finalize, WaitsForLongCallsThatMatch) {
  Job job(2);
  for (int index = 0; index < kNics; ++index) job.fault(nic(0, index), kSlow);
  const RankBody body = [](Comm& comm) {
    constexpr size_t kLong = 400'000;  // for some seconds in all, at the rate of the slow NICs
    std::vector<Buffer> targets;
    std::vector<r2cclRequest_t> requests(4);
    std::vector<Buffer> sources;
    for (size_t i = 0; i < requests.size(); ++i) {
      sources.emplace_back(kLong, Values{comm.rank(), comm.rank(), static_cast<uint32_t>(i)});
      targets.emplace_back(kLong);
      check(r2cclAllReduce(sources[i].data(), targets[i].data(), kLong, r2cclInt32, r2cclSum,
                           comm.handle(), &requests[i]),
            "all_reduce");
    }
    check(r2cclCommFinalize(comm.handle()), "finalize");
    for (size_t i = 0; i < requests.size(); ++i) {
      check(r2cclRequestWait(&requests[i], 0), "wait");
      targets[i].expect({0, 1, static_cast<uint32_t>(i)}, "AllReduce " + std::to_string(i));
    }
    check(comm.destroy(), "destroy");
  };
  const Clock::time_point start = Clock::now();
  job.run({body});
  EXPECT_GT(Clock::now() - start, std::chrono::seconds(2)) << "else this test proves nothing";
}

// Rank 2 learns of the failure late, after rank 1, which learned at once, has begun to leave. No
// rank may take a rank that leaves for the cause.
TEST(Destroy, AfterAFailureLeavesNoRankWithAnotherCause) {
  Job job(3);
  std::atomic<bool> late{false};
  const RankBody body = [&](Comm& comm) {
    Buffer data(kMessage, Values{});
    const auto reduce = [&] {
      return r2cclAllReduce(data.data(), data.data(), kMessage, r2cclInt32, r2cclSum, comm.handle(),
                            nullptr);
    };
    if (comm.rank() == 0) {
      job.wait_for("delay", [&] { return late.load(); });
      const r2cclResult_t refused = r2cclAllReduce(data.data(), data.data(), size_t{1} << 42,
                                                   r2cclInt32, r2cclSum, comm.handle(), nullptr);
      EXPECT_EQ(refused, r2cclInvalidArgument) << r2cclGetLastError(nullptr);
    } else {
      EXPECT_EQ(reduce(), r2cclRemoteError) << "rank " << comm.rank();
      const std::string told = r2cclGetLastError(nullptr);
      EXPECT_EQ(told.rfind("rank 0 ", 0), 0U) << told;
      EXPECT_NE(told.find("of 17592186044416 bytes"), std::string::npos) << told;
    }
    const Clock::time_point start = Clock::now();
    check(comm.destroy(), "destroy");
    EXPECT_LT(Clock::now() - start, kAtOnce);
  };
  job.run({body}, [&] {
    for (int index = 0; index < kNics; ++index) job.fault(nic(2, index), "delay 400");
    // The time until the library reads the fault file is some 10 ms.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    late = true;
  });
}

TEST(Finalize, ReportsARankThatFailedBeforeItReceivedASend) {
  Job job(2);
  std::atomic<bool> sent{false};
  const RankBody body = [&](Comm& comm) {
    if (comm.rank() == 0) {
      send_all(comm);
      sent = true;
      const Clock::time_point start = Clock::now();
      EXPECT_EQ(r2cclCommFinalize(comm.handle()), r2cclRemoteError);
      EXPECT_LT(Clock::now() - start, kAtOnce);
      EXPECT_EQ(std::string(r2cclGetLastError(nullptr)).rfind("rank 1 ", 0), 0U)
          << r2cclGetLastError(nullptr);
    } else {
      job.wait_for("sends", [&] { return sent.load(); });
      let_others_run(comm);
      check(r2cclCommAbort(comm.handle()), "abort");
    }
    check(comm.destroy(), "destroy");
  };
  job.run({body});
}

}  // namespace
}  // namespace job
