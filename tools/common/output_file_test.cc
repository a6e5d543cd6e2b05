#include "tools/common/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

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

TEST(OutputFile, ThatMeetsAFullDiskIsAnErrorWithTheCause) {
  EXPECT_EQ(write_text("/dev/full", "text").message(),
            "cannot write /dev/full: No space left on device");
  EXPECT_EQ(write_text("/nonexistent/x", "text").message(),
            "cannot write /nonexistent/x: No such file or directory");
}

TEST(OutputFile, IsNotLeftInParts) {
  const std::string path = testing::TempDir() + "r2ccl_part." + std::to_string(getpid());
  rlimit whole{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &whole), 0);
  const rlimit small{4096, whole.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status written = write_text(path, std::string(1024 * 1024, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &whole), 0);
  EXPECT_EQ(written.message(), "cannot write " + path + ": File too large");
  EXPECT_FALSE(std::filesystem::exists(path));
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(OutputFile, IsReplacedAsAWhole) {
  const std::filesystem::path folder =
      testing::TempDir() + "r2ccl_replaced." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::filesystem::path file = folder / "metrics.prom";
  const std::string large(1024 * 1024, 'x');
  ASSERT_TRUE(replace_file(file, large).ok());
  EXPECT_EQ(content_of(file), large);
  std::ifstream reader(file);  // sees the old file to its end
  EXPECT_EQ(reader.get(), 'x');
  ASSERT_TRUE(replace_file(file, "new\n").ok());
  EXPECT_EQ(content_of(file), "new\n");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}).size(), large.size() - 1);
  const auto rights = std::filesystem::status(file).permissions();
  EXPECT_EQ(rights, std::filesystem::perms(0644));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "nothing else";
  std::filesystem::remove_all(folder);
}

TEST(OutputFile, ThatCannotBeReplacedIsNamed) {
  EXPECT_EQ(replace_file("/nonexistent/x", "").message(),
            "/nonexistent/x: No such file or directory");
  EXPECT_EQ(replace_file("/dev/null", "").message(), "/dev/null is no regular file");
  EXPECT_EQ(replace_file("/tmp", "").message(), "/tmp is no regular file");
}

}  // namespace
}  // namespace r2ccl::tools
