#include "runtime/admin/drain_registry.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace r2ccl {
namespace {

using Nics = std::vector<DrainedNic>;

const HostId kHere{std::byte{1}};
const HostId kThere{std::byte{2}};

TEST(DrainRegistry, ListsTheNicsThatAnyCommunicatorHasOutOfService) {
  DrainRegistry registry;
  int first = 0;
  int second = 0;
  EXPECT_EQ(registry.drained(kHere), Nics());
  registry.enter(&first, kHere, {"nic1", 7});
  registry.enter(&first, kHere, {"nic1", 7});
  registry.enter(&second, kHere, {"nic1", 7});
  EXPECT_EQ(registry.drained(kHere), (Nics{{"nic1", 7}}));
  EXPECT_EQ(registry.drained(kThere), Nics()) << "a NIC of that name at another host";
  registry.strike(&first, kHere, "nic1");
  EXPECT_EQ(registry.drained(kHere), (Nics{{"nic1", 7}})) << "the second still has it";
  registry.strike(&second, kHere, "nic1");
  EXPECT_EQ(registry.drained(kHere), Nics());
}

TEST(DrainRegistry, HasNoTicketWhereSeveralRequestsHoldANic) {
  DrainRegistry registry;
  int first = 0;
  int second = 0;
  registry.enter(&first, kHere, {"nic1", 7});
  registry.enter(&second, kHere, {"nic1", 8});
  EXPECT_EQ(registry.drained(kHere), (Nics{{"nic1", 0}}));
  registry.enter(&first, kHere, {"nic1", 0});
  registry.strike(&second, kHere, "nic1");
  EXPECT_EQ(registry.drained(kHere), (Nics{{"nic1", 0}})) << "the latest entry counts";
}

TEST(DrainRegistry, ForgetsWithTheCommunicator) {
  DrainRegistry registry;
  int first = 0;
  int second = 0;
  registry.enter(&first, kHere, {"nic0", 7});
  registry.enter(&second, kHere, {"nic1", 7});
  registry.forget(&first);
  EXPECT_EQ(registry.drained(kHere), (Nics{{"nic1", 7}}));
}

TEST(DrainRegistry, IsEmptyInAForkedChild) {
  DrainRegistry registry;
  int first = 0;
  registry.enter(&first, kHere, {"nic0", 7});
  const pid_t child = fork();
  if (child == 0) _exit(registry.drained(kHere).empty() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Like a data loader that forks its workers at any moment of the communicators' threads.
TEST(DrainRegistry, MayBeReadInAChildThatWasForkedWhileAnotherThreadReadIt) {
  DrainRegistry registry;
  int holder = 0;
  // So many entries that the thread holds the lock nearly all the time; it allocates nothing.
  for (int i = 0; i < 2000; ++i) registry.enter(&holder, kThere, {"nic" + std::to_string(i), 0});
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) (void)registry.drained(kHere);
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends a deadlock
      _exit(registry.drained(kHere).empty() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    if (status != 0) break;
  }
  over = true;
  reader.join();
}

}  // namespace
}  // namespace r2ccl
