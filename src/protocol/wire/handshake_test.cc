#include "protocol/wire/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "protocol/wire/crypto.h"
#include "protocol/wire/handshake_frames.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using State = Handshake::State;

constexpr NicId kListener{6};
constexpr ConnectionIdentity kIdentity{
    ConnectionKind::data, Rank(3), Rank(5), PathId(2), NicId(4), kListener};

RunIdentity run_with_key(uint8_t key) {
  RunIdentity run;
  run.id.fill(std::byte{7});
  run.key = LockedBytes::copy_of(Bytes(kSecretBytes, std::byte{key}));
  return run;
}

std::array<std::byte, kNonceBytes> nonce(uint8_t seed) {
  std::array<std::byte, kNonceBytes> out;
  out.fill(std::byte{seed});
  return out;
}

Bytes text(const std::string& letters) {
  const auto bytes = std::as_bytes(std::span(letters));
  return {bytes.begin(), bytes.end()};
}

AcceptPolicy accept_all(Incarnation last_used = Incarnation(), Bytes payload = {}) {
  return [=](const ConnectionIdentity&, Incarnation) -> Result<AcceptDecision> {
    return AcceptDecision{last_used, Incarnation(), payload};
  };
}

struct Ends {
  std::unique_ptr<Handshake> initiator;
  std::unique_ptr<Handshake> acceptor;
};

Ends make_ends(const RunIdentity& run, AcceptPolicy policy = accept_all(), uint8_t seed = 1) {
  return {
      make_initiator(run, kIdentity, Incarnation(4), nonce(seed), text("hello")),
      make_acceptor(run, kListener, std::move(policy), nonce(static_cast<uint8_t>(seed + 100)))};
}

Bytes take(Handshake& from) {
  const Bytes out(from.output().begin(), from.output().end());
  from.sent(out.size());
  return out;
}

// Lets both ends exchange frames until neither has output.
void talk(Handshake& a, Handshake& b) {
  while (!a.output().empty() || !b.output().empty()) {
    b.consume(take(a));
    a.consume(take(b));
  }
}

bool mentions(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

TEST(Handshake, AgreesOnIdentityIncarnationPayloadsAndMirroredKeys) {
  Ends ends = make_ends(run_with_key(1), accept_all(Incarnation(9), text("welcome")));
  talk(*ends.initiator, *ends.acceptor);
  ASSERT_EQ(ends.initiator->state(), State::done) << ends.initiator->error().message();
  ASSERT_EQ(ends.acceptor->state(), State::done) << ends.acceptor->error().message();
  const Session& a = ends.initiator->session();
  const Session& b = ends.acceptor->session();
  EXPECT_EQ(a.identity, kIdentity);
  EXPECT_EQ(b.identity, kIdentity);
  EXPECT_EQ(a.incarnation, Incarnation(10));
  EXPECT_EQ(b.incarnation, Incarnation(10));
  EXPECT_EQ(a.peer_payload, text("welcome"));
  EXPECT_EQ(b.peer_payload, text("hello"));
  EXPECT_EQ(a.send_key, b.receive_key);
  EXPECT_EQ(a.receive_key, b.send_key);
  EXPECT_NE(a.send_key, a.receive_key);
}

TEST(Handshake, TakesTheLargerIncarnationOfBothEndsPlusOne) {
  Ends ends = make_ends(run_with_key(1), accept_all(Incarnation(2)));  // the initiator used 4
  talk(*ends.initiator, *ends.acceptor);
  EXPECT_EQ(ends.acceptor->session().incarnation, Incarnation(5));
}

TEST(Handshake, RefusesAPathWhoseIncarnationsAreUsedUp) {
  Ends ends = make_ends(run_with_key(1), accept_all(Incarnation(UINT32_MAX)));
  talk(*ends.initiator, *ends.acceptor);
  EXPECT_EQ(ends.initiator->state(), State::failed);
  EXPECT_EQ(ends.acceptor->state(), State::failed);
}

TEST(Handshake, AConnectionJoinsTheIncarnationThatItNames) {
  ConnectionIdentity control = kIdentity;
  control.kind = ConnectionKind::join;
  const auto policy = [](const ConnectionIdentity&, Incarnation) -> Result<AcceptDecision> {
    return AcceptDecision{Incarnation(6), Incarnation(6), {}};
  };
  auto initiator = make_initiator(run_with_key(1), control, Incarnation(6), nonce(1), {});
  auto acceptor = make_acceptor(run_with_key(1), kListener, policy, nonce(2));
  talk(*initiator, *acceptor);
  ASSERT_EQ(initiator->state(), State::done) << initiator->error().message();
  EXPECT_EQ(initiator->session().incarnation, Incarnation(6));
  EXPECT_EQ(acceptor->session().incarnation, Incarnation(6));
}

TEST(Handshake, AConnectionThatJoinsTakesNoOtherIncarnation) {
  ConnectionIdentity join = kIdentity;
  join.kind = ConnectionKind::join;
  for (const uint32_t answer : {5, 7}) {
    const auto policy = [&](const ConnectionIdentity&, Incarnation) -> Result<AcceptDecision> {
      return AcceptDecision{Incarnation(6), Incarnation(answer), {}};
    };
    auto initiator = make_initiator(run_with_key(1), join, Incarnation(6), nonce(1), {});
    auto acceptor = make_acceptor(run_with_key(1), kListener, policy, nonce(2));
    talk(*initiator, *acceptor);
    EXPECT_EQ(initiator->state(), State::failed) << answer;
    EXPECT_NE(acceptor->state(), State::done);
  }
}

TEST(Handshake, RefusesAnUnknownKindOfConnection) {
  for (const int kind : {0, 7, 99, 255}) {
    ConnectionIdentity unknown = kIdentity;
    unknown.kind = static_cast<ConnectionKind>(kind);
    auto initiator = make_initiator(run_with_key(1), unknown, Incarnation(4), nonce(1), {});
    auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
    talk(*initiator, *acceptor);
    EXPECT_EQ(acceptor->state(), State::failed) << kind;
    EXPECT_TRUE(mentions(acceptor->error(), "unknown kind")) << kind;
  }
}

TEST(Handshake, RefusesAnIncarnationThatIsNotNew) {
  const auto policy = [](const ConnectionIdentity&, Incarnation) -> Result<AcceptDecision> {
    return AcceptDecision{Incarnation(), Incarnation(4), {}};
  };
  Ends ends = make_ends(run_with_key(1), policy);
  talk(*ends.initiator, *ends.acceptor);
  EXPECT_EQ(ends.initiator->state(), State::failed);
  EXPECT_TRUE(mentions(ends.initiator->error(), "incarnation 4"));
}

TEST(Handshake, GivesEverySessionFreshKeys) {
  Ends first = make_ends(run_with_key(1), accept_all(), 1);
  Ends second = make_ends(run_with_key(1), accept_all(), 2);
  talk(*first.initiator, *first.acceptor);
  talk(*second.initiator, *second.acceptor);
  EXPECT_NE(first.initiator->session().send_key, second.initiator->session().send_key);
}

TEST(Handshake, WorksWhenEveryByteArrivesAlone) {
  Ends ends = make_ends(run_with_key(1));
  for (int round = 0; round < 3; ++round) {
    for (const std::byte byte : take(*ends.initiator)) ends.acceptor->consume({&byte, 1});
    for (const std::byte byte : take(*ends.acceptor)) ends.initiator->consume({&byte, 1});
  }
  EXPECT_EQ(ends.initiator->state(), State::done);
  EXPECT_EQ(ends.acceptor->state(), State::done);
}

TEST(Handshake, LeavesTheBytesBeyondItToTheCaller) {
  Ends ends = make_ends(run_with_key(1));
  ends.acceptor->consume(take(*ends.initiator));
  Bytes reply = take(*ends.acceptor);
  const size_t reply_bytes = reply.size();
  reply.resize(reply_bytes + 50);
  EXPECT_EQ(ends.initiator->consume(reply), reply_bytes);
  Bytes final = take(*ends.initiator);
  const size_t final_bytes = final.size();
  final.resize(final_bytes + 50);
  EXPECT_EQ(ends.acceptor->consume(final), final_bytes);
  EXPECT_EQ(ends.acceptor->state(), State::done);
  EXPECT_EQ(ends.acceptor->consume(final), 0u);
}

// --- strangers ----------------------------------------------------------------------------------

struct Outcome {
  Status initiator;
  Status acceptor;
};

Outcome meet(const RunIdentity& initiating, const RunIdentity& accepting,
             AcceptPolicy policy = accept_all()) {
  auto initiator = make_initiator(initiating, kIdentity, Incarnation(), nonce(1), {});
  auto acceptor = make_acceptor(accepting, kListener, std::move(policy), nonce(2));
  talk(*initiator, *acceptor);
  EXPECT_EQ(initiator->state(), State::failed);
  EXPECT_EQ(acceptor->state(), State::failed);
  return {initiator->error(), acceptor->error()};
}

TEST(Handshake, SaysOnBothSidesThatTheProofIsWrong) {
  const Outcome outcome = meet(run_with_key(1), run_with_key(2));
  EXPECT_TRUE(mentions(outcome.initiator, "wrong proof")) << outcome.initiator.message();
  EXPECT_TRUE(mentions(outcome.acceptor, "wrong proof")) << outcome.acceptor.message();
}

TEST(Handshake, SaysOnBothSidesThatTheRunIsAnotherAndNamesTheRank) {
  RunIdentity other = run_with_key(1);
  other.id[0] = std::byte{99};
  const Outcome outcome = meet(run_with_key(1), other);
  EXPECT_TRUE(mentions(outcome.initiator, "another run"));
  EXPECT_TRUE(mentions(outcome.acceptor, "rank 3, belongs to another job or to another run"));
}

TEST(Handshake, RefusesEveryPeerBeforeTheRanksHaveMet) {
  const Outcome outcome = meet(run_with_key(1), RunIdentity());
  EXPECT_TRUE(mentions(outcome.initiator, "the start of its job is not over"));
}

TEST(Handshake, RefusesAHelloOfANicAtAListenerOfNone) {
  auto initiator = make_initiator(run_with_key(1), kIdentity, Incarnation(), nonce(1), {});
  auto acceptor = make_acceptor(run_with_key(1), kNoNic, accept_all(), nonce(2));
  talk(*initiator, *acceptor);
  EXPECT_EQ(acceptor->state(), State::failed);
  EXPECT_TRUE(mentions(initiator->error(), "listener of another NIC"));
}

TEST(Handshake, AnswersAHelloWithoutTheRightProofWithTheSameBytesForEveryKey) {
  Bytes answers[2];
  for (uint8_t key = 0; key < 2; ++key) {
    auto stranger = make_initiator(run_with_key(9), kIdentity, Incarnation(), nonce(1), {});
    auto acceptor = make_acceptor(run_with_key(key), kListener, accept_all(), nonce(2));
    acceptor->consume(take(*stranger));
    answers[key] = take(*acceptor);
    EXPECT_EQ(acceptor->state(), State::failed);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Handshake, SaysOnBothSidesThatTheEpochIsAnother) {
  RunIdentity later = run_with_key(1);
  later.epoch = 2;
  const Outcome outcome = meet(run_with_key(1), later);
  EXPECT_TRUE(mentions(outcome.initiator, "epoch 2, this rank in 0"));
  EXPECT_TRUE(mentions(outcome.acceptor, "epoch 0, this rank in 2"));
}

TEST(Handshake, TellsTheInitiatorThePolicysError) {
  const auto policy = [](const ConnectionIdentity& identity,
                         Incarnation) -> Result<AcceptDecision> {
    return Status(Code::remote, "this is not rank " + std::to_string(identity.to.value()));
  };
  const Outcome outcome = meet(run_with_key(1), run_with_key(1), policy);
  EXPECT_EQ(outcome.initiator.message(), "refused by the peer: this is not rank 5");
  EXPECT_TRUE(mentions(outcome.acceptor, "this is not rank 5"));
}

TEST(Handshake, RefusesAVersionRangeThatDoesNotMeetItsOwnAndSaysBoth) {
  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
  HelloFrame hello;
  hello.version_min = 200;
  hello.version_max = 201;
  hello.identity = kIdentity;
  const Bytes bytes = encode_without_seal(hello);
  acceptor->consume(std::span(bytes).first(kHelloFixedBytes - 1));
  EXPECT_EQ(acceptor->state(), State::running);
  acceptor->consume(std::span(bytes).subspan(kHelloFixedBytes - 1));
  EXPECT_TRUE(mentions(acceptor->error(), "rank " + std::to_string(kIdentity.from.value()) +
                                              ", speaks protocol version 200 to 201"));
  auto initiator = make_initiator(run_with_key(1), kIdentity, Incarnation(), nonce(1), {});
  initiator->consume(take(*acceptor));
  EXPECT_TRUE(mentions(initiator->error(), "this library 200 to 201"));
}

TEST(Handshake, ChoosesTheHighestVersionOfAWiderRange) {
  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
  HelloFrame hello;
  hello.version_min = 0;
  hello.version_max = 200;
  hello.job = run_with_key(1).id;
  hello.identity = kIdentity;
  const Bytes bytes = encode_without_seal(hello);
  crypto::Transcript transcript;
  transcript.add(bytes);
  acceptor->consume(bytes);
  acceptor->consume(
      crypto::derive(run_with_key(1).key.key(), "r2ccl path 2: HELLO", transcript.digest()));
  const auto reply = decode_reply(take(*acceptor));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply.value().version, kHandshakeVersionMax);
}

TEST(Handshake, KnowsGarbageByItsFirstByte) {
  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
  acceptor->consume(text("GET / HTTP/1.1"));
  EXPECT_EQ(acceptor->error().message(), "not an r2ccl peer (got 0x47455420)");
  EXPECT_TRUE(acceptor->output().empty());  // an unauthenticated peer gets no answer
  auto other = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
  other->consume(text("G"));
  EXPECT_EQ(other->state(), State::failed);
}

TEST(Handshake, MakesARefusalsTextPrintable) {
  auto initiator = make_initiator(run_with_key(1), kIdentity, Incarnation(), nonce(1), {});
  Bytes frame = encode_refusal("bad#[31m#");
  std::ranges::replace(frame, std::byte{'#'}, std::byte{0x1b});
  initiator->consume(frame);
  EXPECT_EQ(initiator->error().message(), "refused by the peer: bad?[31m?");
}

// --- attacks ------------------------------------------------------------------------------------

// Gives `frame`, changed, to its receiver, and lets the rest take its course. That receiver must
// not succeed, and if it is the initiator the acceptor must not succeed either.
void expect_refused(size_t frame_index, const std::function<void(Bytes&)>& change,
                    const std::string& what) {
  Ends ends = make_ends(run_with_key(1), accept_all(Incarnation(), text("welcome")));
  Handshake* from = ends.initiator.get();
  Handshake* to = ends.acceptor.get();
  for (size_t i = 0; i < 3; ++i) {
    Bytes frame = take(*from);
    if (i == frame_index) change(frame);
    to->consume(frame);
    std::swap(from, to);
  }
  EXPECT_NE(ends.acceptor->state(), State::done) << what;
  // An initiator is done when it has sent FINAL; the acceptor decides about that frame.
  if (frame_index < 2) {
    EXPECT_NE(ends.initiator->state(), State::done) << what;
  }
}

std::vector<size_t> frame_sizes() {
  Ends ends = make_ends(run_with_key(1), accept_all(Incarnation(), text("welcome")));
  std::vector<size_t> sizes;
  sizes.push_back(ends.initiator->output().size());
  ends.acceptor->consume(take(*ends.initiator));
  sizes.push_back(ends.acceptor->output().size());
  ends.initiator->consume(take(*ends.acceptor));
  sizes.push_back(ends.initiator->output().size());
  return sizes;
}

TEST(Handshake, RefusesEveryFrameWithAnyBitFlipped) {
  const std::vector<size_t> sizes = frame_sizes();
  for (size_t frame = 0; frame < sizes.size(); ++frame) {
    for (size_t bit = 0; bit < 8 * sizes[frame]; ++bit) {
      expect_refused(
          frame, [=](Bytes& bytes) { bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8); },
          "frame " + std::to_string(frame) + " bit " + std::to_string(bit));
    }
  }
}

TEST(Handshake, IsNotDoneWhenAnyFrameIsTruncated) {
  const std::vector<size_t> sizes = frame_sizes();
  for (size_t frame = 0; frame < sizes.size(); ++frame) {
    for (size_t size = 0; size < sizes[frame]; ++size) {
      expect_refused(
          frame, [=](Bytes& bytes) { bytes.resize(size); },
          "frame " + std::to_string(frame) + " cut to " + std::to_string(size));
    }
  }
}

TEST(Handshake, ARecordedHandshakeIsWorthless) {
  Ends recorded = make_ends(run_with_key(1));
  const Bytes hello = take(*recorded.initiator);
  recorded.acceptor->consume(hello);
  recorded.initiator->consume(take(*recorded.acceptor));
  const Bytes final = take(*recorded.initiator);
  recorded.acceptor->consume(final);
  ASSERT_EQ(recorded.acceptor->state(), State::done);

  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(77));
  acceptor->consume(hello);
  EXPECT_EQ(acceptor->state(), State::running);
  acceptor->consume(final);
  EXPECT_EQ(acceptor->state(), State::failed);
}

TEST(Handshake, ARecordedReplyDoesNotFitAnotherHello) {
  Ends recorded = make_ends(run_with_key(1));
  recorded.acceptor->consume(take(*recorded.initiator));
  const Bytes reply = take(*recorded.acceptor);
  auto initiator =
      make_initiator(run_with_key(1), kIdentity, Incarnation(4), nonce(78), text("hello"));
  initiator->consume(reply);
  EXPECT_EQ(initiator->state(), State::failed);
}

TEST(Handshake, FailsWhenTwoInitiatorsMeetOrAHelloComesBack) {
  Ends ends = make_ends(run_with_key(1));
  const Bytes hello = take(*ends.initiator);
  ends.initiator->consume(hello);
  EXPECT_EQ(ends.initiator->state(), State::failed);
  EXPECT_TRUE(mentions(ends.initiator->error(), "handshake of its own"));
}

TEST(Handshake, AnAcceptorsProofIsNoInitiatorsProof) {
  Ends ends = make_ends(run_with_key(1));
  ends.acceptor->consume(take(*ends.initiator));
  const Bytes reply = take(*ends.acceptor);
  const auto prefix = proof_prefix(HandshakeFrame::final, kHandshakeVersionMax);
  ends.acceptor->consume(prefix);
  ends.acceptor->consume(std::span(reply).last(crypto::kHashBytes));
  EXPECT_EQ(ends.acceptor->state(), State::failed);
}

TEST(Handshake, RefusesAPeerThatClaimsToBeThisRank) {
  auto initiator = make_initiator(
      run_with_key(1), {ConnectionKind::data, Rank(5), Rank(5), PathId(), kNoNic, kListener},
      Incarnation(), nonce(1), {});
  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
  talk(*initiator, *acceptor);
  EXPECT_EQ(acceptor->state(), State::failed);
}

TEST(Handshake, TellsARelayWhichRankIsBehindIt) {
  ConnectionIdentity identity = kIdentity;
  identity.kind = ConnectionKind::relay;
  identity.to = Rank(9);
  auto initiator = make_initiator(run_with_key(1), identity, Incarnation(), nonce(1), {});
  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all({}, text("ab")), nonce(2));
  talk(*initiator, *acceptor);
  ASSERT_EQ(acceptor->state(), State::done);
  EXPECT_EQ(acceptor->session().identity, identity);
  EXPECT_EQ(initiator->session().peer_payload, text("ab"));
}

TEST(Handshake, CarriesTheLargestPayloadAndRefusesOneByteMore) {
  const Bytes largest(kHandshakePayloadBytesMax, std::byte{1});
  auto initiator = make_initiator(run_with_key(1), kIdentity, Incarnation(), nonce(1), largest);
  auto acceptor = make_acceptor(run_with_key(1), kListener, accept_all({}, largest), nonce(2));
  talk(*initiator, *acceptor);
  ASSERT_EQ(acceptor->state(), State::done);
  EXPECT_EQ(acceptor->session().peer_payload, largest);
  EXPECT_EQ(initiator->session().peer_payload, largest);

  Bytes hello = encode_without_seal(HelloFrame());
  hello[48] = std::byte{1};  // payload bytes: 1025
  hello[49] = std::byte{4};
  auto refusing = make_acceptor(run_with_key(1), kListener, accept_all(), nonce(2));
  refusing->consume(hello);
  EXPECT_EQ(refusing->state(), State::failed);
}

TEST(Handshake, SurvivesRandomAndDamagedInputInBothRoles) {
  Ends ends = make_ends(run_with_key(1));
  const Bytes hello = take(*ends.initiator);
  ends.acceptor->consume(hello);
  const Bytes reply = take(*ends.acceptor);
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 20000; ++i) {
    Bytes input = i % 3 == 0 ? hello : i % 3 == 1 ? reply : Bytes(random() % 300);
    if (i % 3 == 2) {
      for (std::byte& byte : input) byte = static_cast<std::byte>(random());
    } else {
      for (uint64_t flips = random() % 4; flips > 0; --flips) {
        input[random() % input.size()] = static_cast<std::byte>(random());
      }
      input.resize(random() % (input.size() + 1));
    }
    input.insert(input.begin(),
                 {static_cast<std::byte>(random()), static_cast<std::byte>(random())});
    fuzz_handshake(input);
  }
}

TEST(Mac, AcceptsTheSameBytesUnderTheSameKeyOnly) {
  std::array<std::byte, kMacKeyBytes> key{};
  Bytes frame = text("a control frame");
  std::array<std::byte, kMacBytes> mac{};
  compute_mac(key, frame, mac);
  EXPECT_TRUE(check_mac(key, frame, mac));
  for (std::byte& byte : frame) {
    byte ^= std::byte{1};
    EXPECT_FALSE(check_mac(key, frame, mac));
    byte ^= std::byte{1};
  }
  for (std::byte& byte : mac) {
    byte ^= std::byte{128};
    EXPECT_FALSE(check_mac(key, frame, mac));
    byte ^= std::byte{128};
  }
  key[31] = std::byte{1};
  EXPECT_FALSE(check_mac(key, frame, mac));
}

}  // namespace
}  // namespace r2ccl
