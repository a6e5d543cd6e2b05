#include "runtime/admin/drain_book.h"

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

TEST(DrainBook, ListsTheNicsThatAnyCommunicatorHasOutOfService) {
  DrainBook book;
  int first = 0;
  int second = 0;
  EXPECT_EQ(book.drained(kHere), Nics());
  book.enter(&first, kHere, {"nic1", 7});
  book.enter(&first, kHere, {"nic1", 7});
  book.enter(&second, kHere, {"nic1", 7});
  EXPECT_EQ(book.drained(kHere), (Nics{{"nic1", 7}}));
  EXPECT_EQ(book.drained(kThere), Nics()) << "a NIC of that name at another host";
  book.strike(&first, kHere, "nic1");
  EXPECT_EQ(book.drained(kHere), (Nics{{"nic1", 7}})) << "the second still has it";
  book.strike(&second, kHere, "nic1");
  EXPECT_EQ(book.drained(kHere), Nics());
}

TEST(DrainBook, HasNoTicketWhereSeveralRequestsHoldANic) {
  DrainBook book;
  int first = 0;
  int second = 0;
  book.enter(&first, kHere, {"nic1", 7});
  book.enter(&second, kHere, {"nic1", 8});
  EXPECT_EQ(book.drained(kHere), (Nics{{"nic1", 0}}));
  book.enter(&first, kHere, {"nic1", 0});
  book.strike(&second, kHere, "nic1");
  EXPECT_EQ(book.drained(kHere), (Nics{{"nic1", 0}})) << "the latest entry counts";
}

TEST(DrainBook, ForgetsWithTheCommunicator) {
  DrainBook book;
  int first = 0;
  int second = 0;
  book.enter(&first, kHere, {"nic0", 7});
  book.enter(&second, kHere, {"nic1", 7});
  book.forget(&first);
  EXPECT_EQ(book.drained(kHere), (Nics{{"nic1", 7}}));
}

TEST(DrainBook, IsEmptyInAForkedChild) {
  DrainBook book;
  int first = 0;
  book.enter(&first, kHere, {"nic0", 7});
  const pid_t child = fork();
  if (child == 0) _exit(book.drained(kHere).empty() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Like a data loader that forks its workers at any moment of the communicators' threads.
TEST(DrainBook, MayBeReadInAChildThatWasForkedWhileAnotherThreadReadIt) {
  DrainBook book;
  int holder = 0;
  // So many entries that the thread holds the lock nearly all the time; it allocates nothing.
  for (int i = 0; i < 2000; ++i) book.enter(&holder, kThere, {"nic" + std::to_string(i), 0});
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) (void)book.drained(kHere);
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends a deadlock
      _exit(book.drained(kHere).empty() ? 0 : 1);
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
