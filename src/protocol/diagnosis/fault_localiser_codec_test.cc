// Observations, verdicts and probe answers as bytes, also bytes that no honest rank sends.
#include <gtest/gtest.h>

#include <random>

#include "protocol/diagnosis/fault_localiser.h"
#include "testing/fault_localiser_evidence.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

TEST(FaultLocaliserCodec, ObservationsAndVerdictsComeBackAsTheyWereSent) {
  Observation o = told(3, 4, DownCause::stalled, 2);
  o.incarnation = Incarnation(7);
  o.detected_us = UINT64_MAX;
  o.wall = -1;
  const auto observation = decode_observation(o.observer, encode(o));
  ASSERT_TRUE(observation.ok());
  EXPECT_EQ(observation.value(), o);

  Verdict v;
  v.number = 9;
  v.faulty = nic(2);
  v.other = nic(3, 1);
  v.rank = Rank(5);
  v.scope = Scope::pair;
  v.kind = DownCause::stalled;
  v.detected_us = 1;
  v.retransmitted_bytes = 2;
  v.stall_us = 3;
  v.wall = 4;
  for (const DownCause kind : {DownCause::stalled, DownCause::lossy, DownCause::tampered}) {
    v.kind = kind;
    const auto verdict = decode_verdict(encode(v));
    ASSERT_TRUE(verdict.ok());
    EXPECT_EQ(verdict.value(), v);
  }
}

TEST(FaultLocaliserCodec, TruncatedBytesAreRefused) {
  const auto observation = encode(seen(0, 1, DownCause::silent));
  for (size_t size = 0; size < observation.size(); ++size) {
    EXPECT_FALSE(decode_observation(Rank(0), std::span(observation).first(size)).ok()) << size;
  }
  Verdict v;
  v.faulty = nic(1);
  const auto verdict = encode(v);
  for (size_t size = 0; size < verdict.size(); ++size) {
    EXPECT_FALSE(decode_verdict(std::span(verdict).first(size)).ok()) << size;
  }
}

TEST(FaultLocaliserCodec, ACauseOfALaterVersionReadsAsNone) {
  auto bytes = encode(seen(0, 1, DownCause::silent));
  // Two ranks, and two names of host, length and "nic0"; the cause follows.
  constexpr size_t kCauseAt = 4 + 4 + 2 * (4 + 1 + 4);
  ASSERT_EQ(bytes[kCauseAt], static_cast<std::byte>(DownCause::silent));
  bytes[kCauseAt] = std::byte{99};
  const auto decoded = decode_observation(Rank(0), bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().cause, DownCause::none);
}

TEST(FaultLocaliserCodec, AScopeOfALaterVersionNamesNoSingleNic) {
  auto bytes = encode(Verdict());
  constexpr size_t kScopeAt = 4;  // after the number
  bytes[kScopeAt] = std::byte{99};
  EXPECT_EQ(decode_verdict(bytes).value().scope, Scope::pair);
}

TEST(FaultLocaliserCodec, SurvivesGarbageAndItsMeaning) {
  std::mt19937_64 random(1);
  FaultLocaliser localiser(hosts(4));
  TimeNs now = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = encode(seen(random() % 4, random() % 4, DownCause::silent));
    if (random() % 4 == 0) bytes.resize(random() % 100);
    for (uint64_t k = random() % 6; k > 0 && !bytes.empty(); --k) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    (void)decode_verdict(bytes);
    const auto observation = decode_observation(Rank(0), bytes);
    if (!observation.ok()) continue;
    EXPECT_EQ(decode_observation(Rank(0), encode(observation.value())).value(),
              observation.value());
    now += static_cast<TimeNs>(random() % static_cast<uint64_t>(10 * kMillisecond));
    localiser.observe(observation.value(), now);
    for (const ProbeRequest& request : localiser.wanted(now)) {
      const auto host = static_cast<uint32_t>(random() % 5);
      const Reach reach{observation.value().near, observation.value().far, random() % 2 == 0};
      localiser.on_answer({request.number, host, {reach, {nic(host, 0), nic(3, 0), false}}}, now);
    }
    (void)localiser.due(now);
  }
}

TEST(FaultLocaliserCodec, SurvivesAnyReportOfAHostileRank) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    ProbeAnswer answer{1, static_cast<uint32_t>(random() % 3), {}};
    for (uint64_t k = random() % 9; k > 0; --k) {
      answer.tried.push_back({nic(answer.host, static_cast<int>(random() % 4)),
                              nic(random() % 4, static_cast<int>(random() % 4)),
                              random() % 2 == 0});
    }
    std::vector<std::byte> bytes = encode(answer);
    for (uint64_t k = random() % 3; k > 0; --k) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    bytes.insert(bytes.begin(), static_cast<std::byte>(random() % 2 == 0 ? 4 : random()));
    fuzz_blame(bytes);
  }
}

}  // namespace
}  // namespace r2ccl
