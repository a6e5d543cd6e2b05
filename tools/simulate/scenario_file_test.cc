#include "tools/simulate/scenario_file.h"

#include <gtest/gtest.h>

namespace r2ccl::tools {

using namespace sim;
namespace {

std::string error_of(const std::string& text) {
  const auto scenario = parse_scenario(text, "f.toml");
  return scenario.ok() ? "" : scenario.status().message();
}

TEST(ScenarioFile, OfEverySeedGivesTheScenarioBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Scenario s = scenario_of(seed);
    const auto again = parse_scenario(to_toml(s), "f.toml");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again.value(), s) << to_toml(s);
  }
}

TEST(ScenarioFile, NeedsLittle) {
  const auto scenario = parse_scenario("[[operation]]\ncount = 5\nrepeat = 3\n", "f.toml");
  ASSERT_TRUE(scenario.ok()) << scenario.status().message();
  EXPECT_EQ(scenario.value().hosts, 2);
  ASSERT_EQ(scenario.value().operations.size(), 3U);
  EXPECT_EQ(scenario.value().operations[2].count, 5U);
}

TEST(ScenarioFile, GivesTheRateAndTheAlgorithmOfPlansBack) {
  const auto read = parse_scenario(
      "plan_bytes_per_s = 5000000000\n[[operation]]\ncount = 5\nalgorithm = \"nested\"\n",
      "f.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const auto again = parse_scenario(to_toml(read.value()), "f.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again.value().plan_bytes_per_s, 5'000'000'000U);
  EXPECT_EQ(again.value().operations.front().algorithm, Algorithm::nested);
}

TEST(ScenarioFile, GivesMoreRepeatsBackThanOneOperationMayHave) {
  const std::string many = "[[operation]]\ncount = 5\nrepeat = 100000\n";
  const auto scenario = parse_scenario(many + many, "f.toml");
  ASSERT_TRUE(scenario.ok()) << scenario.status().message();
  const auto again = parse_scenario(to_toml(scenario.value()), "f.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again.value(), scenario.value());
}

TEST(ScenarioFile, BoundsTheOperationsOfAllTables) {
  std::string text;
  for (int i = 0; i < 11; ++i) text += "[[operation]]\nrepeat = 100000\n";
  EXPECT_NE(error_of(text).find("more than 1000000 operations in all"), std::string::npos);
}

TEST(ScenarioFile, NamesThePlaceOfAnErrorAndThePermittedValues) {
  const std::string job = "[[operation]]\n";
  EXPECT_EQ(error_of("hosts = 1\n" + job), "f.toml:1: hosts must be a whole number from 2 to 256");
  EXPECT_EQ(error_of("hosts = 2\nnic = 3\n" + job).substr(0, 25), "f.toml:2: unknown key nic");
  EXPECT_EQ(error_of("[[operation]]\nkind = \"tagged\"\nalgorithm = \"ring\"\n").substr(0, 45),
            "f.toml:3: [[operation]] unknown key algorithm");
  EXPECT_EQ(error_of("hosts = 3"), "f.toml: there is nothing to do: write an [[operation]]");
  EXPECT_NE(error_of(job + "kind = \"allreduce\"").find("all_reduce, broadcast"),
            std::string::npos);
  EXPECT_NE(error_of(job + "[[fault]]\nkind = \"fire\"").find("f.toml:3: [[fault]] kind must be"),
            std::string::npos);
  EXPECT_NE(error_of(job + "[[fault]]\nkind = \"loss\"").find("loss needs an amount"),
            std::string::npos);
  EXPECT_NE(error_of(job + "[[fault]]\nkind = \"hole\"\nhost = 2").find("from 0 to 1"),
            std::string::npos);
  EXPECT_NE(error_of("operation = 3").find("[[operation]]"), std::string::npos);
  EXPECT_NE(error_of("hosts = = 3").find("f.toml:1: "), std::string::npos);
  for (const char* header : {"[[%]]", "[", "[[", "[[[a]]]", " [ \x01]", "\xef\xbb\xbf[%]"}) {
    EXPECT_EQ(error_of("hosts = 2\n" + std::string(header) + "\n"),
              "f.toml:2: write a table's name in letters: [[operation]]");
  }
  std::string parts;
  for (int part = 0; part < 1'000'000; ++part) parts += ".a";
  for (const std::string& deep : {"a" + parts + " = 1", "[a" + parts + "]", "[[a" + parts + "]]",
                                  "\"#\"" + parts + " = 1", "a = {b" + parts + " = 1}"}) {
    EXPECT_EQ(error_of("hosts = 2\n" + deep + "\n" + job),
              "f.toml:2: a key or text has more than 64 parts");
  }
  EXPECT_NE(error_of("latency_us = 50001\n" + job).find("a number from 0 to 50000"),
            std::string::npos);
  EXPECT_NE(error_of("think_max_ms = -1\n" + job).find("must be a time"), std::string::npos);
}

}  // namespace
}  // namespace r2ccl::tools
