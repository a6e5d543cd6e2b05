// Tests of the output of a simulated run, for people and for programs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/simulate/sim_json.h"
#include "tools/simulate/sim_svg.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

constexpr int kOperations = 6;

Scenario scenario() {
  Scenario s;
  s.hosts = 3;
  OperationSpec operation;
  operation.count = 100'000;
  s.operations.assign(kOperations, operation);
  FaultSpec fault;
  fault.kind = FaultKind::pull;
  fault.host = 1;
  fault.at = 2 * kMillisecond;
  fault.duration = 50 * kMillisecond;
  s.faults.push_back(fault);
  return s;
}

TEST(SimJson, HasEachRanksOperationsTheFaultAndItsEffects) {
  const TrialResult result = run_trial(scenario(), true);
  const auto document = nlohmann::json::parse(trial_json(result));
  EXPECT_TRUE(document.at("violations").empty());
  EXPECT_EQ(document.at("trace").get<std::string>().size(), 16u);
  EXPECT_EQ(document.at("checked_elements"), 3u * kOperations * 100'000);
  ASSERT_EQ(document.at("operations").size(), 3u * kOperations);
  for (const auto& operation : document.at("operations")) {
    EXPECT_LT(operation.at("from_ms"), operation.at("to_ms"));
    EXPECT_FALSE(operation.contains("nic"));
  }
  ASSERT_EQ(document.at("faults").size(), 1u);
  EXPECT_EQ(document.at("faults")[0].at("host"), 1);
  EXPECT_EQ(document.at("faults")[0].at("nic"), 0);
  EXPECT_EQ(document.at("down").size(), 4u);  // two paths, each with two ends
  size_t verdicts = 0;
  for (const auto& note : document.at("notes")) {
    verdicts += note.at("what") == "verdict: nic h1 nic0, carrier_lost" ? 1 : 0;
  }
  EXPECT_EQ(verdicts, 1u);
}

TEST(SimSvg, HasARowForEachRankAndEachNic) {
  const std::string svg = draw_trial(scenario(), run_trial(scenario(), true), "a <title>");
  EXPECT_NE(svg.find("a &lt;title&gt;"), std::string::npos);
  for (const char* name : {"h0", "h1", "h2", "nic0", "nic1"}) {
    EXPECT_NE(svg.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace r2ccl::tools
