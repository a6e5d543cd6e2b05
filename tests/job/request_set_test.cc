// Waiting for several requests at once, and for the descriptor of a communicator.
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

using Clock = std::chrono::steady_clock;
using Requests = std::vector<r2cclRequest_t>;

constexpr size_t kCount = 1000;

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

int size_of(const Requests& requests) {
  return static_cast<int>(requests.size());
}

r2cclResult_t wait_all(Requests& requests, int64_t timeout_ms = kPatienceMs) {
  return r2cclRequestWaitAll(size_of(requests), requests.data(), timeout_ms);
}

void receive(Comm& comm, int peer, Buffer& target, r2cclRequest_t* request) {
  check(r2cclRecv(target.data(), kCount, r2cclInt32, peer, comm.handle(), request), "receive");
}

void send(Comm& comm, int peer, uint32_t tag) {
  Operation::send(comm, tag, kCount, peer).finish();
}

bool all_null(const Requests& requests) {
  return requests == Requests(requests.size(), nullptr);
}

TEST(WaitAll, TakesRequestsOfSeveralCommunicators) {
  Job job(2);
  std::atomic<bool> done{false};
  const RankBody body = [&](Comm& comm) {
    if (comm.rank() == 1) send(comm, 0, 1);
    job.wait_for("the end", [&] { return done.load(); });
    check(comm.destroy(), "destroy");
  };
  job.run({body, body}, [&] {
    Buffer first(kCount);
    Buffer second(kCount);
    Requests requests(4, nullptr);
    receive(job.comm(0, 0), 1, first, &requests[1]);
    receive(job.comm(0, 1), 1, second, &requests[2]);
    check(wait_all(requests, -1), "wait");
    EXPECT_TRUE(all_null(requests));
    first.expect({1, 1, 1}, "the first communicator's");
    second.expect({1, 1, 1}, "the second communicator's");
    check(wait_all(requests, 0), "wait for an array of NULLs");
    done = true;
  });
}

TEST(WaitAll, LeavesAllRequestsAsTheyWereWhenTheTimeIsOver) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int peer = 1 - comm.rank();
    Buffer first(kCount);
    Buffer second(kCount);
    Requests requests(3, nullptr);
    receive(comm, peer, first, &requests[0]);
    receive(comm, peer, second, &requests[2]);
    send(comm, peer, 1);
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    const Requests before = requests;
    EXPECT_EQ(wait_all(requests, 500), r2cclTimeout);
    EXPECT_EQ(requests, before);
    EXPECT_TRUE(said("2 of 3 complete after 500 ms; request 2 is not"))
        << r2cclGetLastError(nullptr);
    EXPECT_EQ(wait_all(requests, 0), r2cclTimeout);
    int done = 1;
    EXPECT_EQ(r2cclRequestTestAll(size_of(requests), requests.data(), &done), r2cclSuccess);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(requests, before);
    // No rank sends before both have seen the time pass.
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    send(comm, peer, 2);
    check(wait_all(requests), "wait");
    EXPECT_TRUE(all_null(requests));
    second.expect({peer, peer, 2}, "the second receive");
    check(comm.destroy(), "destroy");
  }});
}

// The other ranks are asked during the wait, so the text says which rank is to blame.
TEST(WaitAll, NamesTheRankThatALongWaitIsFor) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int peer = 1 - comm.rank();
    Buffer target(kCount);
    Requests requests(2, nullptr);
    receive(comm, peer, target, &requests[1]);
    EXPECT_EQ(wait_all(requests, 3000), r2cclTimeout);
    EXPECT_TRUE(said("waiting for rank " + std::to_string(peer))) << r2cclGetLastError(nullptr);
    // A request that no thread has waited for yet.
    Buffer other(kCount);
    Requests others(2, nullptr);
    receive(comm, peer, other, &others[1]);
    int index = 0;
    EXPECT_EQ(r2cclRequestWaitAny(2, others.data(), &index, 3000), r2cclTimeout);
    EXPECT_TRUE(said("waiting for rank " + std::to_string(peer))) << r2cclGetLastError(nullptr);
    EXPECT_EQ(index, -1);
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    send(comm, peer, 1);
    send(comm, peer, 2);
    check(wait_all(requests), "wait");
    check(wait_all(others), "wait");
    check(comm.destroy(), "destroy");
  }});
}

// Rank 1 of three communicators: aborts, does its part, and makes a call that does not match.
TEST(WaitAll, ReportsEachErrorWithItsRequests) {
  Job job(2);
  std::atomic<bool> posted{false};
  std::atomic<bool> done{false};
  const auto body = [&](const std::function<void(Comm&)>& of_rank_1) {
    return [&, of_rank_1](Comm& comm) {
      if (comm.rank() == 1) {
        job.wait_for("the receives", [&] { return posted.load(); });
        of_rank_1(comm);
      }
      job.wait_for("the end", [&] { return done.load(); });
      (void)comm.destroy();  // not every rank has heard of the mismatch before it finalizes
    };
  };
  const auto aborts = [](Comm& comm) { comm.abort(); };
  const auto sends = [](Comm& comm) { send(comm, 0, 1); };
  const auto differs = [](Comm& comm) {
    Buffer other(kCount - 1, Values{});
    (void)r2cclSend(other.data(), kCount - 1, r2cclInt32, 0, comm.handle(), nullptr);
  };
  job.run({body(aborts), body(sends), body(differs)}, [&] {
    std::vector<Buffer> targets;
    Requests requests(5, nullptr);
    const std::array<size_t, 5> communicator = {1, 0, 0, 2, 0};
    for (size_t i = 0; i < requests.size(); ++i) {
      targets.emplace_back(kCount);
      receive(job.comm(0, communicator[i]), 1, targets.back(), &requests[i]);
    }
    posted = true;
    EXPECT_EQ(wait_all(requests), r2cclRemoteError);
    EXPECT_TRUE(all_null(requests));
    targets[0].expect({1, 1, 1}, "the one that ended well");
    const std::string text = r2cclGetLastError(nullptr);
    EXPECT_EQ(text.rfind("r2cclRequestWaitAll: requests 1, 2, 4: rank 1 ", 0), 0U) << text;
    EXPECT_NE(text.find("aborted"), std::string::npos) << text;
    EXPECT_NE(text.find("; request 3: the Send of rank 1"), std::string::npos) << text;
    done = true;
  });
}

TEST(WaitAny, ReturnsTheOneThatIsComplete) {
  Job job(3);
  job.run({[](Comm& comm) {
    if (comm.rank() != 0) {
      // Rank 1 sends after rank 0 has rank 2's message.
      if (comm.rank() == 1) check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      send(comm, 0, 1);
      if (comm.rank() == 2) check(r2cclBarrier(comm.handle(), nullptr), "barrier");
      return check(comm.destroy(), "destroy");
    }
    Buffer first(kCount);
    Buffer second(kCount);
    Requests requests(3, nullptr);
    receive(comm, 1, first, &requests[1]);
    receive(comm, 2, second, &requests[2]);
    int index = 7;
    check(r2cclRequestWaitAny(3, requests.data(), &index, kPatienceMs), "wait");
    EXPECT_EQ(index, 2);
    EXPECT_EQ(requests[2], nullptr);
    second.expect({2, 2, 1}, "the receive from rank 2");
    EXPECT_EQ(r2cclRequestWaitAny(3, requests.data(), &index, 50), r2cclTimeout);
    EXPECT_EQ(index, -1);
    EXPECT_NE(requests[1], nullptr);
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    check(r2cclRequestWaitAny(3, requests.data(), &index, -1), "wait");
    EXPECT_EQ(index, 1);
    first.expect({1, 1, 1}, "the receive from rank 1");
    check(r2cclRequestWaitAny(3, requests.data(), &index, -1), "wait for an array of NULLs");
    EXPECT_EQ(index, -1);
    check(comm.destroy(), "destroy");
  }});
}

// Each rank of this process has NICs of its own, and so a driver of its own. The calling thread
// drives rank 0, where nothing happens.
TEST(WaitAny, EndsWithARequestThatAnotherDriverCompletes) {
  Job job(2);
  std::atomic<bool> waiting{false};
  std::atomic<bool> done{false};
  const RankBody body = [&](Comm& comm) {
    const int peer = 1 - comm.rank();
    if (comm.rank() == 0) {
      job.wait_for("the wait", [&] { return waiting.load(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      send(comm, peer, 1);
    }
    job.wait_for("the end", [&] { return done.load(); });
    if (comm.rank() == 1) send(comm, peer, 2);
    check(comm.destroy(), "destroy");
  };
  Buffer never(kCount);
  Buffer target(kCount);
  Requests requests(2, nullptr);
  job.run({body}, [&] {
    receive(job.comm(0), 1, never, &requests[0]);
    receive(job.comm(1), 0, target, &requests[1]);
    waiting = true;
    int index = -1;
    check(r2cclRequestWaitAny(2, requests.data(), &index, kPatienceMs), "wait");
    EXPECT_EQ(index, 1);
    target.expect({0, 0, 1}, "the receive of rank 1");
    done = true;
    check(wait_all(requests), "wait");
    never.expect({1, 1, 2}, "the receive of rank 0");
  });
}

TEST(RequestSet, RefusesWrongArguments) {
  std::array<r2cclRequest_t, 1> requests{};
  int out = 0;
  EXPECT_EQ(r2cclRequestWaitAll(-1, requests.data(), -1), r2cclInvalidArgument);
  EXPECT_TRUE(said("count is -1")) << r2cclGetLastError(nullptr);
  EXPECT_EQ(r2cclRequestWaitAll(1, nullptr, -1), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestWaitAll(1, requests.data(), -2), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestWaitAll(0, nullptr, 0), r2cclSuccess);
  EXPECT_EQ(r2cclRequestWaitAny(-1, requests.data(), &out, -1), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestWaitAny(1, nullptr, &out, -1), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestWaitAny(1, requests.data(), nullptr, -1), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestWaitAny(1, requests.data(), &out, -2), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestWaitAny(0, nullptr, &out, -1), r2cclSuccess);
  EXPECT_EQ(out, -1);
  EXPECT_EQ(r2cclRequestTestAll(-1, requests.data(), &out), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestTestAll(1, nullptr, &out), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestTestAll(1, requests.data(), nullptr), r2cclInvalidArgument);
  EXPECT_EQ(r2cclRequestTestAll(0, nullptr, &out), r2cclSuccess);
  EXPECT_EQ(out, 1);
}

TEST(RequestSet, RefusesARequestThatIsInItTwice) {
  Job job(2);
  job.run({[](Comm& comm) {
    Requests requests(2, nullptr);
    Buffer data(kCount, {comm.rank(), comm.rank(), 1});
    check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum, comm.handle(),
                         requests.data()),
          "start");
    requests[1] = requests[0];
    EXPECT_EQ(wait_all(requests), r2cclInvalidArgument);
    EXPECT_TRUE(said("request 1: ")) << r2cclGetLastError(nullptr);
    EXPECT_TRUE(all_null(requests));
    check(comm.destroy(), "destroy");
  }});
}

// A sanitizer has an allocator of its own. The calls here would then be the first ones of glibc's,
// in two threads at once, and glibc aborts when both end: its first call must not have a race.
size_t heap_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  return mallinfo2().uordblks;
#endif
}

// Starts `count` receives and as many sends, and waits for all. Returns the seconds of it.
double exchange(Comm& comm, int count, size_t* bytes_each) {
  const int peer = 1 - comm.rank();
  const auto total = static_cast<size_t>(count);
  std::vector<int32_t> sources(total);
  std::vector<int32_t> targets(total, -1);
  for (size_t i = 0; i < total; ++i) sources[i] = static_cast<int32_t>(i) * 2 + comm.rank();
  Requests requests(2 * total, nullptr);
  const size_t before = heap_bytes();
  const auto begin = Clock::now();
  for (size_t i = 0; i < total; ++i) {
    check(r2cclRecv(&targets[i], 1, r2cclInt32, peer, comm.handle(), &requests[2 * i]), "receive");
  }
  // The other rank's requests are in the same process.
  *bytes_each = (heap_bytes() - before) / (2 * total);
  check(r2cclBarrier(comm.handle(), nullptr), "barrier");
  for (size_t i = 0; i < total; ++i) {
    check(r2cclSend(&sources[i], 1, r2cclInt32, peer, comm.handle(), &requests[2 * i + 1]), "send");
  }
  check(wait_all(requests), "wait");
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!all_null(requests)) throw Broken("a request is left");
  for (size_t i = 0; i < total; ++i) {
    if (targets[i] == static_cast<int32_t>(i) * 2 + peer) continue;
    throw Broken("message " + std::to_string(i) + " has " + std::to_string(targets[i]));
  }
  return seconds;
}

TEST(RequestSet, HoldsAHundredThousandRequestsInLinearTimeAndMemory) {
  static constexpr int kFew = 5'000;
  static constexpr int kMany = 100'000;
  Job job(2);
  job.run({[](Comm& comm) {
    size_t each_of_few = 0;
    size_t each_of_many = 0;
    (void)exchange(comm, kFew, &each_of_few);  // the first time all memory is new
    const double few = exchange(comm, kFew, &each_of_few);
    const double many = exchange(comm, kMany, &each_of_many);
    // 20 times as many: quadratic would be 400.
    EXPECT_LT(many, 80 * few + 5) << "seconds for " << kMany << "; " << few << " for " << kFew;
    EXPECT_LT(each_of_many, 2000U) << "bytes";
    testing::Test::RecordProperty("seconds", std::to_string(many));
    testing::Test::RecordProperty("bytes", std::to_string(each_of_many));
    check(comm.destroy(), "destroy");
  }});
}

// --- the descriptor -----------------------------------------------------------------------------

bool readable(int fd, int timeout_ms) {
  pollfd waited{fd, POLLIN, 0};
  return poll(&waited, 1, timeout_ms) == 1 && (waited.revents & POLLIN) != 0;
}

uint64_t drain(int fd) {
  uint64_t events = 0;
  return read(fd, &events, sizeof events) == sizeof events ? events : 0;
}

int descriptor_of(const Comm& comm) {
  int fd = -1;
  check(r2cclCommGetFd(comm.handle(), &fd), "descriptor");
  return fd;
}

TEST(Descriptor, IsReadableFromACompletionUntilItIsRead) {
  Job job(2);
  job.run({[](Comm& comm) {
    const int fd = descriptor_of(comm);
    EXPECT_EQ(descriptor_of(comm), fd);
    EXPECT_TRUE(readable(fd, 0)) << "the first time";
    EXPECT_EQ(drain(fd), 1U);
    EXPECT_FALSE(readable(fd, 0));
    EXPECT_EQ(drain(fd), 0U) << "a read does not block";
    const int peer = 1 - comm.rank();
    Buffer target(kCount);
    r2cclRequest_t request = nullptr;
    receive(comm, peer, target, &request);
    EXPECT_FALSE(readable(fd, 50)) << "nothing has completed";
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    EXPECT_GT(drain(fd), 0U) << "a blocking call counts";
    send(comm, peer, 1);
    // The receive may be complete long before or after the send. No thread is in the library
    // meanwhile.
    int done = 0;
    check(r2cclRequestTest(&request, &done), "test");
    while (done == 0 && readable(fd, static_cast<int>(kPatienceMs))) {
      EXPECT_GT(drain(fd), 0U);
      check(r2cclRequestTest(&request, &done), "test");
    }
    EXPECT_EQ(done, 1);
    target.expect({peer, peer, 1}, "the receive");
    check(comm.destroy(), "destroy");
  }});
}

TEST(Descriptor, IsReadableWhenTheCommunicatorFails) {
  Job job(2);
  std::atomic<bool> drained{false};
  job.run({[&](Comm& comm) {
    if (comm.rank() == 0) {
      job.wait_for("the descriptor", [&] { return drained.load(); });
      comm.abort();
    } else {
      const int fd = descriptor_of(comm);
      EXPECT_EQ(drain(fd), 1U);
      drained = true;
      EXPECT_TRUE(readable(fd, static_cast<int>(kPatienceMs)));
      EXPECT_EQ(comm.async_error(), r2cclRemoteError);
    }
    check(comm.destroy(), "destroy");
  }});
}

TEST(Descriptor, NeedsAPlaceForItsNumber) {
  Job job(2);
  job.run({[](Comm& comm) {
    EXPECT_EQ(r2cclCommGetFd(comm.handle(), nullptr), r2cclInvalidArgument);
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
