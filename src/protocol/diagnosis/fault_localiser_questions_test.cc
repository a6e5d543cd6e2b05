// The number of requests that the localiser sends for a fault, for any number of hosts.
#include <gtest/gtest.h>

#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

// All others have lost one NIC of this host, and both ends of each pair report it.
constexpr uint32_t kLost = 1;

FaultLocaliser localiser_of_lost_nic(uint32_t host_count, DownCause cause) {
  FaultLocaliser localiser(hosts(host_count));
  for (uint32_t other = 0; other < host_count; ++other) {
    if (other == kLost) continue;
    localiser.observe(seen(kLost, other, cause, 0, 100 + other), 0);
    localiser.observe(seen(other, kLost, cause, 0, 100 + other), 0);
  }
  return localiser;
}

void answer_all(FaultLocaliser& localiser, const ProbeRequest& request, bool reached, TimeNs now) {
  for (const uint32_t near : request.hosts) {
    ProbeAnswer answer{request.number, near, {}};
    for (const uint32_t far : request.hosts) {
      if (far == near) continue;
      const bool of_lost = near == kLost || far == kLost;
      answer.tried.push_back({nic(near), nic(far), reached || !of_lost});
    }
    localiser.on_answer(answer, now);
  }
}

// Drives the localiser until no more is due; returns its verdicts.
std::vector<Verdict> finish(FaultLocaliser& localiser, bool reached, size_t& requests) {
  std::vector<Verdict> verdicts;
  for (TimeNs now = 10 * kMillisecond; now < kSecond; now += 5 * kMillisecond) {
    for (const ProbeRequest& request : localiser.wanted(now)) {
      ++requests;
      EXPECT_LE(request.hosts.size(), kProbeHostsMax);
      answer_all(localiser, request, reached, now);
    }
    for (Verdict& verdict : localiser.due(now)) verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

TEST(FaultLocaliserQuestions, OneFaultIsAskedForOnceHoweverManyHostsLostTheNic) {
  for (const DownCause cause : {DownCause::silent, DownCause::stalled}) {
    for (const uint32_t host_count : {6u, 8u, 12u, 128u, 1024u}) {
      FaultLocaliser localiser = localiser_of_lost_nic(host_count, cause);
      size_t requests = 0;
      const auto verdicts = finish(localiser, cause == DownCause::stalled, requests);
      EXPECT_EQ(requests, 1u) << host_count << " hosts, " << to_string(cause);
      ASSERT_EQ(verdicts.size(), 1u) << host_count << " hosts, " << to_string(cause);
      EXPECT_EQ(verdicts[0].scope, Scope::nic);
      EXPECT_EQ(verdicts[0].faulty, nic(kLost));
    }
  }
}

// Reports of one fault come over some time.
TEST(FaultLocaliserQuestions, ALateReportOfTheSameFaultIsNotAskedForAnew) {
  FaultLocaliser localiser(hosts(128));
  size_t requests = 0;
  size_t verdicts = 0;
  for (uint32_t other = 2; other < 128; ++other) {
    const TimeNs now = other * kMillisecond;
    localiser.observe(seen(other, kLost, DownCause::silent, 0, now), now);
    for (const ProbeRequest& request : localiser.wanted(now)) {
      ++requests;
      answer_all(localiser, request, false, now);
    }
    verdicts += localiser.due(now).size();
  }
  EXPECT_EQ(requests, 1u);
  EXPECT_EQ(verdicts, 1u);
}

// Two NICs of one rail have failed, and the first question cannot try the second one's pairs.
TEST(FaultLocaliserQuestions, TheVerdictOfOneFaultLeadsToTheQuestionOfTheNext) {
  constexpr uint32_t kOther = 100;
  FaultLocaliser localiser(hosts(128));
  for (uint32_t other = 2; other < 60; ++other) {
    localiser.observe(seen(other, kLost, DownCause::silent, 0, 100 + other), 0);
    localiser.observe(seen(other, kOther, DownCause::silent, 0, 200 + other), 0);
  }
  std::vector<Verdict> verdicts;
  size_t requests = 0;
  for (TimeNs now = 10 * kMillisecond; now < 400 * kMillisecond; now += 5 * kMillisecond) {
    for (const ProbeRequest& request : localiser.wanted(now)) {
      ++requests;
      for (const uint32_t near : request.hosts) {
        ProbeAnswer answer{request.number, near, {}};
        for (const uint32_t far : request.hosts) {
          if (far == near) continue;
          const auto broken = [](uint32_t host) { return host == kLost || host == kOther; };
          answer.tried.push_back({nic(near), nic(far), !broken(near) && !broken(far)});
        }
        localiser.on_answer(answer, now);
      }
    }
    for (Verdict& verdict : localiser.due(now)) verdicts.push_back(std::move(verdict));
  }
  EXPECT_LE(requests, 2u);
  ASSERT_EQ(verdicts.size(), 2u);
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.scope, Scope::nic);
  EXPECT_EQ(verdicts[0].faulty, nic(kLost));
  EXPECT_EQ(verdicts[1].faulty, nic(kOther));
}

// The localiser waits for this many answers and no more, so a rank that reads none costs a bound.
TEST(FaultLocaliserQuestions, AnAnswerToAQuestionThatWasGivenUpIsIgnored) {
  FaultLocaliser localiser(hosts(2 * kQuestionsMax + 4));
  std::vector<ProbeRequest> requests;
  for (uint32_t i = 0; i < kQuestionsMax + 1; ++i) {
    Observation o = seen(2 * i, 2 * i + 1, DownCause::silent);
    localiser.observe(o, 0);
  }
  requests = localiser.wanted(10 * kMillisecond);
  ASSERT_EQ(requests.size(), kQuestionsMax + 1);
  EXPECT_EQ(requests.back().number % kQuestionsMax, requests.front().number % kQuestionsMax);
  for (const uint32_t host : requests.front().hosts) {
    localiser.on_answer({requests.front().number, host, {}}, 20 * kMillisecond);
  }
  EXPECT_EQ(localiser.due(100 * kMillisecond).size(), 0u);
}

}  // namespace
}  // namespace r2ccl
