// The rendezvous: what it gives to the ranks, and what it refuses.
#include "testing/rendezvous_world.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "protocol/wire/handshake_frames.h"
#include "protocol/wire/key_schedule.h"
#include "testing/memory_scan.h"

namespace r2ccl {
namespace {

TEST_F(RendezvousTest, GivesEveryRankTheInfoOfAllRanks) {
  serve();
  constexpr int32_t kRanks = 16;
  for (int32_t rank = kRanks - 1; rank >= 0; --rank) join(rank, kRanks);
  ASSERT_TRUE(run_until([&] { return all(State::done); }, kSecond));
  for (const auto& client : clients_) {
    ASSERT_EQ(client->rank_table().size(), static_cast<size_t>(kRanks));
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(client->rank_table()[static_cast<size_t>(rank)], info_of(rank));
    }
  }
  EXPECT_TRUE(server_->finished());
  EXPECT_EQ(server_->counters(), RendezvousServer::Counters());
}

TEST_F(RendezvousTest, TellsAllRanksWhyOneOfThemCannotTakePart) {
  serve();
  RendezvousClient& early = join(0, 3);
  settle();
  RendezvousClient::Options options = options_of(1, 3);
  options.info.init_error = "no network interface can be used";
  join(std::move(options));
  settle();
  RendezvousClient& late = join(2, 3);
  EXPECT_TRUE(run_until([&] { return all(State::failed); }, kSecond));
  for (const RendezvousClient* client : {&early, &late}) {
    EXPECT_TRUE(mentions(client->error(), "rank 1 (")) << client->error().message();
    EXPECT_TRUE(mentions(client->error(), "cannot take part: no network interface can be used"))
        << client->error().message();
  }
}

TEST_F(RendezvousTest, ServesAJobOfOneRank) {
  serve();
  join(0, 1);
  EXPECT_TRUE(run_until([&] { return all(State::done) && server_->finished(); }, kSecond));
}

TEST_F(RendezvousTest, WorksWithoutASecret) {
  job_ = make_job_identity("a name", {}).value();
  serve();
  join(0, 2);
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
}

TEST_F(RendezvousTest, GivesAllRanksOfARunTheSameKeyAndEveryRunAnother) {
  std::vector<LockedBytes> keys;
  for (int run = 0; run < 2; ++run) {
    clients_.clear();
    server_.reset();
    serve();
    for (int32_t rank = 0; rank < 3; ++rank) join(rank, 3);
    ASSERT_TRUE(run_until([&] { return all(State::done); }, kSecond));
    keys.push_back(clients_[0]->run().key);
    for (const auto& client : clients_) {
      EXPECT_EQ(client->run().key, keys.back());
      EXPECT_EQ(client->run().id, clients_[0]->run().id);
    }
  }
  EXPECT_NE(keys[0], keys[1]);
}

std::vector<MemoryHit> find_in_memory(const LockedBytes& wanted) {
  std::vector<std::byte> inverted;
  // A part of the secret would be a leak as well.
  for (const std::byte byte : wanted.bytes().first(16)) inverted.push_back(~byte);
  return MemoryScan(std::move(inverted)).run();
}

TEST_F(RendezvousTest, KeepsTheSecretAndTheRunsKeyNowhereButInPagesThatAreNeverDumped) {
  const LockedBytes text = generate_secret();
  job_ = make_job_identity("a name", text).value();
  serve();
  join(0, 2);
  join(1, 2);
  ASSERT_TRUE(run_until([&] { return all(State::done); }, kSecond));
  const LockedBytes copy = LockedBytes::copy_of(text.bytes().last(16));
  ASSERT_EQ(find_in_memory(copy).size(), 2u) << "the scan finds both copies";
  const std::array wanted{text, job_.secret, clients_[0]->run().key};
  for (const LockedBytes& each : wanted) {
    const auto hits = find_in_memory(each);
    EXPECT_FALSE(hits.empty());
    for (const MemoryHit& hit : hits) {
      EXPECT_FALSE(hit.in_core_dumps)
          << "copy of secret " << &each - wanted.data() << " at 0x" << std::hex << hit.at;
    }
  }
}

TEST_F(RendezvousTest, WithoutASecretNoRankKeepsItsSlotForLongerThanTheJobWaits) {
  job_ = make_job_identity("a name", {}).value();
  serve();
  RendezvousClient::Options options = options_of(1, 3);
  options.timeout_ns = 24 * 60 * 60 * kSecond;
  RendezvousClient& stranger = join(options);
  const TimeNs start = now_;
  ASSERT_TRUE(run_until([&] { return stranger.state() == State::failed; }, 2 * kTimeout));
  EXPECT_EQ(now_ - start, kTimeout);
}

TEST_F(RendezvousTest, WaitsForAServerThatComesLater) {
  serve();
  server_.reset();
  RendezvousClient& client = join(0, 1);
  EXPECT_FALSE(run_until([&] { return client.state() == State::done; }, 30 * kSecond));
  serve(at_.port);
  EXPECT_TRUE(run_until([&] { return client.state() == State::done; }, kSecond));
}

TEST_F(RendezvousTest, FindsTheServerBehindTheLastOfItsAddresses) {
  serve();
  RendezvousClient::Options options = options_of(0, 1);
  options.endpoints = {loopback(1), loopback(2), at_};
  RendezvousClient& client = join(options);
  EXPECT_TRUE(run_until([&] { return client.state() == State::done; }, kSecond));
}

TEST_F(RendezvousTest, ExplainsTheFailureWhenNoServerListens) {
  at_ = loopback(1);
  RendezvousClient::Options options = options_of(0, 2);
  options.timeout_ns = 12 * kSecond;
  RendezvousClient& client = join(options);
  const TimeNs start = now_;
  ASSERT_TRUE(run_until([&] { return client.state() == State::failed; }));
  EXPECT_EQ(now_ - start, 12 * kSecond);
  EXPECT_EQ(client.error().code(), Code::timeout);
  EXPECT_TRUE(mentions(client.error(), "within 12 s: 127.0.0.1:1")) << client.error().message();
  EXPECT_TRUE(mentions(client.error(), "nothing listens there"));
}

TEST_F(RendezvousTest, NamesTheAddressOfAStrangerOnce) {
  serve();
  RendezvousClient::Options options = options_of(1, 2);
  options.timeout_ns = kSecond;
  options.job.id[5] ^= std::byte{1};
  RendezvousClient& client = join(options);
  ASSERT_TRUE(run_until([&] { return client.state() == State::failed; }));
  const std::string& text = client.error().message();
  const size_t first = text.find(to_string(at_));
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find(to_string(at_), first + 1), std::string::npos) << text;
}

TEST_F(RendezvousTest, TellsAllWaitingRanksWhichOnesAreMissing) {
  serve();
  for (const int32_t rank : {0, 1, 2, 4, 5, 6}) join(rank, 8);
  const TimeNs start = now_;
  ASSERT_TRUE(run_until([&] { return all(State::failed); }));
  EXPECT_EQ(now_ - start, kTimeout);
  for (const auto& client : clients_) {
    EXPECT_EQ(client->error().message(), "ranks 3, 7 of 8 have not arrived within 120 s");
    EXPECT_EQ(client->error().code(), Code::timeout);
  }
  // A late rank gets its answer without waiting.
  RendezvousClient& late = join(3, 8);
  ASSERT_TRUE(run_until([&] { return late.state() == State::failed; }, kSecond));
  EXPECT_TRUE(mentions(late.error(), "the rendezvous is over: ranks 3, 7 of 8"));
  // The port closes in the end.
  EXPECT_TRUE(run_until([&] { return server_->finished(); }, kTimeout));
}

TEST_F(RendezvousTest, ForgetsARankThatLeftBeforeTheOthersCame) {
  serve();
  join(0, 3);
  settle();
  join(1, 3);
  settle();
  clients_.pop_front();
  ASSERT_TRUE(run_until([&] { return all(State::failed); }));
  EXPECT_TRUE(mentions(clients_[0]->error(), "ranks 0, 2 of 3 have not arrived"));
  EXPECT_TRUE(mentions(clients_[0]->error(), "had arrived, but its connection ended"));
  EXPECT_FALSE(mentions(clients_[0]->error(), "rank 2 (")) << "that one never came";
}

TEST_F(RendezvousTest, RefusesAWrongSecretAndGoesOn) {
  serve();
  RendezvousClient::Options options = options_of(1, 2);
  options.job.secret = make_job_identity().secret;
  RendezvousClient& wrong = join(options);
  ASSERT_TRUE(run_until([&] { return wrong.state() == State::failed; }, kTimeout));
  EXPECT_TRUE(mentions(wrong.error(), to_string(at_) + ": ")) << wrong.error().message();
  EXPECT_TRUE(mentions(wrong.error(), "wrong secret")) << wrong.error().message();
  EXPECT_TRUE(mentions(wrong.error(), "has not proved that it belongs to this job"));
  EXPECT_GE(server_->counters().refused, 1u);
  clients_.clear();
  join(0, 2);
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
}

// A stranger who holds the port before rank 0 comes can write any text. Nothing proves it.
TEST_F(RendezvousTest, ARefusalThatProvesNothingKeepsARankFromNoJobThatComesLater) {
  const JobIdentity own = job_;
  job_ = make_job_identity();  // the squatter's
  serve();
  job_ = own;
  RendezvousClient& early = join(1, 2);
  EXPECT_FALSE(run_until([&] { return early.state() == State::failed; }, kTimeout / 2));
  EXPECT_GE(server_->counters().refused, 2u) << "the rank asks again";
  server_.reset();
  serve(at_.port);
  join(0, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond)) << early.error().message();
}

TEST_F(RendezvousTest, ARefusalThatProvesNothingIsSaidToBeThatInTheEnd) {
  serve();
  job_ = make_job_identity();
  RendezvousClient& lost = join(1, 2);
  const TimeNs start = now_;
  ASSERT_TRUE(run_until([&] { return lost.state() == State::failed; }));
  EXPECT_EQ(now_ - start, kTimeout);
  EXPECT_EQ(lost.error().code(), Code::timeout);
  EXPECT_TRUE(mentions(lost.error(), "belongs to another job")) << lost.error().message();
  EXPECT_TRUE(mentions(lost.error(), "has not proved that it belongs to this job"));
}

TEST_F(RendezvousTest, EndsWhenNoRankComes) {
  idle_bound_ = kTimeout;
  serve();
  stranger();
  const TimeNs start = now_;
  ASSERT_TRUE(run_until([&] { return server_->finished(); }));
  EXPECT_EQ(now_ - start, kTimeout);
  EXPECT_EQ(server_->connection_count(), 0u);
}

TEST_F(RendezvousTest, DoesNotEndWhileARankWaitsAndEndsAfterTheLastHasLeft) {
  idle_bound_ = kTimeout / 4;
  serve();
  join(0, 2);
  EXPECT_FALSE(run_until([&] { return server_->finished(); }, kTimeout / 2));
  clients_.clear();
  settle();
  const TimeNs left = now_;
  ASSERT_TRUE(run_until([&] { return server_->finished(); }));
  EXPECT_EQ(now_ - left, idle_bound_);
}

TEST_F(RendezvousTest, MissingRanksAreExplainedByTheConnectionsThatWereRefused) {
  serve();
  join(0, 2);
  RendezvousClient::Options options = options_of(1, 2);
  options.job.secret = make_job_identity().secret;
  join(options);
  ASSERT_TRUE(run_until([&] { return all(State::failed); }));
  EXPECT_TRUE(mentions(clients_[0]->error(), "rank 1 of 2 has not arrived within 120 s"));
  EXPECT_TRUE(mentions(clients_[0]->error(), "wrong secret")) << clients_[0]->error().message();
}

TEST_F(RendezvousTest, RefusesASecondProcessWithTheSameRankAndNamesTheFirst) {
  serve();
  RendezvousClient& first = join(0, 2);
  settle();
  RendezvousClient::Options options = options_of(0, 2);
  options.info.host_name = "elsewhere";
  RendezvousClient& second = join(options);
  ASSERT_TRUE(run_until([&] { return second.state() == State::failed; }, kSecond));
  EXPECT_EQ(second.error().message(),
            "there are two processes with rank 0: rank 0 (host elsewhere, pid 1000) came after "
            "rank 0 (host node0, pid 1000)");
  RendezvousClient& other = join(1, 2);
  ASSERT_TRUE(run_until([&] { return other.state() == State::done; }, kSecond));
  EXPECT_EQ(first.state(), State::done);
  EXPECT_EQ(other.rank_table()[0].host_name, "node0");
}

TEST_F(RendezvousTest, RefusesARankThatCountsTheRanksDifferently) {
  serve();
  join(0, 2);
  settle();
  RendezvousClient& wrong = join(1, 4);
  ASSERT_TRUE(run_until([&] { return wrong.state() == State::failed; }, kSecond));
  EXPECT_EQ(
      wrong.error().message(),
      "rank 1 (host node1, pid 1001) says that there are 4 ranks, and rank 0 (host node0, pid "
      "1000) said 2");
}

TEST_F(RendezvousTest, RefusesARankOutOfRange) {
  serve();
  RendezvousClient& wrong = join(2, 2);
  ASSERT_TRUE(run_until([&] { return wrong.state() == State::failed; }, kSecond));
  EXPECT_TRUE(mentions(wrong.error(), "out of range: there are 2 ranks"));
}

TEST_F(RendezvousTest, ARankThatLostItsConnectionComesBackForTheTable) {
  serve();
  RendezvousClient::Options options = options_of(0, 2);
  // The nonce also makes the attendance: equal bytes make two clients one process.
  options.nonce = [] {
    std::array<std::byte, kNonceBytes> nonce;
    nonce.fill(std::byte{9});
    return nonce;
  };
  join(options);
  settle();
  RendezvousClient& again = join(options);
  settle();
  EXPECT_EQ(again.state(), State::waiting);
  clients_.pop_front();
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
}

// A rank that joins the others when it knows them: they have links already.
RendezvousClient::Options joins(RendezvousClient::Options options, Result<bool> result = true) {
  options.on_met = [result = std::move(result)](const MetJob&) { return result; };
  return options;
}

TEST_F(RendezvousTest, RanksThatJoinEachOtherGoOnOnceAllHave) {
  serve();
  RendezvousClient& first = join(joins(options_of(0, 3)));
  join(joins(options_of(1, 3)));
  // This one comes back when it has met the others, and before it has joined them.
  RendezvousClient::Options slow = options_of(2, 3);
  slow.nonce = [] {
    std::array<std::byte, kNonceBytes> nonce;
    nonce.fill(std::byte{9});
    return nonce;
  };
  const RendezvousClient& slow_client = join(joins(slow, Status(Code::system, "not yet")));
  ASSERT_TRUE(run_until([&] { return slow_client.state() == State::failed; }, kSecond));
  clients_.pop_back();
  settle();
  EXPECT_EQ(first.state(), State::joined);
  join(joins(slow));
  EXPECT_TRUE(run_until([&] { return all(State::done) && server_->finished(); }, kSecond));
}

TEST_F(RendezvousTest, NoRankGoesOnWithOneThatCannotJoin) {
  serve();
  join(joins(options_of(0, 3)));
  join(joins(options_of(2, 3)));
  RendezvousClient& unable =
      join(joins(options_of(1, 3), Status(Code::system, "no memory for this")));
  ASSERT_TRUE(run_until([&] { return unable.state() == State::failed; }, kSecond));
  EXPECT_TRUE(mentions(unable.error(), "no memory for this")) << unable.error().message();
  settle();
  EXPECT_EQ(clients_[0]->state(), State::joined);
  EXPECT_EQ(clients_[1]->state(), State::joined);
  ASSERT_TRUE(run_until([&] { return all(State::failed); }, 2 * kTimeout));
  EXPECT_TRUE(mentions(clients_[0]->error(), "within 120 s")) << clients_[0]->error().message();
}

TEST_F(RendezvousTest, RefusesAConnectionOfAnotherKind) {
  serve();
  const auto connect_as = [&](const ConnectionIdentity& identity) {
    HelloFrame hello;
    hello.authenticated = true;
    hello.job = job_.id;
    hello.identity = identity;
    const std::vector<std::byte> bytes = encode_without_seal(hello);
    Stranger& peer = stranger();
    settle();
    peer.say(bytes);
    peer.say(crypto::Hash());
    return run_until([&] { return peer.was_thrown_out(); }, 10 * kSecond);
  };
  EXPECT_TRUE(connect_as({ConnectionKind::data, Rank(0), kRendezvousRank, PathId()}));
  EXPECT_TRUE(connect_as({ConnectionKind::rendezvous, Rank(0), Rank(1), PathId()}));
  EXPECT_TRUE(connect_as({ConnectionKind::rendezvous, Rank(-5), kRendezvousRank, PathId()}));
  EXPECT_EQ(server_->counters().refused, 3u);
}

}  // namespace
}  // namespace r2ccl
