#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/common/svg.h"
#include "tools/demo/demo.h"
#include "tools/demo/demo_gloo.h"
#include "tools/demo/demo_rate.h"
#include "tools/demo/demo_record.h"
#include "tools/demo/demo_schedule.h"
#include "tools/demo/demo_stage.h"
#include "tools/demo/demo_watch.h"

namespace r2ccl::tools {
namespace {

TEST(Svg, EscapesTextAndPutsTheOriginBelow) {
  Svg svg(100, 50, "a < b");
  svg.text({1, 2}, "\"R&D\"");
  std::string text = svg.finish();
  EXPECT_NE(text.find("<title>a &lt; b</title>"), std::string::npos);
  EXPECT_NE(text.find("&quot;R&amp;D&quot;"), std::string::npos);
  ChartArea area({10, 20}, 100, 200, {0, 10}, {0, 4});
  EXPECT_DOUBLE_EQ(area.at(5, 1).x, 60);
  EXPECT_DOUBLE_EQ(area.at(5, 1).y, 170);
}

TEST(Svg, CutsAxesAtRoundValues) {
  EXPECT_DOUBLE_EQ(round_step(44, 12), 5);
  EXPECT_DOUBLE_EQ(round_step(60, 12), 5);
  EXPECT_DOUBLE_EQ(round_step(61, 12), 10);
  EXPECT_DOUBLE_EQ(round_step(0.9, 6), 0.2);
  EXPECT_DOUBLE_EQ(round_step(0, 6), 1);
}

TEST(DemoSchedule, MendsEveryFaultBeforeTheNext) {
  DemoSchedule schedule = make_demo_schedule(4, 4, 6, 4);
  ASSERT_EQ(schedule.steps.size(), 8u);
  double last = 0;
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    EXPECT_GT(schedule.steps[i].at_s, last);
    EXPECT_EQ(schedule.steps[i].fault_label.empty(), i % 2 == 1);
    last = schedule.steps[i].at_s;
  }
  EXPECT_LE(schedule.end_s, 50);
  EXPECT_EQ(schedule.steps[6].targets.size(), 2u);
}

TEST(DemoSchedule, NeverCutsAHostOff) {
  for (int nics : {2, 3, 4, 8}) {
    for (const DemoStep& step : make_demo_schedule(2, nics, 1, 1).steps) {
      EXPECT_LT(step.targets.size(), static_cast<size_t>(nics));
    }
  }
}

TEST(DemoRecord, DrawsWithAndWithoutSamples) {
  DemoRecord record;
  EXPECT_NE(draw_demo(record).find("</svg>"), std::string::npos);
  record.samples.push_back({1, 5e6, {{1e6, 2e6}}});
  record.samples.push_back({2, 5e6, {{1e6, 2e6}}});
  record.faults.push_back({1, 2, "h2 nic1: link down"});
  record.verdicts.push_back({1.06, "h2 nic1, interface down"});
  std::string text = draw_demo(record);
  EXPECT_NE(text.find(">link down</text>"), std::string::npos);
  EXPECT_NE(text.find(">named after 60 ms:</text>"), std::string::npos);
  EXPECT_NE(text.find(">h2 nic1, interface down</text>"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

TEST(DemoCurve, SpreadsTheBytesOfAnOperationOverItsTime) {
  DemoCurve curve;
  curve.add(0.15, 0.35, 20);
  ASSERT_EQ(curve.bytes_per_s.size(), 4u);
  EXPECT_DOUBLE_EQ(curve.bytes_per_s[0], 0);
  EXPECT_NEAR(curve.bytes_per_s[1], 50, 1e-9);
  EXPECT_NEAR(curve.bytes_per_s[2], 100, 1e-9);
  EXPECT_NEAR(curve.bytes_per_s[3], 50, 1e-9);
  curve.add(1, 1, 20);  // took no time, so it has no rate
  EXPECT_EQ(curve.bytes_per_s.size(), 4u);
}

TEST(DemoRate, KeepsTheRateOfAJobThatReachesItsLine) {
  EXPECT_EQ(lower_demo_rate(kDemoRateMbit, 0.95), std::nullopt);
  EXPECT_EQ(lower_demo_rate(50, 0.9), std::nullopt);
}

TEST(DemoRate, LeavesTheProcessorRoomWhereItIsTheLimit) {
  for (const double share : {0.01, 0.1, 0.3, 0.5, 0.7, 0.84}) {
    const std::optional<double> lower = lower_demo_rate(kDemoRateMbit, share);
    ASSERT_TRUE(lower.has_value()) << share;
    EXPECT_TRUE(*lower <= 0.6 * kDemoRateMbit * share || *lower == 20) << share << " " << *lower;
  }
  EXPECT_EQ(lower_demo_rate(20, 0.01), std::nullopt);  // the lowest
}

TEST(DemoRate, ComesToAnEnd) {
  double rate = kDemoRateMbit;
  int steps = 0;
  for (; const std::optional<double> lower = lower_demo_rate(rate, 0.6); ++steps) {
    ASSERT_LT(*lower, rate);
    rate = *lower;
  }
  EXPECT_LT(steps, 10);
}

TEST(DemoRate, AnOperationTakesAsLongAtEachRate) {
  EXPECT_EQ(demo_bytes(kDemoRateMbit), "4M");
  EXPECT_EQ(demo_bytes(1000), "4M");
  EXPECT_EQ(demo_bytes(100), "2M");
  EXPECT_EQ(demo_bytes(20), "256K");
  EXPECT_EQ(demo_bytes(1), "64K");
}

TEST(DemoRate, CountsTheTimeBetweenOperationsToo) {
  const std::string file = ::testing::TempDir() + "demo_rate_test.operations";
  std::ofstream(file, std::ios::trunc) << "1 100 10.0 0 500000\n2 100 11.5 0 500000\nrubbish\n";
  EXPECT_DOUBLE_EQ(logged_rate(file, 1.5), 150);
  EXPECT_EQ(logged_rate(file + ".missing", 1.5), 0);
}

TEST(DemoRecord, KnowsTheShareOfTheLineWithoutFaults) {
  DemoRecord record;
  record.line_bytes_per_s = 100;
  EXPECT_EQ(share_without_faults(record), 0);
  record.bus.add(0, 2, 2 * 80);  // well
  record.bus.add(2, 4, 2 * 10);  // a fault, and a second to settle
  record.bus.add(4, 6, 2 * 60);  // well
  record.faults.push_back({2, 3, "h2 nic1: link down"});
  record.faults.push_back({6, 7, "h2 nic2: link down"});
  EXPECT_NEAR(share_without_faults(record), 0.7, 0.02);
}

// Returns the y coordinates of a polyline of this colour.
std::vector<double> heights_of(const std::string& picture, const std::string& before) {
  std::vector<double> heights;
  const size_t at = picture.find(before);
  if (at == std::string::npos) return heights;
  const size_t points = picture.rfind("points=\"", at) + 8;
  std::istringstream words(picture.substr(points, picture.find('"', points) - points));
  for (std::string word; words >> word;) {
    heights.push_back(std::stod(word.substr(word.find(',') + 1)));
  }
  return heights;
}

TEST(DemoRecord, DrawsEachLibraryInPercentOfItsOwnLine) {
  DemoRecord record;
  record.line_bytes_per_s = 25e6;
  record.other_line_bytes_per_s = 125e6;
  record.other_name = "Gloo, 4 NICs x 250 Mbit/s, in percent of its line";
  record.samples.push_back({1, 0, {{1e6, 2e6}}});
  for (int i = 0; i < 10; ++i) {
    record.bus.bytes_per_s.push_back(20e6);
    record.other.bytes_per_s.push_back(100e6);
  }
  const std::string text = draw_demo(record);
  EXPECT_NE(text.find("4 NICs x 250 Mbit/s"), std::string::npos);
  EXPECT_NE(text.find("whose line is 25 MB/s"), std::string::npos);
  EXPECT_NE(text.find("% of the line"), std::string::npos);
  const std::vector<double> mine = heights_of(text, "stroke=\"#1f4e9c\" stroke-width=\"2.20\"");
  const std::vector<double> other = heights_of(text, "fill=\"#8a8a8a\"");
  ASSERT_EQ(mine.size(), 10U) << text;
  ASSERT_EQ(other.size(), 12U);
  EXPECT_NEAR(mine[5], other[5], 0.01);  // both at 80 %
}

TEST(DemoGloo, CoversTheWholeDemo) {
  const DemoOptions usual;
  const DemoSchedule schedule =
      make_demo_schedule(usual.hosts, usual.nics, usual.fault_s, usual.mend_s);
  EXPECT_NEAR(static_cast<double>(demo_gloo_mbps().size()) * DemoCurve::kBinSeconds, schedule.end_s,
              0.15);
}

TEST(DemoWatch, CaptionsAVerdictInAFewWords) {
  const std::string file = ::testing::TempDir() + "demo_watch_caption_test.events";
  std::ofstream(file, std::ios::trunc)
      << R"({"t": 1.5, "verdicts": [{"scope": "nic", "host": "h2", "nic": "nic1",)"
      << R"( "kind": "interface_down"}, {"scope": "rail", "host": null, "nic": "1"}]})"
      << "\n";
  const std::vector<DemoVerdict> verdicts = DemoWatch({file}).poll();
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].caption, "h2 nic1, interface down");
  EXPECT_EQ(verdicts[0].t_s, 1.5);
}

TEST(DemoWatch, TellsAVerdictOnceAndWaitsForWholeLines) {
  std::string file = ::testing::TempDir() + "demo_watch_test.events";
  std::ofstream out(file, std::ios::trunc);
  DemoWatch watch({file, file + ".missing"});
  std::string line =
      R"({"t": 1.5, "operations": 7, "checked": 70, "wrong": 1, "verdicts": [{"kind": "hole"}]})";
  out << line.substr(0, 20) << std::flush;
  EXPECT_TRUE(watch.poll().empty());
  EXPECT_EQ(watch.operations(), 0u);
  out << line.substr(20) << "\n" << line << "\n" << std::flush;
  EXPECT_EQ(watch.poll().size(), 1u);
  EXPECT_EQ(watch.operations(), 7u);
  EXPECT_EQ(watch.checked_elements(), 70u);
  EXPECT_EQ(watch.wrong_elements(), 1u);
}

TEST(DemoWatch, KnowsTheBytesThatEachNicSent) {
  std::string file = ::testing::TempDir() + "demo_watch_nics_test.events";
  std::ofstream(file, std::ios::trunc)
      << R"({"nics": {"lo@127.0.1.1": {"tx": 5}, "lo@127.0.2.1": {"tx": 7}}})"
      << "\n";
  DemoWatch watch({file, file + ".missing"});
  watch.poll();
  EXPECT_EQ(watch.sent_bytes(), (SentBytes{{5, 7}, {}}));
}

TEST(DemoLoopback, SaysEachFaultInTheWordsOfTheFaultFile) {
  auto line = [](const LabFault* fault) {
    return fault_file_line("127.0.2.3", 31.25e6, fault).value();
  };
  EXPECT_EQ(line(nullptr), "127.0.2.3 slow 31250000");
  LabFault fault{FaultKind::pull, 0, false};
  EXPECT_EQ(line(&fault), "127.0.2.3 down slow 31250000");
  fault = {FaultKind::hole_tx, 0, false};
  EXPECT_EQ(line(&fault), "127.0.2.3 hole-tx slow 31250000");
  fault = {FaultKind::slow, 10, true};
  EXPECT_EQ(line(&fault), "127.0.2.3 slow 3125000");
  fault = {FaultKind::slow, 8, false};
  EXPECT_EQ(line(&fault), "127.0.2.3 slow 1000000");
  fault = {FaultKind::lose, 1, false};
  EXPECT_FALSE(fault_file_line("127.0.2.3", 31.25e6, &fault).ok());
}

}  // namespace
}  // namespace r2ccl::tools
