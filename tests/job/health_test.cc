// Paths and verdicts as structs, and the callback for verdicts.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr size_t kLarge = 60 * 1003;
constexpr int kRoundsMore = 20;

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

void reduce(Comm& comm, Rounds& rounds) {
  for (int round = 0; rounds.enter(round); ++round) {
    Operation::all_reduce(comm, static_cast<uint32_t>(round), kLarge).finish();
  }
  check(comm.destroy(), "destroy");
}

std::vector<r2cclPathInfo_t> paths_of(const Comm& comm) {
  size_t count = 0;
  check(r2cclCommGetPaths(comm.handle(), nullptr, &count), "number of paths");
  std::vector<r2cclPathInfo_t> paths(count);
  paths[0].size = sizeof paths[0];
  check(r2cclCommGetPaths(comm.handle(), paths.data(), &count), "paths");
  EXPECT_EQ(count, paths.size());
  return paths;
}

std::vector<r2cclVerdict_t> verdicts_of(const Comm& comm) {
  size_t count = 64;  // more than a test causes
  std::vector<r2cclVerdict_t> verdicts(count);
  verdicts[0].size = sizeof verdicts[0];
  check(r2cclCommGetVerdicts(comm.handle(), verdicts.data(), &count), "verdicts");
  verdicts.resize(count);
  return verdicts;
}

// Takes the verdicts of one communicator, and can be slow.
class Listener {
 public:
  static void call(r2cclComm_t comm, const r2cclVerdict_t* verdict, void* user) {
    auto& self = *static_cast<Listener*>(user);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    std::unique_lock lock(self.mutex_);
    self.signals_blocked_ = sigismember(&blocked, SIGTERM) == 1;
    self.comm_ = comm;
    self.heard_.push_back(*verdict);
    self.running_ = true;
    self.changed_.wait(lock, [&] { return !self.slow_; });
    self.running_ = false;
  }

  std::vector<r2cclVerdict_t> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  r2cclComm_t comm() const {
    const std::lock_guard lock(mutex_);
    return comm_;
  }
  bool signals_blocked() const {
    const std::lock_guard lock(mutex_);
    return signals_blocked_;
  }
  bool running() const {
    const std::lock_guard lock(mutex_);
    return running_;
  }
  void set_slow(bool slow) {
    const std::lock_guard lock(mutex_);
    slow_ = slow;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<r2cclVerdict_t> heard_;
  r2cclComm_t comm_ = nullptr;
  bool slow_ = false;
  bool running_ = false;
  bool signals_blocked_ = false;
};

// Returns the verdict about the NIC; number SIZE_MAX if there is none.
r2cclVerdict_t about(const std::vector<r2cclVerdict_t>& verdicts, const std::string& at) {
  for (const r2cclVerdict_t& each : verdicts) {
    if (std::string(each.nic).ends_with("@" + at)) return each;
  }
  r2cclVerdict_t none{};
  none.number = SIZE_MAX;
  return none;
}

bool path_is(const Comm& comm, const std::string& at, r2cclPathState_t state) {
  const auto paths = paths_of(comm);
  return std::ranges::all_of(paths, [&](const r2cclPathInfo_t& path) {
    return !std::string(path.nic).ends_with("@" + at) || path.state == state;
  });
}

TEST(Health, ThePathsAreThoseOfTheReport) {
  Job job(kRanks);
  Rounds rounds;
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    const Comm& comm = job.comm(1);
    job.wait_for("traffic on every path", [&] {
      const auto paths = paths_of(comm);
      return std::ranges::all_of(paths, [](const r2cclPathInfo_t& path) {
        return path.state == r2cclPathUp && path.tx_bytes > 0 && path.rx_bytes > 0 &&
               path.round_trip_ns > 0;
      });
    });
    const auto paths = paths_of(comm);
    const Report report = comm.report();
    ASSERT_EQ(paths.size(), report.paths.size());
    ASSERT_EQ(paths.size(), static_cast<size_t>((kRanks - 1) * kNics));
    const auto now = paths_of(comm);
    for (size_t i = 0; i < paths.size(); ++i) {
      const r2cclPathInfo_t& path = paths[i];
      EXPECT_EQ(path.size, sizeof path);
      EXPECT_EQ(path.peer, report.paths[i].peer);
      EXPECT_TRUE(std::string(path.nic).ends_with(report.paths[i].nic)) << path.nic;
      EXPECT_EQ(std::string(path.peer_nic),
                "lo@" + nic(path.peer, path.nic == "lo@" + nic(1, 0) ? 0 : 1));
      EXPECT_EQ(std::string(path.peer_host), "host" + std::to_string(path.peer));
      EXPECT_TRUE(std::string(path.remote).starts_with(std::string(path.peer_nic).substr(3) + ":"))
          << path.remote;
      EXPECT_EQ(path.incarnation, report.paths[i].incarnation);
      EXPECT_LE(path.tx_bytes, report.paths[i].sent);
      EXPECT_GE(now[i].state_ns, path.state_ns);
      EXPECT_EQ(path.downs, 0u);
      EXPECT_EQ(path.drained, 0);
    }
    EXPECT_TRUE(verdicts_of(comm).empty());
    rounds.stop();
  });
}

TEST(Health, TheRateOfABusyPathIsMeasured) {
  Job job(2);
  Rounds rounds;
  // A NIC that is the bottleneck, so that the load shows its rate.
  for (int index = 0; index < kNics; ++index)
    job.fault(nic(0, index), "slow 20000000 queue 100000");
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    job.wait_for("a rate of a path", [&] {
      const auto paths = paths_of(job.comm(0));
      return std::ranges::any_of(paths, [](const auto& path) { return path.rate > 0; });
    });
    for (const auto& path : paths_of(job.comm(0))) EXPECT_GE(path.one_way_excess_ns, -1);
    rounds.stop();
  });
}

TEST(Health, ABrokenNicShowsInItsPathsAndInTheVerdictsOfAllRanks) {
  Job job(kRanks);
  Rounds rounds;
  const std::string at = nic(1, 0);
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    job.wait_for("start", [&] { return path_is(job.comm(1), at, r2cclPathUp); });
    job.fault(at, "down");
    for (int rank = 0; rank < kRanks; ++rank) {
      job.wait_for("the verdict", [&] { return !verdicts_of(job.comm(rank)).empty(); });
      const r2cclVerdict_t verdict = about(verdicts_of(job.comm(rank)), at);
      ASSERT_EQ(verdict.number, 0u) << job.comm(rank).report().text;
      EXPECT_EQ(verdict.size, sizeof verdict);
      EXPECT_EQ(verdict.scope, r2cclScopeNic);
      EXPECT_EQ(std::string(verdict.host), "host1");
      EXPECT_EQ(verdict.process, -1);
      EXPECT_EQ(std::string(verdict.peer_host), "");
      EXPECT_EQ(verdict.loss_ppm, 0u);
      const auto wall = std::chrono::system_clock::now().time_since_epoch();
      const int64_t now = std::chrono::nanoseconds(wall).count();
      EXPECT_LE(verdict.at_ns, now);
      EXPECT_GT(verdict.at_ns, now - 1000 * 1000 * kPatienceMs);
    }
    job.wait_for("end of the paths", [&] { return path_is(job.comm(1), at, r2cclPathDown); });
    job.fault(at, "");
    job.wait_for("return", [&] { return path_is(job.comm(1), at, r2cclPathUp); });
    for (const r2cclPathInfo_t& path : paths_of(job.comm(1))) {
      const bool broken = std::string(path.nic).ends_with("@" + at);
      EXPECT_EQ(path.downs, broken ? 1u : 0u);
      EXPECT_EQ(path.returns, broken ? 1u : 0u);
    }
    rounds.stop();
  });
}

TEST(Health, TheCallbackGetsEachVerdictOnceUntilItIsRemoved) {
  Job job(kRanks);
  Rounds rounds;
  Listener listener;
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    const std::string at = nic(1, 0);
    const std::string other = nic(1, 1);
    const Comm& comm = job.comm(0);
    const auto breaks = [&](const std::string& broken, size_t verdicts) {
      job.wait_for("start", [&] { return path_is(job.comm(1), broken, r2cclPathUp); });
      job.fault(broken, "down");
      job.wait_for("the verdict", [&] { return verdicts_of(comm).size() == verdicts; });
      job.fault(broken, "");
      job.wait_for("return", [&] { return path_is(job.comm(1), broken, r2cclPathUp); });
    };
    breaks(at, 1);
    check(r2cclCommSetVerdictCallback(comm.handle(), Listener::call, &listener), "set");
    breaks(other, 2);
    job.wait_for("the call", [&] { return !listener.heard().empty(); });
    EXPECT_EQ(listener.comm(), comm.handle());
    EXPECT_TRUE(listener.signals_blocked());
    check(r2cclCommSetVerdictCallback(comm.handle(), nullptr, nullptr), "removal");
    breaks(at, 3);
    ASSERT_EQ(listener.heard().size(), 1u) << "neither the first nor the last verdict";
    const r2cclVerdict_t told = listener.heard()[0];
    const r2cclVerdict_t listed = verdicts_of(comm)[1];
    EXPECT_EQ(std::memcmp(&told, &listed, sizeof told), 0);
    EXPECT_EQ(std::string(told.nic), "lo@" + other);
    rounds.stop();
  });
}

TEST(Health, ASlowCallbackDelaysNoOperation) {
  Job job(kRanks);
  Rounds rounds;
  Listener listener;
  listener.set_slow(true);
  const std::string at = nic(1, 0);
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    job.wait_for("start", [&] { return path_is(job.comm(1), at, r2cclPathUp); });
    const r2cclComm_t comm = job.comm(0).handle();
    check(r2cclCommSetVerdictCallback(comm, Listener::call, &listener), "set");
    job.fault(at, "down");
    job.wait_for("the call", [&] { return listener.running(); });
    const int before = rounds.newest();
    job.wait_for("progress meanwhile", [&] { return rounds.newest() >= before + kRoundsMore; });
    EXPECT_TRUE(listener.running());
    std::atomic<bool> removed{false};
    std::thread remover([&] {
      EXPECT_EQ(r2cclCommSetVerdictCallback(comm, nullptr, nullptr), r2cclSuccess);
      removed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(removed) << "the call is under way";
    listener.set_slow(false);
    remover.join();
    EXPECT_FALSE(listener.running());
    rounds.stop();
  });
}

TEST(Health, ACallbackMayAskButNotEndItself) {
  struct Asked {
    std::atomic<int> calls{0};
    r2cclResult_t removed = r2cclSuccess;
    r2cclResult_t destroyed = r2cclSuccess;
    size_t verdicts = 0;
    size_t paths = 0;
  } asked;
  const r2cclVerdictCallback_t ask = [](r2cclComm_t comm, const r2cclVerdict_t*, void* user) {
    auto& to = *static_cast<Asked*>(user);
    to.removed = r2cclCommSetVerdictCallback(comm, nullptr, nullptr);
    to.destroyed = r2cclCommDestroy(comm);
    EXPECT_EQ(r2cclCommGetVerdicts(comm, nullptr, &to.verdicts), r2cclSuccess);
    EXPECT_EQ(r2cclCommGetPaths(comm, nullptr, &to.paths), r2cclSuccess);
    EXPECT_EQ(r2cclCommAbort(comm), r2cclSuccess);
    ++to.calls;
  };
  Job job(kRanks);
  const std::string at = nic(1, 0);
  job.run({[&](Comm& comm) {
            // The abort ends these.
            for (uint32_t round = 0; comm.async_error() == r2cclSuccess; ++round) {
              Buffer buffer(kLarge, Values{});
              (void)r2cclAllReduce(buffer.data(), buffer.data(), kLarge, r2cclInt32, r2cclSum,
                                   comm.handle(), nullptr);
            }
            (void)comm.destroy();
          }},
          [&] {
            job.wait_for("start", [&] { return path_is(job.comm(1), at, r2cclPathUp); });
            check(r2cclCommSetVerdictCallback(job.comm(0).handle(), ask, &asked), "set");
            job.fault(at, "down");
            job.wait_for("the call", [&] { return asked.calls > 0; });
          });
  EXPECT_EQ(asked.removed, r2cclInvalidUsage);
  EXPECT_EQ(asked.destroyed, r2cclInvalidUsage);
  EXPECT_GE(asked.verdicts, 1u);
  EXPECT_EQ(asked.paths, static_cast<size_t>((kRanks - 1) * kNics));
}

TEST(Health, DestroyWaitsForTheCallThatIsUnderWay) {
  Job job(kRanks);
  Rounds rounds;
  Listener listener;
  listener.set_slow(true);
  const std::string at = nic(1, 0);
  std::atomic<bool> destroyed{false};
  const RankBody body = [&](Comm& comm) {
    for (int round = 0; rounds.enter(round); ++round) {
      Operation::all_reduce(comm, static_cast<uint32_t>(round), kLarge).finish();
    }
    check(comm.destroy(), "destroy");
    if (comm.rank() == 0) destroyed = true;
  };
  job.run({body}, [&] {
    job.wait_for("start", [&] { return path_is(job.comm(1), at, r2cclPathUp); });
    check(r2cclCommSetVerdictCallback(job.comm(0).handle(), Listener::call, &listener), "set");
    job.fault(at, "down");
    job.wait_for("the call", [&] { return listener.running(); });
    rounds.stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_FALSE(destroyed);
    listener.set_slow(false);
  });
  EXPECT_TRUE(destroyed);
  EXPECT_FALSE(listener.running());
}

// A struct of a later version of r2ccl.h: its callers have one more field.
struct LaterPath {
  r2cclPathInfo_t known;
  uint64_t later;
};

TEST(Health, StructsOfAnotherSizeAndWrongArgumentsAreHandled) {
  Job job(2);
  job.run({[](Comm& comm) {
    const r2cclComm_t handle = comm.handle();
    size_t count = 1;
    r2cclPathInfo_t path{};
    r2cclVerdict_t verdict{};
    EXPECT_EQ(r2cclCommGetPaths(handle, &path, nullptr), r2cclInvalidArgument);
    EXPECT_TRUE(said("r2cclCommGetPaths: count is NULL")) << r2cclGetLastError(nullptr);
    EXPECT_EQ(r2cclCommGetVerdicts(handle, &verdict, nullptr), r2cclInvalidArgument);
    for (const size_t wrong : {size_t{0}, sizeof path - 8, size_t{1} << 40}) {
      path.size = wrong;
      EXPECT_EQ(r2cclCommGetPaths(handle, &path, &count), r2cclInvalidArgument);
      EXPECT_TRUE(said("paths[0].size is " + std::to_string(wrong))) << r2cclGetLastError(nullptr);
      verdict.size = wrong;
      EXPECT_EQ(r2cclCommGetVerdicts(handle, &verdict, &count), r2cclInvalidArgument);
      EXPECT_TRUE(said("verdicts[0].size is")) << r2cclGetLastError(nullptr);
    }
    EXPECT_EQ(count, 1u) << "a refused call changes nothing";
    // An array that is too short: as many as fit, and the number that there is.
    path.size = sizeof path;
    check(r2cclCommGetPaths(handle, &path, &count), "one path");
    EXPECT_EQ(count, static_cast<size_t>(kNics));
    EXPECT_EQ(std::string(path.nic), "lo@" + nic(comm.rank(), 0));
    count = 0;
    path.size = 0;
    check(r2cclCommGetPaths(handle, &path, &count), "room for none needs no size");
    EXPECT_EQ(count, static_cast<size_t>(kNics));
    std::vector<LaterPath> later(kNics + 1);
    for (LaterPath& each : later) each.later = 7;
    later[0].known.size = sizeof(LaterPath);
    count = later.size();
    check(r2cclCommGetPaths(handle, &later[0].known, &count), "paths of a later version");
    for (int i = 0; i < kNics; ++i) {
      const LaterPath& each = later[static_cast<size_t>(i)];
      EXPECT_EQ(std::string(each.known.nic), "lo@" + nic(comm.rank(), i));
      EXPECT_EQ(each.known.size, sizeof(LaterPath));
      EXPECT_EQ(each.later, 0u) << "not known to this library";
    }
    EXPECT_EQ(later[kNics].later, 7u) << "beyond the last path";
    check(r2cclBarrier(handle, nullptr), "barrier");
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
