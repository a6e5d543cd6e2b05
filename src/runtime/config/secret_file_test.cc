#include "runtime/config/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "runtime/config/config.h"

#include <unistd.h>

namespace r2ccl {
namespace {

class SecretFileTest : public testing::Test {
 protected:
  ~SecretFileTest() override { std::remove(name_.c_str()); }
  void write(const std::string& text, mode_t mode = 0600) {
    std::remove(name_.c_str());
    std::ofstream(name_) << text;
    chmod(name_.c_str(), mode);
  }
  Result<LockedBytes> load() const {
    Config config;
    config.secret_file = name_;
    return load_secret(config);
  }
  std::string refusal() const { return load().status().message(); }

  const std::string name_ =
      testing::TempDir() + "r2ccl_secret_" + std::to_string(getpid()) + "_test";
};

TEST_F(SecretFileTest, IsReadWithoutItsLineEnd) {
  write("0123456789abcdef\r\n");
  const std::string text = "0123456789abcdef";
  EXPECT_EQ(load().value(), LockedBytes::copy_of(std::as_bytes(std::span(text))));
}

TEST_F(SecretFileTest, MustHoldEnoughAndNotTooMuch) {
  write("short\n");
  EXPECT_FALSE(load().ok());
  write("\n");
  EXPECT_FALSE(load().ok());
  write(std::string(4096, 'x') + "\n");
  EXPECT_TRUE(load().ok());
  write(std::string(4097, 'x') + "\n");
  EXPECT_FALSE(load().ok());
}

TEST_F(SecretFileTest, IsRefusedWhenOthersCanReadOrChangeIt) {
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0602, 0660}) {
    write("0123456789abcdef", mode);
    EXPECT_NE(refusal().find("other users can read or change the file: chmod 600"),
              std::string::npos)
        << mode << ": " << refusal();
  }
  write("0123456789abcdef", 0400);
  EXPECT_TRUE(load().ok());
}

TEST_F(SecretFileTest, IsRefusedWhenItIsAnothersUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write("0123456789abcdef");
  ASSERT_EQ(chown(name_.c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal().find("belongs to another user (uid 12345)"), std::string::npos) << refusal();
}

TEST_F(SecretFileTest, AFifoNeitherBlocksNorServes) {
  std::remove(name_.c_str());
  ASSERT_EQ(mkfifo(name_.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("not a regular file"), std::string::npos) << refusal();
}

TEST_F(SecretFileTest, ADirectoryAndNothingAtAllAreRefusedInWords) {
  Config config;
  config.secret_file = "/";
  EXPECT_EQ(load_secret(config).status().message(),
            "R2CCL_SECRET_FILE=/: cannot read the file: Is a directory");
  EXPECT_EQ(refusal(),
            "R2CCL_SECRET_FILE=" + name_ + ": cannot read the file: No such file or directory");
}

TEST_F(SecretFileTest, IsMadeForItsOwnerAlone) {
  const std::string text = "0123456789abcdef";
  const LockedBytes secret = LockedBytes::copy_of(std::as_bytes(std::span(text)));
  const mode_t before = umask(0);
  EXPECT_TRUE(write_secret_file(name_, secret).ok());
  umask(before);
  EXPECT_EQ(load().value(), secret);
  EXPECT_FALSE(write_secret_file(name_, secret).ok()) << "it may be in use";
}

}  // namespace
}  // namespace r2ccl
