// The rendezvous in a thread of its own, over the loopback interface in real time.
#include "runtime/bootstrap/rendezvous_thread.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/bootstrap/rendezvous_parts.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/secure_random.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

TEST(RendezvousThread, ServesRanksThatBlockInTheirOwnThreads) {
  const SystemClock clock;
  const JobIdentity job = make_job_identity();
  auto server = RendezvousThread::start(TcpTransport::open({}).value(), {loopback()},
                                        {job, random_nonce, kNever}, clock);
  ASSERT_TRUE(server.ok()) << server.status().message();
  constexpr int32_t kRanks = 4;
  std::vector<size_t> seen(kRanks);
  std::vector<std::thread> ranks;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto transport = TcpTransport::open({}).value();
      RendezvousClient::Options options;
      options.job = job;
      options.endpoints = server.value()->endpoints();
      options.info = info_of(rank);
      options.rank_count = kRanks;
      options.timeout_ns = 100 * kSecond;
      options.nonce = random_nonce;
      Reactor reactor(transport->poller());
      const auto rank_table = run_rendezvous(*transport, reactor, clock, options);
      if (rank_table.ok()) seen[static_cast<size_t>(rank)] = rank_table.value().rank_table.size();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(seen, std::vector<size_t>(kRanks, kRanks));
  EXPECT_TRUE(server.value()->wait_answered(20 * kSecond));
  EXPECT_TRUE(server.value()->finished());
}

TEST(RunRendezvous, GivesUpWhenTheWaitIsInVain) {
  const SystemClock clock;
  const auto transport = TcpTransport::open({}).value();
  RendezvousClient::Options options;
  options.job = make_job_identity();
  options.endpoints = {loopback()};  // nothing listens there
  options.info = info_of(0);
  options.rank_count = 2;
  options.timeout_ns = 100 * kSecond;
  options.nonce = random_nonce;
  Reactor reactor(transport->poller());
  int questions = 0;
  const auto in_vain = [&questions] {
    return ++questions < 3 ? Status() : Status(Code::remote, "rank 1 died");
  };
  const TimeNs begin = clock.now();
  const auto met = run_rendezvous(*transport, reactor, clock, options, nullptr, in_vain);
  EXPECT_EQ(met.status(), Status(Code::remote, "rank 1 died"));
  EXPECT_LT(clock.now() - begin, options.timeout_ns / 2);
}

// The server goes on serving later ranks, so it has not finished.
TEST(RendezvousThread, KnowsWhenAllHaveHeardThatTheJobCannotStart) {
  const SystemClock clock;
  const JobIdentity job = make_job_identity();
  auto server = RendezvousThread::start(TcpTransport::open({}).value(), {loopback()},
                                        {job, random_nonce, kNever}, clock);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_FALSE(server.value()->wait_answered(0));
  const auto transport = TcpTransport::open({}).value();
  RendezvousClient::Options options;
  options.job = job;
  options.endpoints = server.value()->endpoints();
  options.info = info_of(0);
  options.rank_count = 2;
  options.timeout_ns = 300 * kMillisecond;
  options.nonce = random_nonce;
  Reactor reactor(transport->poller());
  const auto rank_table = run_rendezvous(*transport, reactor, clock, options);
  EXPECT_EQ(rank_table.status().code(), Code::timeout);
  EXPECT_TRUE(server.value()->wait_answered(20 * kSecond));
  EXPECT_FALSE(server.value()->finished());
}

TEST(RendezvousThread, EndsAtOnceWhenNoRankEverArrived) {
  const SystemClock clock;
  const TimeNs start = clock.now();
  {
    const auto server = RendezvousThread::start(TcpTransport::open({}).value(), {loopback()},
                                                {make_job_identity(), random_nonce, kNever}, clock);
    ASSERT_TRUE(server.ok());
    EXPECT_FALSE(server.value()->finished());
  }
  EXPECT_LT(clock.now() - start, 60 * kSecond);
}

TEST(RendezvousThread, SaysThatThePortIsTaken) {
  const SystemClock clock;
  const RendezvousServer::Options options{make_job_identity(), random_nonce, kNever};
  const auto first =
      RendezvousThread::start(TcpTransport::open({}).value(), {loopback()}, options, clock);
  ASSERT_TRUE(first.ok());
  const auto second = RendezvousThread::start(TcpTransport::open({}).value(),
                                              first.value()->endpoints(), options, clock);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(mentions(second.status(), "cannot open the rendezvous at 127.0.0.1:"));
}

TEST(RendezvousAddresses, PrefersUsableNicsAndFallsBackToLoopback) {
  Nic nic;
  nic.name = "nic0";
  Address link_local;
  link_local.family = AddressFamily::ipv4;
  link_local.bytes = {169, 254, 0, 1};
  nic.addresses = {link_local, loopback().address};
  EXPECT_EQ(rendezvous_addresses(std::vector<Nic>{nic}, 3).size(), 1u);
  nic.usable = true;
  nic.addresses[1].bytes[0] = 10;
  const auto chosen = rendezvous_addresses(std::vector<Nic>{nic, nic, nic, nic}, 3);
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_EQ(chosen[0].address, nic.addresses[1]);
}

}  // namespace
}  // namespace r2ccl
