// The communicator's own thread, when things go wrong inside it. Whole jobs are in tests/job.
#include "runtime/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>

#include "runtime/bootstrap/rendezvous_thread.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/secure_random.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

constexpr TimeNs kPatience = 60 * kSecond;

// Runs out of memory as often as it is told to.
class StarvingPoller final : public Poller {
 public:
  explicit StarvingPoller(Poller& inner) : inner_(inner) {}
  void starve(int times) {
    times_ = times;
    wake();
  }

  Status add(int poll_id, uint64_t token, bool want_write) override {
    return inner_.add(poll_id, token, want_write);
  }
  void modify(int poll_id, uint64_t token, bool want_write) override {
    inner_.modify(poll_id, token, want_write);
  }
  void remove(int poll_id) override { inner_.remove(poll_id); }
  size_t wait(std::span<PollEvent> events, TimeNs timeout_ns) override {
    const size_t count = inner_.wait(events, timeout_ns);
    if (times_ > 0) {
      --times_;
      throw std::bad_alloc();
    }
    return count;
  }
  void wake() override { inner_.wake(); }

 private:
  Poller& inner_;
  std::atomic<int> times_{0};
};

class StarvingTransport final : public Transport {
 public:
  explicit StarvingTransport(std::unique_ptr<Transport> inner)
      : inner_(std::move(inner)), poller_(inner_->poller()) {}
  StarvingPoller& poller() override { return poller_; }
  Result<std::vector<Nic>> nics() override { return inner_->nics(); }
  int nic_events_poll_id() const override { return inner_->nic_events_poll_id(); }
  bool drain_nic_events() override { return inner_->drain_nic_events(); }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override {
    return inner_->listen(local, device);
  }
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override {
    return inner_->connect(remote, options);
  }

 private:
  std::unique_ptr<Transport> inner_;
  StarvingPoller poller_;
};

std::unique_ptr<Transport> open_tcp(int rank) {
  TcpOptions options;
  options.nic_filter = {.text = "=lo@127.0.1." + std::to_string(rank + 1)};
  return std::move(TcpTransport::open(std::move(options))).value();
}

TEST(Communicator, FailsWhenItsThreadRunsOutOfMemoryAndTheProcessGoesOn) {
  constexpr int kRanks = 2;
  const SystemClock clock;
  const JobIdentity job = make_job_identity();
  const Endpoint anywhere{.address = *parse_address("127.0.0.1"), .port = 0};
  auto meeting = RendezvousThread::start(open_tcp(0), {anywhere}, {job, random_nonce}, clock);
  ASSERT_TRUE(meeting.ok()) << meeting.status().message();
  std::vector<StarvingTransport*> transports;
  std::vector<std::future<Result<std::unique_ptr<Communicator>>>> made;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto transport = std::make_unique<StarvingTransport>(open_tcp(rank));
    transports.push_back(transport.get());
    CommunicatorOptions options;
    options.self = Rank(rank);
    options.rank_count = kRanks;
    options.job = job;
    options.rendezvous = meeting.value()->endpoints();
    options.config.host_id = "host" + std::to_string(rank);
    made.push_back(
        std::async(std::launch::async, [options, given = std::move(transport)]() mutable {
          const std::unique_ptr<Transport> rendezvous = open_tcp(options.self.value());
          return Communicator::create(std::make_shared<ProcessDriver>(std::move(given)),
                                      *rendezvous, options);
        }));
  }
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& each : made) {
    auto communicator = each.get();
    ASSERT_TRUE(communicator.ok()) << communicator.status().message();
    ranks.push_back(std::move(communicator).value());
  }

  // Rank 1 waits for rank 0, which waits for a message that will not come.
  int32_t received = 0;
  const auto waiting = ranks[0]->start(Operation::receive(
      Rank(1), std::as_writable_bytes(std::span(&received, 1)), DataType::int32));
  Operation barrier;
  barrier.key.collective = Collective::barrier;
  const auto waiting_too = ranks[1]->start(std::move(barrier));
  transports[0]->poller().starve(3);
  ASSERT_TRUE(waiting->wait(kPatience));
  ASSERT_TRUE(waiting_too->wait(kPatience));
  EXPECT_EQ(waiting->status().code(), Code::system);
  EXPECT_EQ(waiting_too->status().code(), Code::remote);
  for (const auto& request : {waiting, waiting_too}) {
    const std::string text = request->status().message();
    EXPECT_NE(text.find("rank 0 "), std::string::npos) << text;
    EXPECT_NE(text.find("out of memory"), std::string::npos) << text;
  }
  EXPECT_EQ(ranks[0]->finalize().code(), Code::system);
}

// So is a process that was stopped, or whose machine slept, in the midst of its start.
TEST(Communicator, StartsWhenNothingIsMissingThoughItsTimeIsUp) {
  CommunicatorOptions options;
  options.self = Rank(0);
  options.rank_count = 1;
  options.config.init_timeout_ns = 1;
  const std::unique_ptr<Transport> meeting = open_tcp(0);
  const auto started =
      Communicator::create(std::make_shared<ProcessDriver>(open_tcp(0)), *meeting, options);
  EXPECT_TRUE(started.ok()) << started.status().message();
}

}  // namespace
}  // namespace r2ccl
