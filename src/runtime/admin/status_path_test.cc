#include "runtime/admin/status_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace r2ccl {
namespace {

TEST(StatusName, TellsProcessCommunicatorAndRank) {
  const StatusName name{4711, 0x0123456789abcdefu, Rank(12)};
  EXPECT_EQ(to_string(name), "4711-0123456789abcdef-12.sock");
  EXPECT_EQ(parse_status_name(to_string(name)), name);
}

TEST(StatusName, IsNothingThatLooksAlmostLikeOne) {
  for (const char* text :
       {"", ".", "..", "4711", "4711-0123456789abcdef-1", "4711-0123456789abcdef-1.sock.new",
        "4711-123456789abcdef-1.sock", "04711-0123456789abcdef-1.sock",
        "4711-0123456789ABCDEF-1.sock", "-1-0123456789abcdef-1.sock",
        "4711-0123456789abcdef-1.sock/", "99999999999-0123456789abcdef-1.sock"}) {
    EXPECT_FALSE(parse_status_name(text)) << text;
  }
}

TEST(StatusDirectory, LiesInTheRuntimeDirectoryOrInTmp) {
  EXPECT_EQ(status_directory("/run/user/7", 7), "/run/user/7/r2ccl-7");
  EXPECT_EQ(status_directory("", 7), "/tmp/r2ccl-7");
  EXPECT_EQ(status_directory("relative", 7), "/tmp/r2ccl-7");
}

class CheckedDirectory : public testing::Test {
 protected:
  CheckedDirectory() {
    std::string pattern = testing::TempDir() + "r2ccl_status.XXXXXX";
    root_ = mkdtemp(pattern.data());
    place_ = root_ + "/place";
  }
  ~CheckedDirectory() override { std::filesystem::remove_all(root_); }
  std::string why_not(uint32_t uid) { return check_status_directory(place_, uid).message(); }

  std::string root_;
  std::string place_;
};

TEST_F(CheckedDirectory, IsTrustedWhenItIsTheUsersOwnAndClosed) {
  EXPECT_NE(why_not(geteuid()), "") << "it is not there";
  ASSERT_EQ(mkdir(place_.c_str(), 0700), 0);
  EXPECT_EQ(why_not(geteuid()), "");
  EXPECT_NE(why_not(geteuid() + 1).find("belongs to uid"), std::string::npos);
}

TEST_F(CheckedDirectory, IsNotTrustedWhenOthersMayLookIn) {
  ASSERT_EQ(mkdir(place_.c_str(), 0700), 0);
  for (const mode_t mode : {0710u, 0701u, 0755u, 0500u}) {
    ASSERT_EQ(chmod(place_.c_str(), mode), 0);
    EXPECT_NE(why_not(geteuid()).find("chmod 700"), std::string::npos) << mode;
  }
}

TEST_F(CheckedDirectory, IsNotTrustedWhenItIsALinkOrAFile) {
  ASSERT_EQ(symlink(root_.c_str(), place_.c_str()), 0);
  EXPECT_NE(why_not(geteuid()).find("not a directory"), std::string::npos);
  ASSERT_EQ(unlink(place_.c_str()), 0);
  std::ofstream(place_) << "a file";
  EXPECT_NE(why_not(geteuid()).find("not a directory"), std::string::npos);
}

}  // namespace
}  // namespace r2ccl
