#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "protocol/wire/cpace.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/handshake_frames.h"
#include "protocol/wire/key_schedule.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using State = Handshake::State;

std::array<std::byte, kNonceBytes> nonce(uint8_t seed) {
  std::array<std::byte, kNonceBytes> out;
  out.fill(std::byte{seed});
  return out;
}

// 0: without a secret.
JobIdentity job_with_secret(uint8_t secret) {
  JobIdentity job;
  job.id.fill(std::byte{7});
  if (secret != 0) job.secret = LockedBytes::copy_of(Bytes(kSecretBytes, std::byte{secret}));
  return job;
}

Bytes take(Handshake& from) {
  const Bytes out(from.output().begin(), from.output().end());
  from.sent(out.size());
  return out;
}

struct Ends {
  explicit Ends(uint8_t initiators_secret = 1, uint8_t acceptors_secret = 1)
      : initiator(make_rendezvous_initiator(job_with_secret(initiators_secret), Rank(3), nonce(1))),
        acceptor(make_rendezvous_acceptor(job_with_secret(acceptors_secret), nonce(2))) {}
  void talk() {
    while (!initiator->output().empty() || !acceptor->output().empty()) {
      acceptor->consume(take(*initiator));
      initiator->consume(take(*acceptor));
    }
  }
  std::unique_ptr<Handshake> initiator;
  std::unique_ptr<Handshake> acceptor;
};

bool mentions(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

TEST(RendezvousHandshake, NoAcceptorTakesARefusalWhoseWordsWouldBeAStrangers) {
  RunIdentity run;
  run.key = LockedBytes::copy_of(Bytes(kSecretBytes, std::byte{1}));
  const auto between_ranks = make_acceptor(run, NicId(0), {}, nonce(2));
  const auto at_rendezvous = make_rendezvous_acceptor(job_with_secret(1), nonce(2));
  for (Handshake* acceptor : {between_ranks.get(), at_rendezvous.get()}) {
    acceptor->consume(encode_refusal("call 555 now"));
    EXPECT_EQ(acceptor->state(), State::failed);
    EXPECT_TRUE(mentions(acceptor->error(), "REFUSE where HELLO was due"));
    EXPECT_FALSE(mentions(acceptor->error(), "555")) << acceptor->error().message();
  }
}

TEST(RendezvousHandshake, AgreesOnFreshMirroredKeysWithASecretAndWithout) {
  for (const uint8_t secret : {uint8_t{0}, uint8_t{1}}) {
    Ends ends(secret, secret);
    Ends others(secret, secret);
    ends.talk();
    others.talk();
    ASSERT_EQ(ends.initiator->state(), State::done) << ends.initiator->error().message();
    ASSERT_EQ(ends.acceptor->state(), State::done) << ends.acceptor->error().message();
    const Session& a = ends.initiator->session();
    const Session& b = ends.acceptor->session();
    EXPECT_EQ(a.identity, b.identity);
    EXPECT_EQ(b.identity.from, Rank(3));
    EXPECT_EQ(a.send_key, b.receive_key);
    EXPECT_EQ(a.receive_key, b.send_key);
    EXPECT_NE(a.send_key, a.receive_key);
    // The nonces were the same, so the shares make the keys fresh.
    EXPECT_NE(a.send_key, others.initiator->session().send_key);
  }
}

TEST(RendezvousHandshake, SaysOnBothSidesThatTheSecretIsWrong) {
  Ends ends(1, 2);
  ends.talk();
  EXPECT_EQ(ends.initiator->state(), State::failed);
  EXPECT_EQ(ends.acceptor->state(), State::failed);
  EXPECT_TRUE(mentions(ends.initiator->error(), "wrong secret"));
  EXPECT_TRUE(mentions(ends.acceptor->error(), "wrong secret"));
}

TEST(RendezvousHandshake, RefusesInWordsWhenOnlyOneSideHasASecret) {
  Ends without(0, 1);
  without.talk();
  EXPECT_TRUE(
      mentions(without.acceptor->error(), "peer is unauthenticated but this rank has a secret"));
  EXPECT_TRUE(mentions(without.initiator->error(), "it has a secret and this rank has none"));
  Ends with(1, 0);
  with.talk();
  EXPECT_TRUE(mentions(with.acceptor->error(), "peer has a secret but this rank has none"));
  EXPECT_TRUE(
      mentions(with.initiator->error(), "it is unauthenticated and this rank has a secret"));
}

TEST(RendezvousHandshake, SaysThatTheJobIsAnotherAndNamesTheRank) {
  JobIdentity other = job_with_secret(1);
  other.id[0] = std::byte{99};
  auto initiator = make_rendezvous_initiator(other, Rank(3), nonce(1));
  auto acceptor = make_rendezvous_acceptor(job_with_secret(1), nonce(2));
  acceptor->consume(take(*initiator));
  initiator->consume(take(*acceptor));
  EXPECT_TRUE(mentions(acceptor->error(), "rank 3, belongs to another job"));
  EXPECT_TRUE(mentions(initiator->error(), "belongs to another job"));
}

// The acceptor answers before its peer has proved anything, so its answer must not help to test a
// guess of the secret.
TEST(RendezvousHandshake, TheAnswerToAHelloIsTheSameForEverySecretButForARandomPoint) {
  Bytes replies[3];
  for (uint8_t i = 0; i < 3; ++i) {
    auto stranger = make_rendezvous_initiator(job_with_secret(9), Rank(3), nonce(1));
    const uint8_t secret = i == 2 ? 2 : 1;
    auto acceptor = make_rendezvous_acceptor(job_with_secret(secret), nonce(2));
    acceptor->consume(take(*stranger));
    replies[i] = take(*acceptor);
    EXPECT_EQ(acceptor->state(), State::running);
  }
  const size_t said = replies[0].size() - cpace::kPointBytes;
  for (const Bytes& reply : replies) {
    EXPECT_TRUE(
        std::ranges::equal(std::span(reply).first(said), std::span(replies[0]).first(said)));
  }
  // The same secret, too, gives another point each time.
  EXPECT_NE(replies[0], replies[1]);
  EXPECT_NE(replies[0], replies[2]);
}

TEST(RendezvousHandshake, AWrongProofIsAnsweredWithTheSameWordsForEverySecret) {
  Bytes answers[2];
  for (uint8_t i = 0; i < 2; ++i) {
    auto stranger = make_rendezvous_initiator(job_with_secret(9), Rank(3), nonce(1));
    auto acceptor =
        make_rendezvous_acceptor(job_with_secret(static_cast<uint8_t>(i + 1)), nonce(2));
    acceptor->consume(take(*stranger));
    stranger->consume(take(*acceptor));
    acceptor->consume(take(*stranger));
    answers[i] = take(*acceptor);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

// A false acceptor gets the initiator's proof. It must be worthless for every guess but the one
// with which the acceptor made its share: with each further guess the key differs.
TEST(RendezvousHandshake, AFalseAcceptorsRecordingFitsNoOtherGuess) {
  Ends ends(1, 2);  // it guesses 2
  const Bytes hello = take(*ends.initiator);
  ends.acceptor->consume(hello);
  ends.initiator->consume(take(*ends.acceptor));
  const Bytes final = take(*ends.initiator);
  ASSERT_FALSE(final.empty());
  // The right secret, with another scalar, since the acceptor does not know the discrete logarithm
  // of its share to the other base.
  auto again = make_rendezvous_acceptor(job_with_secret(1), nonce(2));
  again->consume(hello);
  again->consume(final);
  EXPECT_EQ(again->state(), State::failed);
}

TEST(RendezvousHandshake, RefusesTheNeutralElementFromEitherEnd) {
  Ends ends;
  Bytes hello = take(*ends.initiator);
  std::fill(hello.end() - cpace::kPointBytes, hello.end(), std::byte{0});
  ends.acceptor->consume(hello);
  EXPECT_EQ(ends.acceptor->state(), State::failed);
  EXPECT_TRUE(ends.acceptor->output().empty());

  Ends others;
  others.acceptor->consume(take(*others.initiator));
  Bytes reply = take(*others.acceptor);
  std::fill(reply.end() - cpace::kPointBytes, reply.end(), std::byte{0});
  others.initiator->consume(reply);
  EXPECT_EQ(others.initiator->state(), State::failed);
}

// Changes frame `index` of the four, and lets the rest take its course.
bool somebody_is_done(size_t index, const std::function<void(Bytes&)>& change) {
  Ends ends;
  Handshake* from = ends.initiator.get();
  Handshake* to = ends.acceptor.get();
  for (size_t i = 0; i < 4; ++i) {
    Bytes frame = take(*from);
    if (i == index) change(frame);
    to->consume(frame);
    std::swap(from, to);
  }
  // The acceptor is done once it has confirmed; the initiator decides about that frame.
  return ends.initiator->state() == State::done ||
         (index < 3 && ends.acceptor->state() == State::done);
}

TEST(RendezvousHandshake, RefusesEveryFrameWithAnyBitFlippedOrTruncated) {
  Ends ends;
  std::vector<size_t> sizes;
  for (int round = 0; round < 2; ++round) {
    Bytes frame = take(*ends.initiator);
    sizes.push_back(frame.size());
    ends.acceptor->consume(frame);
    frame = take(*ends.acceptor);
    sizes.push_back(frame.size());
    ends.initiator->consume(frame);
  }
  ASSERT_EQ(ends.initiator->state(), State::done);
  for (size_t frame = 0; frame < sizes.size(); ++frame) {
    for (size_t bit = 0; bit < 8 * sizes[frame]; ++bit) {
      EXPECT_FALSE(somebody_is_done(
          frame,
          [=](Bytes& bytes) { bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8); }))
          << "frame " << frame << " bit " << bit;
    }
    EXPECT_FALSE(somebody_is_done(frame, [](Bytes& bytes) { bytes.pop_back(); }));
  }
}

TEST(RendezvousHandshake, ARecordingPlayedAgainIsWorthless) {
  Ends ends;
  const Bytes hello = take(*ends.initiator);
  ends.acceptor->consume(hello);
  ends.initiator->consume(take(*ends.acceptor));
  const Bytes final = take(*ends.initiator);
  auto again = make_rendezvous_acceptor(job_with_secret(1), nonce(2));
  again->consume(hello);
  again->consume(final);
  EXPECT_EQ(again->state(), State::failed);
}

// --- the run ------------------------------------------------------------------------------------

RunIdentity run_of(const JobIdentity& job, uint8_t token, const std::string& table) {
  return make_run_identity(job, LockedBytes::copy_of(Bytes(kRunTokenBytes, std::byte{token})),
                           std::as_bytes(std::span(table)));
}

TEST(RunIdentity, IsTheSameForTheSameTokenTableAndSecretAlone) {
  const RunIdentity run = run_of(job_with_secret(1), 5, "table");
  EXPECT_EQ(run.id, run_of(job_with_secret(1), 5, "table").id);
  EXPECT_EQ(run.key, run_of(job_with_secret(1), 5, "table").key);
  EXPECT_NE(run.id, run_of(job_with_secret(1), 6, "table").id);
  EXPECT_NE(run.key, run_of(job_with_secret(1), 6, "table").key);
  EXPECT_NE(run.key, run_of(job_with_secret(1), 5, "tables").key);
  EXPECT_NE(run.key, run_of(job_with_secret(2), 5, "table").key);
  EXPECT_NE(run.key, run_of(job_with_secret(0), 5, "table").key);
}

TEST(RunIdentity, RanksWithDifferentTablesRefuseEachOtherAndSaySo) {
  const ConnectionIdentity identity{
      ConnectionKind::data, Rank(0), Rank(1), PathId(), NicId(0), NicId(0)};
  const AcceptPolicy policy = [](const ConnectionIdentity&, Incarnation) {
    return Result<AcceptDecision>(AcceptDecision());
  };
  auto initiator =
      make_initiator(run_of(job_with_secret(1), 5, "one"), identity, Incarnation(), nonce(1), {});
  auto acceptor = make_acceptor(run_of(job_with_secret(1), 5, "two"), NicId(0), policy, nonce(2));
  acceptor->consume(take(*initiator));
  initiator->consume(take(*acceptor));
  EXPECT_TRUE(mentions(acceptor->error(), "do not hold the same table of ranks"));
  EXPECT_TRUE(mentions(initiator->error(), "do not hold the same table of ranks"));
}

// --- secrets ------------------------------------------------------------------------------------

LockedBytes secret_text(const std::string& text) {
  return LockedBytes::copy_of(std::as_bytes(std::span(text)));
}

TEST(Secret, OfAChildIsKnownToItsParentsRanksAlone) {
  const std::array<std::byte, kJobIdBytes> child{std::byte{1}};
  const std::array<std::byte, kJobIdBytes> other{std::byte{2}};
  RunIdentity run;
  run.key = LockedBytes::random(kSecretBytes);
  RunIdentity another;
  another.key = LockedBytes::random(kSecretBytes);
  EXPECT_EQ(derive_child_secret(run, child), derive_child_secret(run, child));
  EXPECT_NE(derive_child_secret(run, child), derive_child_secret(run, other));
  EXPECT_NE(derive_child_secret(run, child), derive_child_secret(another, child));
  EXPECT_NE(derive_child_secret(run, child), run.key);
  const RunIdentity alone;  // it has met nobody
  EXPECT_NE(derive_child_secret(alone, child), derive_child_secret(alone, child));
}

TEST(Secret, IsStretchedForItsJobAloneWhenTheUserChoseIt) {
  const JobIdentity job = job_with_secret(0);
  std::array<std::byte, kJobIdBytes> other = job.id;
  other[0] ^= std::byte{1};
  const LockedBytes a = derive_secret(secret_text("production-cluster-2026"), job.id).value();
  EXPECT_EQ(a.bytes().size(), kSecretBytes);
  EXPECT_EQ(a, derive_secret(secret_text("production-cluster-2026"), job.id).value());
  EXPECT_NE(a, derive_secret(secret_text("production-cluster-2027"), job.id).value());
  EXPECT_NE(a, derive_secret(secret_text("production-cluster-2026"), other).value());
}

TEST(Secret, IsFreshAndNotStretchedWhenItWasGenerated) {
  const LockedBytes text = generate_secret();
  const std::string letters(reinterpret_cast<const char*>(text.bytes().data()),
                            text.bytes().size());
  EXPECT_EQ(letters.rfind("r2ccl-secret-", 0), 0u);
  EXPECT_EQ(letters.size(), 13u + 64u);
  EXPECT_NE(text, generate_secret());
  const JobIdentity job = job_with_secret(0);
  const LockedBytes key = derive_secret(text, job.id).value();
  EXPECT_EQ(key, derive_secret(text, job.id).value());
  // With one digit fewer it is an ordinary text.
  const LockedBytes shorter = secret_text(letters.substr(0, letters.size() - 1));
  EXPECT_NE(key, derive_secret(shorter, job.id).value());
}

}  // namespace
}  // namespace r2ccl
