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
  const Result<std::string> text = plan_text_of_json(plan_json(plan, std::nullopt, {}));
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text.value(), print_plan(plan));
}

TEST(PlanJson, ComesBackAsTheText) {
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
  EXPECT_NE(plan_text_of_json("{\"collective\": ").status().message().find("parse error"),
            std::string::npos);
}

}  // namespace
}  // namespace r2ccl::tools
