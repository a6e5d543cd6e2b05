// No text that another rank or a stranger sends reaches a log, an error or a terminal as it came:
// one test for each frame that carries text.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/printable.h"
#include "protocol/admin/drain.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/wire/handshake_frames.h"
#include "runtime/admin/rank_summary.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/collective/collective_mismatch_detector.h"
#include "runtime/failure_notice.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

// Takes the text's place in an encoded frame, as a sender that keeps no rules writes it.
const std::string kHonest = "an-honest-name-of-29-letters.";
const std::string kHostile = "\x1b[2J\nr0: \xc2\x9b\x31m \x9b \xe2\x80\xae z\xff\xf0\x90 ok!!";
const std::string kShown = "?[2J?r0: ?1m ? ? z??? ok!!";

Bytes spoiled(Bytes frame) {
  const auto honest = std::as_bytes(std::span(kHonest));
  const auto hostile = std::as_bytes(std::span(kHostile));
  EXPECT_EQ(honest.size(), hostile.size());
  auto at = frame.begin();
  int places = 0;
  while ((at = std::search(at, frame.end(), honest.begin(), honest.end())) != frame.end()) {
    at = std::copy(hostile.begin(), hostile.end(), at);
    ++places;
  }
  EXPECT_GT(places, 0);
  return frame;
}

TEST(HostileText, IsNotShownByAFailure) {
  for (const Code code : {Code::remote, Code::invalid_usage}) {
    const Bytes body = spoiled(encode(Failure{{code, kHonest}}));
    EXPECT_EQ(decode_failure(body), (Failure{{code, kShown}}));
  }
  const Failure departed{{Code::remote, kHonest}, true};
  EXPECT_EQ(decode_failure(spoiled(encode(departed))), (Failure{{Code::remote, kShown}, true}));
}

TEST(HostileText, OfAFailureIsBounded) {
  Bytes body(100'000, std::byte{'x'});
  EXPECT_EQ(decode_failure(body).why.message().size(), kFailureTextBytesMax);
  EXPECT_EQ(encode(Failure{{Code::remote, std::string(100'000, 'x')}}).size(),
            2 + kFailureTextBytesMax);
}

TEST(HostileText, IsNotShownByAnObservation) {
  Observation seen;
  seen.near = {0, kHonest};
  seen.far = {1, kHonest};
  const auto read = decode_observation(Rank(0), spoiled(encode(seen)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().near.nic, kShown);
  EXPECT_EQ(read.value().far.nic, kShown);
}

TEST(HostileText, IsNotShownByAVerdict) {
  Verdict verdict;
  verdict.faulty = {0, kHonest};
  verdict.other = {1, kHonest};
  const auto read = decode_verdict(spoiled(encode(verdict)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().faulty.nic, kShown);
  EXPECT_EQ(read.value().other.nic, kShown);
}

TEST(HostileText, IsNotShownByAnAnswerToAProbe) {
  ProbeAnswer answer;
  answer.tried.push_back({{0, kHonest}, {1, kHonest}, true});
  const auto read = decode_probe_answer(spoiled(encode(answer)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().tried.at(0).near.nic, kShown);
  EXPECT_EQ(read.value().tried.at(0).far.nic, kShown);
}

TEST(HostileText, IsNotShownByAReportOfCalls) {
  CallReport report;
  report.text = kHonest;
  const auto read = decode_calls(report.reason, spoiled(encode_calls(report)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().text, kShown);
}

TEST(HostileText, IsNotShownByASummaryForStatus) {
  RankSummary summary;
  summary.error = kHonest;
  const auto read = decode_rank_summary(spoiled(encode(summary)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().error, kShown);
}

TEST(HostileText, IsNotShownByAQuestionAboutADrain) {
  DrainQuestion question;
  question.nic = kHonest;
  const auto read = decode_drain_question(spoiled(encode(question)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().nic, kShown);
}

// They are compared and stand in every message, so they are refused and not mended.
TEST(HostileText, InAnyTextOfARankInfoIsRefused) {
  const auto refused = [](const auto& set) {
    RankInfo info;
    info.nics.resize(1);
    info.settings.resize(1);
    set(info);
    const Bytes honest = encode(info).value();
    EXPECT_TRUE(decode_rank_info(honest).ok());
    return decode_rank_info(spoiled(honest)).status();
  };
  EXPECT_EQ(refused([](RankInfo& info) { info.host_name = kHonest; }).message(),
            "malformed rank info: the host's name");
  EXPECT_EQ(refused([](RankInfo& info) { info.nics[0].name = kHonest; }).message(),
            "malformed rank info: a NIC's name");
  EXPECT_EQ(refused([](RankInfo& info) { info.settings[0].value = kHonest; }).message(),
            "malformed rank info: a setting's value");
  EXPECT_EQ(refused([](RankInfo& info) { info.init_error = kHonest; }).message(),
            "malformed rank info: the obstacle");
}

// A kernel lets an interface have almost any name: its job must not fail for it.
TEST(HostileText, OfThisRanksOwnNamesIsMendedBeforeItIsSent) {
  RankInfo info;
  info.host_name = kHostile;
  info.nics.resize(1);
  info.nics[0].name = kHostile;
  const auto read = decode_rank_info(encode(info).value());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().host_name, kShown);
  EXPECT_EQ(read.value().nics.at(0).name, kShown);
}

TEST(HostileText, IsNotShownByARefusalOfTheRendezvous) {
  EXPECT_EQ(decode_refused(spoiled(encode_refused({Code::remote, kHonest}))).message(), kShown);
  const Bytes endless(100'000, std::byte{'x'});
  EXPECT_EQ(decode_refused(endless).message().size(), kRefusedTextBytesMax);
}

TEST(HostileText, IsNotShownByARefusalOfTheHandshake) {
  EXPECT_EQ(decode_refusal(spoiled(encode_refusal(kHonest))), kShown);
}

}  // namespace
}  // namespace r2ccl
