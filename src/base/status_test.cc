#include "base/status.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace r2ccl {
namespace {

// An error that is on its way must never fail for want of memory.
static_assert(std::is_nothrow_copy_constructible_v<Status>);
static_assert(std::is_nothrow_copy_assignable_v<Status>);
static_assert(std::is_nothrow_move_constructible_v<Status>);

TEST(Status, CopiesShareTheText) {
  const Status error(Code::remote, std::string(1000, 'x'));
  const Status copy = error;  // NOLINT(performance-unnecessary-copy-initialization): under test
  EXPECT_EQ(copy.message().data(), error.message().data());
  EXPECT_EQ(copy, error);
}

TEST(Status, ComparesByCodeTextAndRanks) {
  const Status error(Code::remote, "it died");
  EXPECT_EQ(error, Status(Code::remote, "it died"));
  EXPECT_NE(error, Status(Code::system, "it died"));
  EXPECT_NE(error, Status(Code::remote, "it left"));
  EXPECT_NE(error, error.with_ranks({Rank(1)}));
  EXPECT_EQ(Status(), Status::ok_status());
}

TEST(Status, AnErrorInOtherWordsKeepsItsCodeAndRanks) {
  const Status error = Status(Code::remote, "it died").with_ranks({Rank(3)});
  const Status told = error.with_context("AllReduce");
  EXPECT_EQ(told, Status(Code::remote, "AllReduce: it died").with_ranks({Rank(3)}));
  EXPECT_EQ(error.message(), "it died");
  EXPECT_TRUE(Status().with_context("AllReduce").ok());
}

TEST(Status, TheErrorWithoutMemoryHasACodeAndAText) {
  const Status error = Status::out_of_memory(Code::remote);
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error, Status(Code::remote, "out of memory"));
  EXPECT_EQ(error.with_context("r2cclSend").message(), "r2cclSend: out of memory");
  EXPECT_EQ(Status::in_any_case(Code::aborted, "it was destroyed"),
            Status(Code::aborted, "it was destroyed"));
}

}  // namespace
}  // namespace r2ccl
