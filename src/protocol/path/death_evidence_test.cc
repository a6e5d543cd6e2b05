#include "protocol/path/death_evidence.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr TimeNs kStart = 100 * kSecond;

// Returns the evidence of a peer with three paths, all of which failed at `kStart`.
DeathEvidence failed_paths(KernelClose closed) {
  DeathEvidence evidence(3);
  for (size_t path = 0; path < 3; ++path) evidence.on_failed(path, closed, kStart);
  evidence.on_all_down(kStart);
  return evidence;
}

TEST(DeathEvidence, ClosedConnectionsAndTwoRefusedPathsProveItAtOnce) {
  DeathEvidence evidence = failed_paths(KernelClose::ended);
  EXPECT_FALSE(evidence.proves_death()) << "closed connections alone may be an outage's end";
  evidence.on_refused(0, kStart);
  EXPECT_FALSE(evidence.proves_death());
  evidence.on_refused(2, kStart);
  EXPECT_TRUE(evidence.proves_death());
}

TEST(DeathEvidence, TwoRefusalsAreNoProofWhileTheNetworkIsDown) {
  DeathEvidence evidence = failed_paths(KernelClose::none);
  for (TimeNs after : {1 * kMillisecond, 2 * kMillisecond, 500 * kMillisecond}) {
    evidence.on_refused(0, kStart + after);
    evidence.on_refused(1, kStart + after);
    EXPECT_FALSE(evidence.proves_death()) << after;
  }
}

TEST(DeathEvidence, WithASilentPathTheRefusalsMustLast) {
  for (const KernelClose others : {KernelClose::ended, KernelClose::reset}) {
    DeathEvidence evidence = failed_paths(others);
    evidence.on_failed(1, KernelClose::none, kStart - 2 * kSecond);
    for (int i = 0; i < 8; ++i) {
      evidence.on_refused(i % 2 == 0 ? 0 : 2, kStart + i * 250 * kMillisecond);
      EXPECT_FALSE(evidence.proves_death()) << i;
    }
    evidence.on_refused(0, kStart + 2 * kSecond);
    EXPECT_EQ(evidence.proves_death(), others == KernelClose::ended) << "a firewall resets too";
  }
}

// The peer told the loss of its NIC, and was killed a moment later.
TEST(DeathEvidence, APathThatFailedForAKnownReasonSaysNothing) {
  DeathEvidence evidence = failed_paths(KernelClose::ended);
  evidence.on_explained(1);
  evidence.on_refused(0, kStart);
  EXPECT_FALSE(evidence.proves_death());
  evidence.on_refused(2, kStart);
  EXPECT_TRUE(evidence.proves_death());
}

TEST(DeathEvidence, APathThatFailedLongAgoSaysNothing) {
  DeathEvidence evidence = failed_paths(KernelClose::ended);
  evidence.on_failed(1, KernelClose::none, kStart - 60 * kSecond);
  evidence.on_refused(0, kStart);
  evidence.on_refused(2, kStart);
  EXPECT_TRUE(evidence.proves_death());
}

TEST(DeathEvidence, RefusalsThatLastProveItAlone) {
  DeathEvidence evidence = failed_paths(KernelClose::none);
  for (int i = 0; i < 120; ++i) {
    evidence.on_refused(0, kStart + i * 250 * kMillisecond);
    EXPECT_FALSE(evidence.proves_death()) << i;
  }
  evidence.on_refused(0, kStart + 30 * kSecond);
  EXPECT_TRUE(evidence.proves_death());
}

// A firewall that begins to refuse resets every connection, also the new ones, and so does another
// host that takes the peer's address over.
TEST(DeathEvidence, ResetsWithoutAnOrderlyEndAreNoProofBeforeTheRefusalsLast) {
  DeathEvidence evidence = failed_paths(KernelClose::reset);
  for (size_t i = 0; i < 8; ++i) {
    evidence.on_refused(i % 3, kStart + static_cast<TimeNs>(i) * 250 * kMillisecond);
    EXPECT_FALSE(evidence.proves_death()) << i;
  }
  evidence.on_refused(0, kStart + 2 * kSecond);
  EXPECT_TRUE(evidence.proves_death());
}

TEST(DeathEvidence, OneOrderlyEndAmongResetsProvesItAtOnce) {
  DeathEvidence evidence = failed_paths(KernelClose::reset);
  evidence.on_closed(1, KernelClose::ended);
  evidence.on_closed(1, KernelClose::reset);  // its other connection
  evidence.on_refused(0, kStart);
  EXPECT_FALSE(evidence.proves_death());
  evidence.on_refused(1, kStart);
  EXPECT_TRUE(evidence.proves_death());
}

TEST(DeathEvidence, AnAnswerMakesEarlierRefusalsVoid) {
  DeathEvidence evidence = failed_paths(KernelClose::none);
  for (int i = 0; i < 100; ++i) {
    evidence.on_refused(0, kStart + i * 250 * kMillisecond);
    if (i % 10 == 9) evidence.on_alive();  // the real peer, between forged refusals
    EXPECT_FALSE(evidence.proves_death()) << i;
  }
}

TEST(DeathEvidence, OneRefusalOfAPeerWithOnePathIsNoProof) {
  DeathEvidence evidence(1);
  evidence.on_failed(0, KernelClose::ended, kStart);
  evidence.on_all_down(kStart);
  evidence.on_refused(0, kStart);
  EXPECT_FALSE(evidence.proves_death());
  evidence.on_refused(0, kStart + 25 * kMillisecond);
  EXPECT_TRUE(evidence.proves_death());
}

}  // namespace
}  // namespace r2ccl
