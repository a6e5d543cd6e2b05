#include "tools/admin/drain_answer.h"

#include <gtest/gtest.h>

namespace r2ccl::tools {
namespace {

using nlohmann::json;

json rank(int number, json tally) {
  return {{"rank", number},
          {"host", "h" + std::to_string(number)},
          {"presence", "answered"},
          {"tally", std::move(tally)}};
}

json drained(int paths) {
  return {{"paths", paths}, {"up", paths},   {"marked", paths}, {"in_use", 0},
          {"busy", 0},      {"stranded", 0}, {"peer", -1},      {"stranded_peer", -1}};
}

json answer() {
  return {{"host", "h1"},
          {"nic", "nic1"},
          {"ranks",
           {rank(0, drained(1)), rank(1, drained(2)), rank(2, drained(1)), rank(3, drained(0))}}};
}

TEST(DrainAnswer, WithNothingInTheWayIsCounted) {
  EXPECT_TRUE(drain_obstacles(answer(), false).empty());
  EXPECT_TRUE(drain_stranded(answer()).empty());
  EXPECT_EQ(drain_sums(answer()).ranks, 3);
  EXPECT_EQ(drain_sums(answer()).paths, 2);
  EXPECT_EQ(drain_problem(answer()).why, "");
}

TEST(DrainAnswer, NamesEachObstacle) {
  json it = answer();
  it["ranks"][0]["tally"]["marked"] = 0;
  it["ranks"][1]["tally"]["busy"] = 1;
  it["ranks"][1]["tally"]["peer"] = 2;
  it["ranks"][2]["tally"]["in_use"] = 1;
  it["ranks"][3] = {{"rank", 3}, {"host", "h3"}, {"presence", "no answer"}};
  const std::vector<std::string> lines = drain_obstacles(it, false);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "rank 0 (h0) has not taken 1 paths out of service yet");
  EXPECT_EQ(lines[1], "rank 1 (h1) has chunks under way on 1 paths, one of them to rank 2");
  EXPECT_EQ(lines[2],
            "rank 2 (h2) uses 1 paths all the same, because nothing else that is in service is up");
  EXPECT_EQ(lines[3].find("rank 3 (h3) gives no answer"), 0u);
}

TEST(DrainAnswer, NamesTheProcessesOfNccl) {
  json it = answer();
  for (json& each : it["ranks"]) {
    each.update({{"pid", 41}, {"peer_host", "h7"}, {"peer_pid", 42}});
  }
  it["ranks"][0]["tally"].update({{"busy", 1}, {"peer", 1}});
  it["ranks"][1]["tally"].update({{"marked", 0}, {"stranded", 1}, {"stranded_peer", 1}});
  EXPECT_EQ(drain_obstacles(it, false)[0], "process 41 (h0) has chunks under way on 1 paths");
  EXPECT_EQ(drain_stranded(it),
            std::vector<std::string>{
                "process 41 (h1) would have no other path in service to process 42 (h7)"});
}

TEST(DrainAnswer, WaitsInAnUndoForRanksThatStillHaveItDrained) {
  EXPECT_EQ(drain_obstacles(answer(), true).size(), 3u);
  EXPECT_EQ(drain_obstacles(answer(), true)[1], "rank 1 (h1) still rests 2 paths");
  json it = answer();
  for (json& each : it["ranks"]) each["tally"]["marked"] = 0;
  EXPECT_TRUE(drain_obstacles(it, true).empty());
}

TEST(DrainAnswer, DoesNotWaitForRanksThatAreGone) {
  json it = answer();
  for (const char* presence : {"left", "dead", "cut off"}) {
    it["ranks"][2] = {{"rank", 2}, {"host", "h2"}, {"presence", presence}};
    EXPECT_TRUE(drain_obstacles(it, false).empty()) << presence;
  }
}

TEST(DrainAnswer, NamesRanksThatWouldHaveNoPathLeft) {
  json it = answer();
  for (json& each : it["ranks"]) each["tally"]["marked"] = 0;
  it["ranks"][0]["tally"]["stranded"] = 1;
  it["ranks"][0]["tally"]["stranded_peer"] = 1;
  it["ranks"][1]["tally"]["stranded"] = 2;
  EXPECT_EQ(drain_stranded(it), (std::vector<std::string>{
                                    "rank 0 (h0) would have no other path in service to rank 1",
                                    "rank 1 (h1) would have no other path in service to 2 ranks"}));
  // The NIC is already out of service, so the command can only wait.
  it["ranks"][0]["tally"]["marked"] = 1;
  EXPECT_EQ(drain_stranded(it).size(), 1u);
}

TEST(DrainAnswer, NamesRanksOfTheNicsHostThatDidNotTakeItBack) {
  json it = answer();
  ASSERT_EQ(drain_kept(it).size(), 1u) << "the others have not heard of it yet";
  EXPECT_EQ(drain_kept(it)[0].find("rank 1 (h1) has it out of service"), 0u);
  it["ranks"][1]["tally"]["marked"] = 0;
  EXPECT_TRUE(drain_kept(it).empty());
  it["ranks"][1] = {{"rank", 1}, {"host", "h1"}, {"presence", "no answer"}};
  ASSERT_EQ(drain_kept(it).size(), 1u);
  EXPECT_EQ(drain_kept(it)[0].find("rank 1 (h1) gives no answer"), 0u);
  it["ranks"][1]["presence"] = "dead";
  EXPECT_TRUE(drain_kept(it).empty());
}

TEST(DrainAnswer, ThatMakesNoSenseIsAProblemAndNotACrash) {
  const std::vector<json> without_ranks = {json(), json(7), json::array(),
                                           json{{"problem", 5}, {"unknown", json::array()}}};
  for (const json& each : without_ranks) {
    EXPECT_FALSE(drain_problem(each).why.empty());
    EXPECT_TRUE(drain_obstacles(each, false).empty());
  }
  const std::vector<json> of_wrong_types = {
      json{{"ranks", json::array({1, nullptr, "x"})}},
      json{{"ranks", json::array({{{"rank", "x"}, {"presence", 1}, {"tally", "y"}}})}}};
  for (const json& each : of_wrong_types) {
    EXPECT_FALSE(drain_obstacles(each, false).empty());
    EXPECT_TRUE(drain_stranded(each).empty());
    (void)drain_kept(each);
    EXPECT_EQ(drain_sums(each).paths, 0);
  }
  EXPECT_EQ(drain_problem({{"problem", "no\x1b host"}, {"unknown", "host"}}).unknown, "host");
}

}  // namespace
}  // namespace r2ccl::tools
