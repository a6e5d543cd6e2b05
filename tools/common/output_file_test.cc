#include "tools/common/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace r2ccl::tools {
namespace {

TEST(OutputFile, ThatCannotBeWrittenIsAnErrorThatNamesTheOption) {
  EXPECT_EQ(check_writable("--json", "/nonexistent/x").message(),
            "--json /nonexistent/x: No such file or directory");
  EXPECT_EQ(check_writable("--json", "/").message(), "--json /: Is a directory");
}

TEST(OutputFile, ThatCanBeWrittenIsLeftAsItIs) {
  const std::string path = testing::TempDir() + "r2ccl_output_file." + std::to_string(getpid());
  EXPECT_TRUE(check_writable("--json", path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(write_text(path, "text").ok());
  EXPECT_TRUE(check_writable("--json", path).ok());
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "text");
  std::filesystem::remove(path);
  EXPECT_TRUE(check_writable("--json", "").ok());
  EXPECT_TRUE(check_writable("--json", "-").ok());
  EXPECT_TRUE(check_writable("--json", "/dev/null").ok());
}

}  // namespace
}  // namespace r2ccl::tools
