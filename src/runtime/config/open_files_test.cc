#include "runtime/config/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace r2ccl {
namespace {

// Sets the limit of open files, and restores it.
class Limit {
 public:
  explicit Limit(rlim_t files) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{files, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~Limit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  rlimit before_{};
};

TEST(OpenFiles, ALimitThatIsTooLowIsNamedWithTheNeed) {
  const Limit limit(16);
  const std::string text = check_open_files(2).message();
  EXPECT_NE(text.find(" needs at least 18:"), std::string::npos) << text;
  EXPECT_NE(text.find("which is 16 (ulimit -n)"), std::string::npos) << text;
}

TEST(OpenFiles, EachPeerNeedsOne) {
  const Limit limit(256);
  EXPECT_TRUE(check_open_files(2).ok());
  EXPECT_FALSE(check_open_files(256).ok());
  EXPECT_TRUE(check_open_files(1).ok()) << "it meets nobody";
}

}  // namespace
}  // namespace r2ccl
