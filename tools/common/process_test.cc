#include "tools/common/process.h"

#include <gtest/gtest.h>

namespace r2ccl::tools {
namespace {

TEST(Process, FeedsInputAndCollectsBothOutputs) {
  // More bytes than a pipe holds, so that a one-sided conversation would hang.
  std::string input(1 << 20, 'x');
  Result<Outcome> outcome = run_program({{"sh", "-c", "tee /dev/stderr; exit 7"}, input, ""});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome.value().status, 7);
  EXPECT_EQ(outcome.value().out, input);
  EXPECT_EQ(outcome.value().err, input);
}

TEST(Process, SurvivesAProgramThatDoesNotReadItsInput) {
  Result<Outcome> outcome = run_program({{"true"}, std::string(1 << 20, 'x'), ""});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().status, 0);
}

TEST(Process, NamesAMissingProgram) {
  Result<Outcome> outcome = run_program({{"no-such-program"}, "", ""});
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.status().message().find("no-such-program"), std::string::npos);
}

TEST(Process, QuotesTheOutputOfAFailedProgram) {
  Result<std::string> outcome = run_checked({{"sh", "-c", "echo no cheese >&2; exit 3"}, "", ""});
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.status().message().find("no cheese"), std::string::npos);
}

TEST(Process, ReportsTheSignalThatEndedAProgram) {
  Result<Outcome> outcome = run_program({{"sh", "-c", "kill -9 $$"}, "", ""});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.value().status, 128 + 9);
}

}  // namespace
}  // namespace r2ccl::tools
