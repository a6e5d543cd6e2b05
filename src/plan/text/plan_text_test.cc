#include "plan/text/plan_text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "plan/analysis/checker.h"
#include "plan/text/plan_words.h"

namespace r2ccl {
namespace {

// Small segments, so that small counts make plans of several segments.
PlanLimits short_segments() {
  PlanLimits limits;
  limits.column_bytes_min = 16;
  limits.segment_bytes_min = 8;
  limits.segment_bytes_max = 24;
  return limits;
}

PlanKey rooted_key(Collective collective, Algorithm algorithm, int32_t ranks, uint64_t count) {
  PlanKey key;
  key.collective = collective;
  key.algorithm = algorithm;
  key.rank_count = ranks;
  key.root = Rank(ranks / 2);
  key.count = count;
  return key;
}

void expect_back(const WholePlan& plan) {
  const std::string text = print_plan(plan);
  const Result<WholePlan> again = parse_plan(text);
  ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
  EXPECT_EQ(again.value(), plan) << text;
  EXPECT_EQ(print_plan(again.value()), text);
}

TEST(PlanText, EveryPlanComesBack) {
  for (const auto& [collective, name] : kCollectiveWords) {
    SCOPED_TRACE(name);
    for (const auto& [algorithm, algorithm_name] : kAlgorithmWords) {
      SCOPED_TRACE(algorithm_name);
      for (int32_t ranks = 1; ranks <= 9; ++ranks) {
        for (const uint64_t count : {0, 1, 5, 37}) {
          PlanKey key = rooted_key(collective, algorithm, ranks, count);
          expect_back(make_whole_plan(key, short_segments()));
          key.in_place = true;
          std::vector<uint32_t> host_of;
          for (int32_t rank = 0; rank < ranks; ++rank) {
            host_of.push_back(static_cast<uint32_t>(rank * 3 / ranks));
          }
          key.hosts = HostGroups(host_of);
          expect_back(make_whole_plan(key, short_segments()));
        }
      }
    }
  }
}

TEST(PlanText, TheFactsOfEachRankComeBack) {
  PlanKey key = rooted_key(Collective::all_to_all, Algorithm::automatic, 3, 0);
  key.type = DataType::bfloat16;
  key.op = ReduceOp::premulsum;
  WholePlan whole;
  for (int32_t rank = 0; rank < 3; ++rank) {
    key.in_place = rank == 1;
    const auto r = static_cast<uint64_t>(rank);
    key.blocks = {{r, r, r}, {0, 10, 20}};
    key.received = {{0, 1, 2},
                    rank == 2 ? std::vector<uint64_t>{} : std::vector<uint64_t>{7, 8, 9}};
    whole.keys.push_back(key);
    whole.plans.push_back({Rank(rank), {}, r * 100});
  }
  expect_back(whole);
}

TEST(PlanText, TheViewAndTheCostsComeBack) {
  PlanKey key = rooted_key(Collective::all_reduce, Algorithm::ring, 4, 7);
  key.view = View::of({{{1000, 250}, {0, 0}}, {{1, 1}, {1, 1}}, {{5, 5}}, {{5, 5}}}).value();
  key.costs.memory.hop_ns = 1;
  expect_back(make_whole_plan(key));
  key.costs.network.leader_kib_ps = 2'560;
  expect_back(make_whole_plan(key));
  key.hosts = HostGroups(std::vector<uint32_t>{0, 1, 0, 1});
  key.view = View::of({{{1000, 1000}}, {{500, 1000}}}).value();
  expect_back(make_whole_plan(key));
  EXPECT_NE(
      print_plan(make_whole_plan(key))
          .find(" hosts 0,1,0,1 view 1000/500:1000 memory_costs 1,4000,500,600,20000,4000,250 "
                "network_costs 60000,20000,8500,9500,60000,10000,2.56\n"),
      std::string::npos);
}

TEST(PlanCosts, HaveATextInNsWithAsManyDecimalsAsTheyNeed) {
  const DomainCosts costs = domain_costs({7, 8, 2'560, 10, 9, 10, 3'000});
  EXPECT_EQ(to_string(costs), "7,8,2.56,0.01,9,10,3");
  EXPECT_EQ(parse_domain_costs("7,8,2.56,0.01,9,10,3"), costs);
  EXPECT_EQ(parse_domain_costs("7,8,2.560,0.010,9,10,3.0"), costs);
  for (const char* wrong : {"7,8,2.,1,9,10,3", "7,8,.5,1,9,10,3", "7,8,2.5678,1,9,10,3",
                            "7.5,8,2,1,9,10,3", "7,8,2,1,9,10,3.1e3", "7,8,2,1,9,10,3,",
                            "7,8,18446744073709552,1,9,10,3", "7,8,-2,1,9,10,3"}) {
    EXPECT_EQ(parse_domain_costs(wrong), std::nullopt) << wrong;
  }
}

TEST(PlanText, ReadsLikeThis) {
  EXPECT_EQ(print_plan(make_whole_plan(rooted_key(Collective::all_reduce, Algorithm::ring, 2, 5))),
            "r2ccl-plan 1 collective all_reduce algorithm ring type float32 op sum ranks 2 root 1 "
            "count 5\n"
            "rank 0 steps 4 scratch 0\n"
            "0 send peer 1 source input:0+3\n"
            "1 receive_reduce peer 1 source input:3+2 target output:3+2 operands own_first "
            "last_reduction\n"
            "2 send peer 1 source output:3+2 after 1\n"
            "3 receive peer 1 target output:0+3\n"
            "rank 1 steps 4 scratch 0\n"
            "0 send peer 0 source input:3+2\n"
            "1 receive_reduce peer 0 source input:0+3 target output:0+3 operands own_first "
            "last_reduction\n"
            "2 send peer 0 source output:0+3 after 1\n"
            "3 receive peer 0 target output:3+2\n");
}

TEST(PlanText, LinesWithoutMeaningAreLeftOut) {
  const WholePlan plan = make_whole_plan(rooted_key(Collective::barrier, Algorithm::ring, 3, 0));
  std::string text = print_plan(plan);
  text.insert(text.find("rank 1"), "\n  # the second rank\n");
  text = "# by hand\n\n" + text + "   \n# the end";
  const Result<WholePlan> again = parse_plan(text);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again.value(), plan);
}

constexpr const char* kHeader =
    "r2ccl-plan 1 collective all_reduce algorithm ring type float32 op sum ranks 2 root 0 count 4";
constexpr const char* kStep = "1 copy source input:0+4 target output:0+4 after 0";

// Returns a plan of two ranks whose lines 2 and 4 are these.
std::string with_lines(const std::string& rank, const std::string& step) {
  return std::string(kHeader) + "\n" + rank + "\n0 send peer 1 source input:0+4\n" + step +
         "\nrank 1 steps 0 scratch 0\n";
}
std::string with_step(const std::string& step) {
  return with_lines("rank 0 steps 2 scratch 0", step);
}
std::string with_rank(const std::string& rank) {
  return with_lines(rank, kStep);
}
// Returns the plan with another word in its first line.
std::string with_header(const std::string& word, const std::string& other) {
  std::string text = with_step(kStep);
  return text.replace(text.find(word), word.size(), other);
}

TEST(PlanText, LinesMayEndAsOnWindows) {
  std::string text;
  for (const char c : with_step(kStep)) text += c == '\n' ? "\r\n" : std::string(1, c);
  const Result<WholePlan> plan = parse_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan.value(), parse_plan(with_step(kStep)).value());
}

void expect_refused(const std::string& text, const std::string& error) {
  const Result<WholePlan> plan = parse_plan(text);
  ASSERT_FALSE(plan.ok()) << text;
  EXPECT_EQ(plan.status().code(), Code::invalid_argument);
  EXPECT_EQ(plan.status().message(), error) << text;
}

TEST(PlanText, AWrongFirstLineIsRefusedWithTheCause) {
  ASSERT_TRUE(parse_plan(with_step(kStep)).ok());
  expect_refused("", "line 1: the line ends where 'r2ccl-plan' must stand");
  expect_refused(with_header("r2ccl-plan", "plan"), "line 1: 'plan' where 'r2ccl-plan' must stand");
  expect_refused(with_header("plan 1", "plan 2"), "line 1: the form has another version than 1");
  expect_refused(with_header("all_reduce", "allreduce"),
                 "line 1: 'allreduce' is no collective; there are all_reduce, broadcast, barrier, "
                 "reduce, all_gather, reduce_scatter, gather, scatter, all_to_all");
  expect_refused(with_header("algorithm", "algo"), "line 1: 'algo' where 'algorithm' must stand");
  expect_refused(with_header("float32", "float31"), "line 1: 'float31' is no type");
  expect_refused(with_header("sum", "bor"), "line 1: op: bor needs an integer type");
  expect_refused(with_header("ranks 2", "ranks 0"), "line 1: ranks: a plan has at least one rank");
  expect_refused(with_header("ranks 2", "ranks 1025"), "line 1: ranks: '1025' is more than 1024");
  expect_refused(with_header("root 0", "root 2"), "line 1: root: '2' is more than 1");
  expect_refused(with_header("count 4", "count -4"), "line 1: count: '-4' is no number");
  expect_refused(with_header("count 4", "count 1099511627776"),
                 "line 1: count: '1099511627776' is more than 1099511627775");
  expect_refused(with_header("count 4", "count 99999999999999999999"),
                 "line 1: count: '99999999999999999999' is more than 1099511627775");
  expect_refused(with_header("count 4", "count 4 hosts 0,0,1"),
                 "line 1: hosts: there are 3 numbers for 2 ranks");
  expect_refused(with_header("count 4", "count 4 hosts 0,"), "line 1: hosts: a number is missing");
  expect_refused(with_header("count 4", "count 4 view 1000"), "line 1: view: it has 1 of 2 hosts");
  expect_refused(with_header("count 4", "count 4 view"), "line 1: view: the line ends");
  expect_refused(with_header("count 4", "count 4 network_costs 1,2"),
                 "line 1: network_costs: '1,2' is not seven numbers");
  expect_refused(with_header("count 4", "count 4 quick"),
                 "line 1: the word 'quick' is not expected here");
}

TEST(PlanText, AWrongBlockOfARankIsRefusedWithTheCause) {
  expect_refused(with_rank("rank 1 steps 2 scratch 0"),
                 "line 2: the block of rank 0 must stand here");
  expect_refused(with_rank("rank 0 steps 3 scratch 0"),
                 "line 5: rank 0 has 2 steps, and its block says 3");
  expect_refused(with_rank("rank 0 steps 4000000000 scratch 0"),
                 "line 5: rank 0 has 2 steps, and its block says 4000000000");
  expect_refused(with_rank("rank 0 steps 1 scratch 0"), "line 4: '1' where 'rank' must stand");
  expect_refused(with_rank("rank 0 steps 2 scratch 0 in_place in_place"),
                 "line 2: the word 'in_place' is not expected here");
  expect_refused(with_rank("rank 0 steps 2 scratch 0 counts 1,2,3"),
                 "line 2: counts: there are 3 numbers for 2 ranks");
  expect_refused(with_rank("rank 0 steps 2 scratch 0 starts 1,x"),
                 "line 2: starts: 'x' is no number");
  std::string text = with_step(kStep);
  expect_refused(text + "rank 2 steps 0 scratch 0\n",
                 "line 6: the word 'rank' is not expected here");
  expect_refused(text.substr(0, text.find("rank 1")), "line 5: the text ends before rank 1");
}

TEST(PlanText, AWrongStepIsRefusedWithTheCause) {
  expect_refused(with_step("2 copy source input:0+4 target output:0+4"),
                 "line 4: step 1 must stand here");
  expect_refused(
      with_step("1 sned peer 1 source input:0+4"),
      "line 4: 'sned' is no kind of step; there are send, receive, receive_reduce, copy, "
      "reduce");
  expect_refused(with_step("1 send peer 2 source input:0+4"), "line 4: peer: '2' is more than 1");
  expect_refused(with_step("1 send peer 0 source input:0+4"), "line 4: peer: 0 is the rank itself");
  expect_refused(with_step("1 send peer 1 target input:0+4"),
                 "line 4: 'target' where 'source' must stand");
  expect_refused(with_step("1 copy source input:0+4"),
                 "line 4: the line ends where 'target' must stand");
  for (const char* region : {"inputs:0+4", "input0+4", "input:0-4", "input+0:4", ""}) {
    expect_refused(with_step(std::string("1 send peer 1 source ") + region),
                   "line 4: " + (*region == 0 ? "the line ends" : "'" + std::string(region) + "'") +
                       " is no region; write BUFFER:OFFSET+COUNT, where BUFFER is one of input, "
                       "output, scratch, wide");
  }
  expect_refused(with_step("1 send peer 1 source input:1125899906842624+1"),
                 "line 4: the region 'input:1125899906842624+1' ends beyond element "
                 "1125899906842624");
  expect_refused(with_step("1 send peer 1 source input:18446744073709551615+1"),
                 "line 4: offset: '18446744073709551615' is more than 1125899906842624");
  expect_refused(with_step("1 send peer 1 source input:0+4 after 1"),
                 "line 4: after: 1 is no step before step 1");
  expect_refused(with_step("1 send peer 1 source input:0+4 after 0,4294967295"),
                 "line 4: after: 4294967295 is no step before step 1");
  expect_refused(with_step("1 send peer 1 source input:0+4 after 0 0"),
                 "line 4: the word '0' is not expected here");
  expect_refused(with_step("1 receive_reduce peer 1 source input:0+4 target output:0+4 operands x"),
                 "line 4: 'x' is no operands; there are own_first, received_first");
  expect_refused(with_step("1 \x1b[2Jsend"),
                 "line 4: '?[2Jsend' is no kind of step; there are send, receive, receive_reduce, "
                 "copy, reduce");
}

TEST(PlanText, AHugeTextIsRefused) {
  const Result<WholePlan> plan = parse_plan(std::string(kPlanTextBytesMax + 1, '\n'));
  EXPECT_EQ(plan.status().message(), "line 1: the text has more than 67108864 bytes");
}

TEST(PlanText, APlanThatWasReadCanBeProved) {
  const WholePlan plan =
      make_whole_plan(rooted_key(Collective::all_reduce, Algorithm::ring, 4, 37));
  std::string text = print_plan(plan);
  WholePlan again = parse_plan(text).value();
  EXPECT_TRUE(check_plan(again.keys, again.plans).ok());
  const size_t mark = text.find(" last_reduction");
  again = parse_plan(text.erase(mark, std::string(" last_reduction").size())).value();
  EXPECT_FALSE(check_plan(again.keys, again.plans).ok());
}

}  // namespace
}  // namespace r2ccl
