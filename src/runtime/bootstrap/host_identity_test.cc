#include "runtime/bootstrap/host_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace r2ccl {
namespace {

TEST(HostIdentity, IsTheSameEachTimeAndNotEmpty) {
  const auto first = host_identity();
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first.value(), host_identity().value());
  EXPECT_NE(first.value(), HostId());
  EXPECT_FALSE(host_name().empty());
}

TEST(HostIdentity, IsTheTextsWhereOneIsGiven) {
  EXPECT_EQ(host_identity_named("a"), host_identity_named("a"));
  EXPECT_NE(host_identity_named("a"), host_identity_named("b"));
  EXPECT_NE(host_identity_named("a"), host_identity().value());
}

TEST(HostIdentity, DiffersInAnotherNetworkNamespace) {
  const HostId here = host_identity().value();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(2);
    _exit(host_identity().value() == here ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "network namespaces may not be made here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace r2ccl
