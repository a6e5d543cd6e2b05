#include "runtime/drain_book.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace r2ccl {
namespace {

using Names = std::vector<std::string>;

const HostId kHere{std::byte{1}};
const HostId kThere{std::byte{2}};

TEST(DrainBook, NamesWhatSomeCommunicatorHasOutOfService) {
  DrainBook book;
  int first = 0;
  int second = 0;
  EXPECT_EQ(book.drained(kHere), Names());
  book.note(&first, kHere, "nic1", true);
  book.note(&first, kHere, "nic1", true);
  book.note(&second, kHere, "nic1", true);
  EXPECT_EQ(book.drained(kHere), Names{"nic1"});
  EXPECT_EQ(book.drained(kThere), Names()) << "a NIC of that name at another host";
  book.note(&first, kHere, "nic1", false);
  EXPECT_EQ(book.drained(kHere), Names{"nic1"}) << "the second still has it";
  book.note(&second, kHere, "nic1", false);
  EXPECT_EQ(book.drained(kHere), Names());
}

TEST(DrainBook, ForgetsWithTheCommunicator) {
  DrainBook book;
  int first = 0;
  int second = 0;
  book.note(&first, kHere, "nic0", true);
  book.note(&second, kHere, "nic1", true);
  book.forget(&first);
  EXPECT_EQ(book.drained(kHere), Names{"nic1"});
}

TEST(DrainBook, IsEmptyInAForkedChild) {
  DrainBook book;
  int first = 0;
  book.note(&first, kHere, "nic0", true);
  const pid_t child = fork();
  if (child == 0) _exit(book.drained(kHere).empty() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As a data loader forks its workers whatever the communicators' threads are about.
TEST(DrainBook, MayBeReadInAChildThatWasForkedWhileAnotherThreadReadIt) {
  DrainBook book;
  int holder = 0;
  // So many that the thread has the lock nearly all the time; it allocates nothing.
  for (int i = 0; i < 2000; ++i) book.note(&holder, kThere, "nic" + std::to_string(i), true);
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) (void)book.drained(kHere);
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a deadlock ends here
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
