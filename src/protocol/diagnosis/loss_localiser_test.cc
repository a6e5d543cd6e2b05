// Literal tables of losses, and the verdicts that they permit.
#include "protocol/diagnosis/loss_localiser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "testing/fault_localiser_evidence.h"

namespace r2ccl {
namespace {

constexpr LossCount kClean{.sent = 2000, .lost = 0, .periods = 16, .lossy = 0};
constexpr LossCount kLoses{.sent = 200, .lost = 10, .periods = 16, .lossy = 6};
constexpr LossCount kFewer{.sent = 200, .lost = 2, .periods = 16, .lossy = 2};
// Other NICs lose an eighth of that.
constexpr LossCount kCongested{.sent = 2000, .lost = 40, .periods = 16, .lossy = 2};
// A full queue dropped a whole super-packet, once.
constexpr LossCount kBurst{.sent = 2000, .lost = 40, .periods = 16, .lossy = 1};

struct Row {
  uint32_t from;
  uint32_t to;
  LossCount count;
  int index = 0;  // the same for both NICs
};

// Every rank reports again and again for `duration`; rank r runs on host r.
std::vector<Verdict> localised(LossLocaliser& localiser, const std::vector<Row>& rows,
                               TimeNs duration = kSecond, TimeNs from = 0) {
  std::vector<Verdict> all;
  for (TimeNs now = from; now <= from + duration; now += LossLocaliser::kReportInterval) {
    std::map<uint32_t, LossReport> reports;
    for (const Row& row : rows) {
      LossReport& report = reports[row.from];
      report.observer = Rank(static_cast<int32_t>(row.from));
      report.wall = now;
      report.samples.push_back({nic(row.from, row.index), nic(row.to, row.index), row.count});
    }
    for (const auto& [rank, report] : reports) localiser.on_report(report, now);
    for (const Verdict& verdict : localiser.due(now)) all.push_back(verdict);
  }
  return all;
}

std::vector<Verdict> localised(size_t host_count, const std::vector<Row>& rows,
                               TimeNs duration = kSecond) {
  LossLocaliser localiser(hosts(host_count));
  return localised(localiser, rows, duration);
}

// Returns the verdicts as "nic h1nic0" or "pair h0nic0 h1nic0", in order.
std::vector<std::string> words(const std::vector<Verdict>& verdicts) {
  std::vector<std::string> all;
  for (const Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.kind, DownCause::lossy);
    std::string text = to_string(verdict.scope);
    text += " h" + std::to_string(verdict.faulty.host) + verdict.faulty.nic;
    if (verdict.scope == Scope::pair) {
      text += " h" + std::to_string(verdict.other.host) + verdict.other.nic;
    }
    all.push_back(text);
  }
  std::ranges::sort(all);
  return all;
}

using Words = std::vector<std::string>;

TEST(LossLocaliser, NamesTheNicThatEveryLossyPairHasInCommon) {
  const std::vector<Row> rows = {{0, 1, kLoses}, {1, 2, kLoses}, {2, 0, kClean}, {0, 1, kClean, 1}};
  const std::vector<Verdict> verdicts = localised(3, rows);
  ASSERT_EQ(words(verdicts), Words{"nic h1nic0"});
  EXPECT_EQ(verdicts[0].loss_ppm, 50'000U);
  EXPECT_EQ(verdicts[0].rank, Rank(0));
}

TEST(LossLocaliser, NamesTheNicThatLosesInOneDirectionOnly) {
  EXPECT_EQ(words(localised(4, {{0, 1, kLoses},
                                {2, 1, kLoses},
                                {3, 1, kFewer},
                                {1, 0, kClean},
                                {0, 2, kClean},
                                {2, 3, kClean},
                                {0, 3, kClean, 2}})),
            Words{"nic h1nic0"});
  EXPECT_EQ(
      words(localised(
          4, {{1, 0, kLoses}, {1, 2, kLoses}, {0, 1, kClean}, {2, 0, kClean}, {1, 3, kClean, 2}})),
      Words{"nic h1nic0"});
}

TEST(LossLocaliser, NamesTheSameNicOnceWhileItLoses) {
  const std::vector<Row> rows = {{0, 1, kLoses}, {1, 2, kLoses}, {2, 0, kClean}, {0, 1, kClean, 1}};
  const std::vector<Row> rarely = {{0, 1, kFewer}, {2, 0, kClean}};
  LossLocaliser localiser(hosts(3));
  EXPECT_EQ(localised(localiser, rows).size(), 1U);
  EXPECT_TRUE(localised(localiser, rarely, 20 * kSecond, 2 * kSecond).empty());
  EXPECT_TRUE(localised(localiser, rows, kSecond, 23 * kSecond).empty());
  // The NIC had recovered in between.
  EXPECT_EQ(localised(localiser, rows, kSecond, 40 * kSecond).size(), 1U);
}

TEST(LossLocaliser, NamesThePairWhereBothEndsExplainItAlike) {
  const std::vector<Row> two = {{0, 1, kLoses}, {1, 0, kLoses}, {0, 1, kClean, 1}};
  EXPECT_EQ(words(localised(2, two)), Words{"pair h0nic0 h1nic0"});
  // With more hosts others may still lose packets to one of the two.
  const std::vector<Row> one = {{0, 1, kLoses}, {1, 2, kClean}, {2, 0, kClean}, {0, 1, kClean, 1}};
  EXPECT_TRUE(localised(3, one, kSecond).empty());
  EXPECT_EQ(words(localised(3, one, 3 * kSecond)), Words{"pair h0nic0 h1nic0"});
}

TEST(LossLocaliser, NamesTwoNicsThatOnlyTogetherExplainAllLoss) {
  // Host 1 and host 3 of five, on one rail.
  std::vector<Row> rows = {{0, 1, kClean, 1}, {2, 3, kClean, 1}, {1, 4, kClean, 1}};
  for (uint32_t from = 0; from < 5; ++from) {
    for (uint32_t to = 0; to < 5; ++to) {
      const bool loses = from == 1 || from == 3 || to == 1 || to == 3;
      if (from != to) rows.push_back({from, to, loses ? kLoses : kClean});
    }
  }
  EXPECT_EQ(words(localised(5, rows)), (Words{"nic h1nic0", "nic h3nic0"}));
}

// With three hosts two lossy NICs and a lossy switch are the same evidence.
// A named NIC goes on losing a few packets, too few for most of its pairs to count as lossy.
TEST(LossLocaliser, NamesNoNicForTheLossOfANamedOne) {
  LossLocaliser localiser(hosts(4));
  const std::vector<Row> before = {
      {0, 2, kLoses}, {1, 2, kLoses}, {3, 2, kLoses}, {0, 1, kClean}, {0, 1, kClean, 1}};
  EXPECT_EQ(words(localised(localiser, before)), Words{"nic h2nic0"});
  const std::vector<Row> after = {{0, 2, kFewer}, {0, 1, kLoses}, {0, 3, kClean, 1}};
  EXPECT_EQ(words(localised(localiser, after, kSecond, 2 * kSecond)), Words{});
}

TEST(LossLocaliser, NamesNoNicOfARingOfLossyPairs) {
  EXPECT_TRUE(
      localised(3, {{0, 1, kLoses}, {1, 2, kLoses}, {2, 0, kLoses}, {0, 1, kClean, 1}}, 5 * kSecond)
          .empty());
}

TEST(LossLocaliser, CountsABurstAsCongestion) {
  EXPECT_TRUE(localised(4,
                        {{0, 1, kBurst},
                         {2, 1, kBurst},
                         {3, 1, kBurst},
                         {1, 2, kBurst},
                         {1, 3, kBurst},
                         {1, 0, kBurst},
                         {0, 2, kClean},
                         {0, 1, kClean, 1}},
                        5 * kSecond)
                  .empty());
  // A single burst that hits many pairs twice is over before it counts.
  LossLocaliser localiser(hosts(4));
  EXPECT_TRUE(localised(localiser, {{0, 1, kLoses}, {2, 1, kLoses}, {0, 1, kClean, 1}}, 0).empty());
}

TEST(LossLocaliser, CountsALossOfAllNicsOfAHostAsAFanIn) {
  EXPECT_TRUE(localised(4,
                        {{0, 1, kLoses},
                         {2, 1, kLoses},
                         {0, 1, kLoses, 1},
                         {2, 1, kLoses, 1},
                         {0, 1, kLoses, 2},
                         {2, 1, kLoses, 2},
                         {0, 2, kClean}},
                        5 * kSecond)
                  .empty());
}

TEST(LossLocaliser, CountsALossThatOthersHaveTooAsCongestion) {
  EXPECT_TRUE(localised(6,
                        {{0, 1, kLoses},
                         {2, 1, kLoses},
                         {3, 4, kCongested, 2},
                         {4, 5, kCongested, 2},
                         {0, 1, kClean, 1}},
                        5 * kSecond)
                  .empty());
}

TEST(LossLocaliser, IgnoresReportsThatContradictThemselves) {
  constexpr LossCount kMore{.sent = 5, .lost = 10, .periods = 16, .lossy = 6};
  constexpr LossCount kLonger{.sent = 200, .lost = 10, .periods = 90, .lossy = 60};
  EXPECT_TRUE(localised(3, {{0, 1, kMore}, {1, 2, kMore}}).empty());
  EXPECT_TRUE(localised(3, {{0, 1, kLonger}, {1, 2, kLonger}}).empty());
  EXPECT_TRUE(localised(2, {{0, 7, kLoses}, {9, 1, kLoses}}).empty());
}

// Two faults at other ends hit three paths in the same 250 ms. Their windows hold that for seconds.
TEST(LossLocaliser, AShortOutageOfSeveralPathsNamesNoNic) {
  constexpr LossCount kTwice{.sent = 60, .lost = 1, .periods = 3, .lossy = 2};
  constexpr LossCount kAgain{.sent = 90, .lost = 2, .periods = 8, .lossy = 3};
  const std::vector<Row> rows = {
      {1, 2, kTwice}, {1, 3, kTwice}, {3, 1, kTwice}, {0, 1, kClean}, {0, 1, kClean, 1}};
  LossLocaliser localiser(hosts(4));
  EXPECT_TRUE(localised(localiser, rows, 3 * kSecond).empty());
  std::vector<Row> later = rows;
  later[2].count = kAgain;
  EXPECT_EQ(words(localised(localiser, later, kSecond, 3 * kSecond)), Words{"nic h1nic0"});
}

// Two faults, one after the other, at both neighbours of a NIC: the windows of both pairs still
// hold their losses.
TEST(LossLocaliser, NamesNoNicBetweenPairsThatLostOneAfterTheOther) {
  LossLocaliser localiser(hosts(4));
  const auto with = [](const LossCount& first, const LossCount& second) {
    return std::vector<Row>{{0, 1, first}, {1, 2, second}, {2, 3, kClean}, {0, 1, kClean, 1}};
  };
  const LossCount grown{.sent = 200, .lost = 14, .periods = 16, .lossy = 8};
  EXPECT_EQ(words(localised(localiser, with(kClean, kLoses))), Words{});
  EXPECT_EQ(
      words(localised(localiser, with(kClean, grown), 250 * kMillisecond, 1250 * kMillisecond)),
      Words{});
  EXPECT_EQ(words(localised(localiser, with(kLoses, grown), kSecond, 1750 * kMillisecond)),
            Words{});
  // The second pair goes on losing, so one cause suffices.
  const LossCount more{.sent = 200, .lost = 16, .periods = 16, .lossy = 9};
  EXPECT_EQ(words(localised(localiser, with(kLoses, more), kSecond, 3 * kSecond)),
            Words{"nic h1nic0"});
}

TEST(LossLocaliser, SaysWhetherALossExplainsABrokenConnection) {
  LossLocaliser localiser(hosts(3));
  EXPECT_EQ(localiser.explains(nic(0), nic(1), 0), LossExplains::no);
  const std::vector<Row> rows = {{0, 1, kLoses}, {1, 2, kLoses}, {2, 0, kClean}, {0, 1, kClean, 1}};
  localised(localiser, rows, 0);
  EXPECT_EQ(localiser.explains(nic(1), nic(0), 0), LossExplains::perhaps);
  EXPECT_EQ(localiser.explains(nic(2), nic(0), 0), LossExplains::no);
  localised(localiser, rows);
  EXPECT_EQ(localiser.explains(nic(1), nic(0), kSecond), LossExplains::yes);
  EXPECT_EQ(localiser.explains(nic(2), nic(0), kSecond), LossExplains::no);
}

// Connections that break because packets are lost are the same fault.
TEST(LossLocaliser, KeepsTheFaultLocaliserFromNamingThePairsOfALossyNic) {
  const auto verdicts_with = [](LossExplains explains, TimeNs until) {
    FaultLocaliser localiser(hosts(3));
    localiser.observe(seen(0, 1, DownCause::stalled), 0);
    localiser.observe(seen(0, 1, DownCause::interface_down, 1), 0);
    size_t count = 0;
    for (TimeNs now = 0; now <= until; now += 10 * kMillisecond) {
      localiser.explain_by_loss([&](const NicName&, const NicName&) { return explains; }, now);
      (void)localiser.wanted(now);
      count += localiser.due(now).size();
    }
    return count;
  };
  EXPECT_EQ(verdicts_with(LossExplains::no, kSecond), 2U);
  EXPECT_EQ(verdicts_with(LossExplains::yes, 5 * kSecond), 1U);
  EXPECT_EQ(verdicts_with(LossExplains::perhaps, kSecond), 1U);
  EXPECT_EQ(verdicts_with(LossExplains::perhaps, 3 * kSecond), 2U);
}

TEST(LossReport, SurvivesTheWire) {
  LossReport report{.observer = Rank(3), .wall = 17, .samples = {{nic(0), nic(1), kLoses}}};
  EXPECT_EQ(decode_loss_report(encode(report)).value(), report);
  const std::vector<std::byte> bytes = encode(report);
  EXPECT_FALSE(decode_loss_report(std::span(bytes).first(bytes.size() - 1)).ok());
  report.samples.assign(100, {nic(0), nic(1), kClean});
  report.samples.push_back({nic(2), nic(1), kLoses});
  const LossReport cut = decode_loss_report(encode(report)).value();
  ASSERT_EQ(cut.samples.size(), kLossSamplesMax);
  EXPECT_EQ(cut.samples[0], (LossSample{nic(2), nic(1), kLoses}));
}

}  // namespace
}  // namespace r2ccl
