// The file of a status socket, and the files that dead processes leave beside it.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "runtime/admin/status_socket.h"
#include "testing/served_status.h"

#include <unistd.h>

namespace r2ccl {
namespace {

using status_test::address_of;
using status_test::Client;
using status_test::Served;

class SocketFile : public Served {
 protected:
  // Returns a pid that no process has.
  static uint32_t dead_pid() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    return static_cast<uint32_t>(child);
  }
  // Leaves a socket like a killed process.
  std::string leave_behind(const std::string& name) const {
    const int left = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(directory_ + "/" + name);
    EXPECT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    close(left);
    return directory_ + "/" + name;
  }
  Status try_open(const std::string& directory) {
    auto opened = StatusSocket::open(directory, {1, 2, Rank(3)});
    return opened.status();
  }
};

TEST_F(SocketFile, OfADeadProcessIsRemovedByTheNextOne) {
  const StatusName dead{dead_pid(), 5, Rank(6)};
  const std::string whole = leave_behind(to_string(dead));
  const std::string half = leave_behind(to_string(dead) + ".new");
  ASSERT_TRUE(try_open(directory_).ok());
  EXPECT_FALSE(std::filesystem::exists(whole));
  EXPECT_FALSE(std::filesystem::exists(half));
}

TEST_F(SocketFile, OfALivingProcessStaysThoughItsNumberIsUnknownHere) {
  // Like a process in a container: it answers, but its pid is not visible.
  auto other = StatusSocket::open(directory_, {dead_pid(), 5, Rank(6)});
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(try_open(directory_).ok());
  EXPECT_TRUE(std::filesystem::exists(other.value().path()));
  EXPECT_TRUE(Client(other.value().path()).connected());
}

TEST_F(SocketFile, OfAnotherKindIsLeftAlone) {
  const std::string name = to_string({dead_pid(), 5, Rank(6)});
  const std::string foreign = leave_behind("foreign.sock");
  std::ofstream(directory_ + "/notes") << "kept";
  std::filesystem::create_directory(directory_ + "/" + name);
  ASSERT_TRUE(try_open(directory_).ok());
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/notes"));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/" + name));
}

TEST_F(SocketFile, ReplacesTheSocketOfAnEarlierProcessWithThisPid) {
  leave_behind(to_string({1, 2, Rank(3)}));
  leave_behind(to_string({1, 2, Rank(3)}) + ".new");
  auto opened = StatusSocket::open(directory_, {1, 2, Rank(3)});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_TRUE(Client(opened.value().path()).connected());
}

TEST_F(SocketFile, IsNotMadeWhereItsDirectoryCannotBe) {
  EXPECT_NE(try_open(root_ + "/missing/place").message().find("making"), std::string::npos);
  EXPECT_NE(try_open("/proc/r2ccl").message().find("making"), std::string::npos);
  EXPECT_NE(try_open(root_ + "/" + std::string(90, 'n')).message().find("too long"),
            std::string::npos);
  ASSERT_EQ(symlink(directory_.c_str(), (root_ + "/link").c_str()), 0);
  EXPECT_NE(try_open(root_ + "/link").message().find("not a directory"), std::string::npos);
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_NE(try_open(directory_).message().find("chmod 700"), std::string::npos);
}

TEST_F(SocketFile, MayBeOpenedByItsUserUnderAnyUmask) {
  const mode_t before = umask(0777);
  auto opened = StatusSocket::open(directory_, {1, 2, Rank(3)});
  umask(before);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(std::filesystem::status(opened.value().path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace r2ccl
