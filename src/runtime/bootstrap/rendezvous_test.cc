// The rendezvous over the loopback interface, in virtual time. The kernel moves the bytes, and time
// advances only when nothing moves any more.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <functional>

#include "base/limits.h"
#include "protocol/wire/handshake_frames.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/bootstrap/rendezvous_parts.h"
#include "runtime/bootstrap/rendezvous_server.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/secure_random.h"
#include "testing/memory_scan.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

using State = RendezvousClient::State;

constexpr TimeNs kTimeout = 120 * kSecond;

// A stranger that connects to the port.
class Stranger final : public EventHandler {
 public:
  Stranger(Transport& transport, Reactor& reactor, const Endpoint& to) {
    connection_ = transport.connect(to, {}).value();
    registration_ = reactor.add(connection_->poll_id(), *this, false).value();
  }
  void on_ready(const PollEvent&) override {
    std::array<std::byte, 4096> buffer;
    const iovec slice{buffer.data(), buffer.size()};
    const IoKind kind = connection_->read(std::span(&slice, 1)).kind;
    thrown_out_ = kind == IoKind::closed || kind == IoKind::failed;
    if (thrown_out_) registration_.reset();
  }
  void say(std::span<const std::byte> bytes) {
    const iovec slice{const_cast<std::byte*>(bytes.data()), bytes.size()};
    connection_->write(std::span(&slice, 1));
  }
  void say(const std::string& text) { say(std::as_bytes(std::span(text))); }
  bool was_thrown_out() const { return thrown_out_; }

 private:
  std::unique_ptr<Connection> connection_;
  Reactor::Registration registration_;
  bool thrown_out_ = false;
};

class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest()
      : transport_(TcpTransport::open({}).value()),
        reactor_(transport_->poller()),
        job_(make_job_identity()) {}

  void serve(uint16_t port = 0) {
    std::vector<std::unique_ptr<Listener>> listeners;
    listeners.push_back(transport_->listen(loopback(port), "").value());
    server_ = std::make_unique<RendezvousServer>(
        reactor_, std::move(listeners), RendezvousServer::Options{job_, random_nonce, kTimeout});
    at_ = server_->endpoints().front();
  }

  RendezvousClient::Options options_of(int32_t rank, int32_t rank_count) const {
    RendezvousClient::Options options;
    options.job = job_;
    options.endpoints = {at_};
    options.info = info_of(rank);
    options.rank_count = rank_count;
    options.timeout_ns = kTimeout;
    options.nonce = random_nonce;
    return options;
  }
  RendezvousClient& join(RendezvousClient::Options options) {
    clients_.push_back(
        std::make_unique<RendezvousClient>(*transport_, reactor_, std::move(options), now_));
    return *clients_.back();
  }
  RendezvousClient& join(int32_t rank, int32_t rank_count) {
    return join(options_of(rank, rank_count));
  }
  Stranger& stranger() {
    strangers_.push_back(std::make_unique<Stranger>(*transport_, reactor_, at_));
    return *strangers_.back();
  }

  void progress() {
    if (server_ != nullptr) server_->progress(now_);
    for (const auto& client : clients_) client->progress(now_);
  }
  TimeNs next_timeout() const {
    TimeNs at = server_ != nullptr ? server_->next_timeout() : kNever;
    for (const auto& client : clients_) at = std::min(at, client->next_timeout());
    return at;
  }
  // Moves bytes until nothing moves; time stands still.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      progress();
      const bool due = next_timeout() <= now_;
      quiet = reactor_.poll(due ? 0 : kMillisecond) > 0 || due ? 0 : quiet + 1;
    }
  }
  // Lets virtual time pass until `condition` holds, but no longer than `limit`.
  bool run_until(const std::function<bool()>& condition, TimeNs limit = 10 * kTimeout) {
    const TimeNs end = now_ + limit;
    for (settle(); !condition(); settle()) {
      if (now_ >= end) return false;
      now_ = std::min(end, next_timeout());
    }
    return true;
  }
  bool all(State state) const {
    return std::ranges::all_of(clients_, [=](const auto& c) { return c->state() == state; });
  }

  std::unique_ptr<TcpTransport> transport_;
  Reactor reactor_;
  JobIdentity job_;
  TimeNs now_ = kSecond;
  Endpoint at_;
  std::unique_ptr<RendezvousServer> server_;
  std::deque<std::unique_ptr<RendezvousClient>> clients_;
  std::deque<std::unique_ptr<Stranger>> strangers_;
};

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
  ASSERT_TRUE(run_until([&] { return wrong.state() == State::failed; }, kSecond));
  EXPECT_TRUE(mentions(wrong.error(), to_string(at_) + ": ")) << wrong.error().message();
  EXPECT_TRUE(mentions(wrong.error(), "wrong secret")) << wrong.error().message();
  EXPECT_EQ(server_->counters().refused, 1u);
  clients_.clear();
  join(0, 2);
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
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

TEST_F(RendezvousTest, ThrowsOutGarbageAtOnceAndGoesOn) {
  serve();
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01"}) {
    stranger();
    settle();
    strangers_.back()->say(text);
  }
  join(0, 2);
  ASSERT_TRUE(run_until(
      [&] { return std::ranges::all_of(strangers_, [](auto& s) { return s->was_thrown_out(); }); },
      kSecond));
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
  EXPECT_EQ(server_->counters().refused, 3u);
}

TEST_F(RendezvousTest, ClosesConnectionsThatDoNotFinishInTime) {
  serve();
  Stranger& silent = stranger();
  Stranger& slow = stranger();
  settle();
  const std::vector<std::byte> hello = encode_without_seal(HelloFrame());
  const TimeNs start = now_;
  for (size_t i = 0; i < 4; ++i) {
    slow.say(std::span(hello).subspan(i, 1));
    ASSERT_FALSE(run_until([&] { return slow.was_thrown_out(); }, kSecond));
  }
  ASSERT_TRUE(run_until([&] { return slow.was_thrown_out(); }, kTimeout));
  EXPECT_LE(now_ - start, limits::kHandshakeAgeMax);
  EXPECT_TRUE(silent.was_thrown_out());
  EXPECT_EQ(server_->counters().evicted, 2u);
}

TEST_F(RendezvousTest, KeepsABoundedNumberOfPendingConnectionsAndServesTheRanks) {
  serve();
  join(0, 2);
  settle();
  for (size_t i = 0; i < limits::kPendingHandshakesMax + 50; ++i) {
    stranger();
    reactor_.poll(0);
    progress();
    EXPECT_LE(server_->connection_count(), limits::kPendingHandshakesMax + 1);
  }
  settle();
  EXPECT_EQ(server_->counters().evicted, 50u);
  join(1, 2);
  EXPECT_TRUE(run_until([&] { return all(State::done); }, kSecond));
}

TEST_F(RendezvousTest, AFloodFromAnotherHostPushesOutNoRank) {
  constexpr size_t kFlood = limits::kPendingHandshakesMax + 50;
  serve();
  RendezvousClient::Options options = options_of(0, 1);
  options.connect.source = *parse_address("127.0.0.2");
  RendezvousClient& rank = join(std::move(options));
  rank.progress(now_);
  for (size_t i = 0; i < kFlood; ++i) {
    stranger();
    reactor_.poll(0);
    server_->progress(now_);  // the rank does other work
  }
  EXPECT_TRUE(run_until([&] { return rank.state() == State::done; }, 10 * kMillisecond))
      << "it had to try again";
}

TEST_F(RendezvousTest, OutlivesDescriptorsRunningOut) {
  serve();
  settle();
  RendezvousClient& client = join(0, 1);
  client.progress(now_);  // connects, into the backlog
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  for (int i = 0; i < 20; ++i) {
    reactor_.poll(0);
    server_->progress(now_);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(server_->connection_count(), 0u);
  EXPECT_GT(server_->next_timeout(), now_);  // it pauses and does not spin
  EXPECT_TRUE(run_until([&] { return client.state() == State::done; }, kSecond));
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
