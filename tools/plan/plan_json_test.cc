// The JSON form of plans comes back as their text form.
#include "tools/plan/plan_json.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/text/plan_text.h"
#include "tools/plan/plan_view.h"

namespace r2ccl::tools {
namespace {

void expect_back(const PlanKey& key) {
  const WholePlan plan = make_whole_plan(key);
  const Result<std::string> text =
      plan_text_of_json(plan_json(prove_and_time(plan, "", std::nullopt)));
  ASSERT_TRUE(text.ok()) << text.status().message();
  const Result<WholePlan> again = parse_plan(text.value());
  ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text.value();
  EXPECT_EQ(again.value(), plan) << text.value();
}

TEST(PlanJson, ComesBack) {
  PlanKey key;
  key.rank_count = 4;
  key.count = 9;
  key.root = Rank(2);
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::scatter, Collective::all_to_all}) {
    for (const bool in_place : {false, true}) {
      key.collective = collective;
      key.in_place = in_place;
      expect_back(key);
    }
  }
}

TEST(PlanJson, HasHostsBlocksAndWideMemory) {
  PlanKey key;
  key.collective = Collective::reduce_scatter;
  key.algorithm = Algorithm::direct;
  key.type = DataType::bfloat16;
  key.rank_count = 4;
  key.blocks.counts = {3, 0, 7, 2};
  key.hosts = HostGroups(std::vector<uint32_t>{5, 1, 5, 1});
  expect_back(key);
  EXPECT_GT(make_whole_plan(key).plans[0].wide, 0u);
}

TEST(PlanJson, HasTheViewAndTheCosts) {
  PlanKey key;
  key.rank_count = 3;
  key.count = 9;
  key.view = View::of({{{1000, 250}, {0, 0}}, {{1000, 1000}}, {{500, 500}, {1, 2}}}).value();
  key.costs.memory.hop_ns = 7;
  expect_back(key);
  key.costs.network.leader_kib_ps = 2'560;
  expect_back(key);
}

TEST(PlanJson, HasAddendsAndTheRankOrder) {
  PlanKey key;
  key.type = DataType::bfloat16;
  key.rank_count = 4;
  key.count = 9;
  key.reproducible = true;
  expect_back(key);
  EXPECT_NE(print_plan(make_whole_plan(key)).find(" addend "), std::string::npos);
}

TEST(PlanJson, IsRefusedWithItsCause) {
  EXPECT_EQ(plan_text_of_json("{}").status().message(), "there is no \"collective\"");
  const auto error = [](const std::string& form) {
    return plan_text_of_json(form).status().message();
  };
  EXPECT_TRUE(
      error("{\"collective\": ").starts_with("the JSON is broken: parse error at line 1, "));
  EXPECT_EQ(error("{\"collective\": null}"),
            "\"collective\": a value of type null stands where a word must");
  const std::string words =
      R"({"collective": "barrier", "algorithm": "ring", "type": "int8", "op": "sum", "ranks": )";
  EXPECT_EQ(error(words + "-1}"), "\"ranks\": -1 stands where a number must");
  EXPECT_EQ(error(words + "1.5}"), "\"ranks\": 1.5 stands where a number must");
}

TEST(PlanJson, ThatIsDeepIsRefusedAtOnce) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(plan_text_of_json(deep).status().message(), "values stand more than 32 levels deep");
  EXPECT_EQ(plan_text_of_json("{\"parts\": " + deep).status().message(),
            "values stand more than 32 levels deep");
}

}  // namespace
}  // namespace r2ccl::tools
