// A buffer that a rank cannot access is that rank's error. The error names the call, the buffer and
// the offset; the other ranks' errors name the rank; no verdict names a NIC.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr int kBadRank = 1;
constexpr size_t kBytes = 8 << 20;  // larger than any copied send, and several chunks
constexpr size_t kCount = kBytes / sizeof(int32_t);
constexpr auto kSoon = std::chrono::seconds(20);

// Memory with pages that no process may access.
class TornMemory {
 public:
  TornMemory() : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0)) {
    if (memory_ == MAP_FAILED) throw Broken("no memory");
  }
  ~TornMemory() { munmap(memory_, kBytes); }
  TornMemory(const TornMemory&) = delete;
  TornMemory& operator=(const TornMemory&) = delete;

  void tear(size_t from, size_t bytes) {
    if (mprotect(static_cast<char*>(memory_) + from, bytes, PROT_NONE) != 0)
      throw Broken("no tear");
  }
  void* data() const { return memory_; }

 private:
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory_;
};

// One rank's part of an operation.
using Call = std::function<r2cclResult_t(Comm&, const void* send, void* receive, r2cclRequest_t*)>;

struct Case {
  std::string name;
  Call call;
  bool source = false;    // the bad buffer is the source, not the target
  std::string words;      // text of the error about the call and the buffer
  bool in_place = false;  // the target is also the source
  size_t torn_from = kBytes / 2;
  size_t torn_bytes = kBytes / 2;
};

// Returns the result of the call, for each kind of wait.
r2cclResult_t make_call(const Case& test, Comm& comm, const void* send, void* receive,
                        bool blocking) {
  if (blocking) return test.call(comm, send, receive, nullptr);
  r2cclRequest_t request = nullptr;
  const r2cclResult_t started = test.call(comm, send, receive, &request);
  if (started != r2cclSuccess) {
    EXPECT_EQ(request, nullptr);
    return started;
  }
  return r2cclRequestWait(&request, kPatienceMs);
}

void run_rank(const Case& test, Comm& comm, bool blocking) {
  TornMemory source;
  TornMemory target;
  const bool bad = comm.rank() == kBadRank;
  if (bad) (test.source ? source : target).tear(test.torn_from, test.torn_bytes);
  void* const receive = test.in_place && test.source ? source.data() : target.data();
  void* const send = test.in_place ? receive : source.data();
  const auto before = Clock::now();
  const r2cclResult_t result = make_call(test, comm, send, receive, blocking);
  const std::string text = r2cclGetLastError(nullptr);
  EXPECT_LT(Clock::now() - before, kSoon) << text;
  const std::string offset = "at offset " + std::to_string(test.torn_from);
  EXPECT_EQ(result, bad ? r2cclInvalidArgument : r2cclRemoteError) << text;
  for (const std::string& words : {std::string("rank 1 "), test.words, offset}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in: " << text;
  }
  EXPECT_EQ(comm.async_error(), result);
  EXPECT_EQ(make_call(test, comm, send, receive, blocking), result) << "it has failed for ever";
  const Report report = comm.report();
  EXPECT_NE(report.text.find("\"verdicts\":[]"), std::string::npos) << report.text;
  const auto leaving = Clock::now();
  (void)comm.destroy();
  EXPECT_LT(Clock::now() - leaving, kSoon) << "destroy must not wait";
}

void run_case(const Case& test) {
  for (const bool blocking : {true, false}) {
    SCOPED_TRACE(test.name + (blocking ? ", blocking" : ", with a request"));
    Job job(kRanks);
    job.run({[&](Comm& comm) { run_rank(test, comm, blocking); }});
  }
}

r2cclResult_t all_reduce(Comm& comm, const void* send, void* receive, r2cclRequest_t* request) {
  return r2cclAllReduce(send, receive, kCount, r2cclInt32, r2cclSum, comm.handle(), request);
}

Call broadcast_from(int root) {
  return [root](Comm& comm, const void* send, void* receive, r2cclRequest_t* request) {
    return r2cclBroadcast(send, receive, kCount, r2cclInt32, root, comm.handle(), request);
  };
}

// Sends from `from` to `to`; the third rank waits for the others in a call of its own.
Call send_between(int from, int to) {
  return [from, to](Comm& comm, const void* send, void* receive, r2cclRequest_t* request) {
    if (comm.rank() == from) {
      return r2cclSend(send, kCount, r2cclInt32, to, comm.handle(), request);
    }
    if (comm.rank() == to) {
      return r2cclRecv(receive, kCount, r2cclInt32, from, comm.handle(), request);
    }
    return r2cclBarrier(comm.handle(), request);
  };
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"AllReduce", all_reduce, true, "sendbuff cannot be read"},
      {"AllReduce", all_reduce, false, "recvbuff cannot be written"},
      {"AllReduce in place", all_reduce, false, "recvbuff cannot be written", true},
      {"Broadcast", broadcast_from(kBadRank), true, "sendbuff cannot be read"},
      {"Broadcast", broadcast_from(0), false, "recvbuff cannot be written"},
      {"Send", send_between(kBadRank, 0), true, "Send 1 to rank 0: sendbuff cannot be read"},
      {"Recv", send_between(0, kBadRank), false, "Recv 1 from rank 0: recvbuff cannot be written"},
  };
  return all;
}

TEST(BadMemory, ABufferShorterThanItsCountIsItsRanksError) {
  for (const Case& test : cases()) run_case(test);
}

// The buffer is good at both ends.
TEST(BadMemory, APageThatMayNotBeTouchedIsItsRanksError) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (Case test : cases()) {
    test.torn_from = kBytes / 4 * 3;
    test.torn_bytes = page;
    run_case(test);
  }
}

// The sender takes its buffer's end away after the call has begun, so only the kernel finds the
// error.
TEST(BadMemory, MemoryThatIsTakenAwayIsItsRanksError) {
  std::latch torn(1);
  const auto send = [&](Comm& comm) {
    TornMemory source;
    r2cclRequest_t request = nullptr;
    check(r2cclSend(source.data(), kCount, r2cclInt32, 0, comm.handle(), &request), "Send");
    source.tear(kBytes / 2, kBytes / 2);
    torn.count_down();
    EXPECT_EQ(r2cclRequestWait(&request, kPatienceMs), r2cclInvalidArgument);
  };
  const auto receive = [&](Comm& comm) {
    TornMemory target;
    torn.wait();
    EXPECT_EQ(r2cclRecv(target.data(), kCount, r2cclInt32, 1, comm.handle(), nullptr),
              r2cclRemoteError);
  };
  Job job(2);
  job.run({[&](Comm& comm) {
    comm.rank() == 1 ? send(comm) : receive(comm);
    const std::string text = r2cclGetLastError(nullptr);
    for (const char* words : {"rank 1 ", "Send 1 to rank 0: sendbuff cannot be read at offset "}) {
      EXPECT_NE(text.find(words), std::string::npos) << words << " is not in: " << text;
    }
    EXPECT_NE(comm.report().text.find("\"verdicts\":[]"), std::string::npos);
    (void)comm.destroy();
  }});
}

TEST(BadMemory, MoreElementsThanAnyBufferHasAreItsRanksError) {
  Job job(kRanks);
  job.run({[](Comm& comm) {
    Buffer small(1000, {0, 0, 0});
    Buffer target(1000);
    for (const size_t absurd : {SIZE_MAX, SIZE_MAX / 8, (size_t{1} << 54) + 1}) {
      EXPECT_EQ(r2cclAllReduce(small.data(), target.data(), absurd, r2cclInt32, r2cclSum,
                               comm.handle(), nullptr),
                r2cclInvalidArgument);
      EXPECT_NE(std::string(r2cclGetLastError(nullptr)).find("holds no more than"),
                std::string::npos)
          << r2cclGetLastError(nullptr);
    }
    EXPECT_EQ(comm.async_error(), r2cclSuccess) << "nothing was begun";
    check(comm.destroy(), "destroy");
  }});
}

TEST(BadMemory, ABufferOfMoreThanAnyMemoryIsItsRanksError) {
  Job job(kRanks);
  job.run({[](Comm& comm) {
    Buffer small(1000, {0, 0, 0});
    Buffer target(1000);
    const auto before = Clock::now();
    const size_t huge = size_t{1} << 42;
    const r2cclResult_t result = r2cclAllReduce(small.data(), target.data(), huge, r2cclInt32,
                                                r2cclSum, comm.handle(), nullptr);
    // Each rank finds the error itself, or learns of another rank that was sooner.
    EXPECT_TRUE(result == r2cclInvalidArgument || result == r2cclRemoteError);
    const std::string text = r2cclGetLastError(nullptr);
    EXPECT_NE(text.find("of 17592186044416 bytes"), std::string::npos) << text;
    EXPECT_LT(Clock::now() - before, kSoon);
    (void)comm.destroy();
  }});
}

// All NICs of a host, because its NICs share its memory.
TEST(BadMemory, AShortageOfKernelMemoryBreaksNoPath) {
  Job job(kRanks);
  Rounds rounds;
  job.run({[&](Comm& comm) {
            for (int round = 0; rounds.enter(round); ++round) {
              Operation::all_reduce(comm, static_cast<uint32_t>(round), 60 * 1003).finish();
            }
            const Report report = comm.report();
            EXPECT_NE(report.text.find("\"verdicts\":[]"), std::string::npos) << report.text;
            for (const Report::Path& path : report.paths) {
              EXPECT_EQ(path.incarnation, 1U) << "a path has been down: " << report.text;
            }
            check(comm.destroy(), "destroy");
          }},
          [&] {
            const auto wait_for_rounds = [&] {
              const int enough = rounds.newest() + 3;
              job.wait_for("more rounds", [&] { return rounds.newest() >= enough; });
            };
            for (int time = 0; time < 3; ++time) {
              wait_for_rounds();
              for (int index = 0; index < kNics; ++index) job.fault(nic(0, index), "no-buffers");
              std::this_thread::sleep_for(std::chrono::milliseconds(300));
              for (int index = 0; index < kNics; ++index) job.fault(nic(0, index), "");
            }
            wait_for_rounds();
            rounds.stop();
          });
}

}  // namespace
}  // namespace job
