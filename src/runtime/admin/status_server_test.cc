// The server on real sockets and a real poller, with a clock that the test moves.
#include "runtime/admin/status_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/limits.h"
#include "runtime/admin/status_served_test.h"
#include "testing/scripted_link.h"
#include "transport/tcp/tcp_poller.h"

#include <unistd.h>

namespace r2ccl {
namespace {

using namespace served;

TEST_F(Served, AnswersAndEndsTheStream) {
  Asker asker(path_);
  ASSERT_TRUE(asker.connected());
  ASSERT_TRUE(asker.say("report\n"));
  pass();
  asker.read();
  EXPECT_EQ(asker.heard(), "{\"a\":1}\n");
  EXPECT_TRUE(asker.ended());
  EXPECT_EQ(server_->clients(), 0u);
  EXPECT_TRUE(at_rest());
}

TEST_F(Served, TakesARequestInPieces) {
  Asker asker(path_);
  for (const char* piece : {"re", "po", "rt"}) {
    ASSERT_TRUE(asker.say(piece));
    pass();
    asker.read();
    EXPECT_FALSE(asker.ended());
  }
  ASSERT_TRUE(asker.say("\n"));
  pass();
  asker.read();
  EXPECT_EQ(asker.heard(), "{\"a\":1}\n");
}

TEST_F(Served, LetsTheAskerWaitForTheOtherRanks) {
  Asker asker(path_);
  ASSERT_TRUE(asker.say("job\n"));
  EXPECT_TRUE(at_rest());
  clock_.advance(limits::kSurveyTimeMax);
  EXPECT_TRUE(at_rest());
  asker.read();
  EXPECT_FALSE(asker.ended());
  job_ = "{\"members\":[]}";
  pass();
  asker.read();
  EXPECT_EQ(asker.heard(), "{\"members\":[]}\n");
}

TEST_F(Served, DropsWhoSaysNothing) {
  Asker asker(path_);
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(server_->clients(), 1u);
  EXPECT_EQ(server_->next_timeout(), clock_.now() + limits::kStatusRequestTime);
  clock_.advance(limits::kStatusRequestTime);
  pass();
  asker.read();
  EXPECT_TRUE(asker.ended());
  EXPECT_EQ(asker.heard(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(Served, DropsWhoSaysOneByteNowAndThen) {
  Asker asker(path_);
  for (int i = 0; i < 5; ++i) {
    (void)asker.say("r");
    pass();
    clock_.advance(limits::kStatusRequestTime / 4);
  }
  pass();
  asker.read();
  EXPECT_TRUE(asker.ended());
}

TEST_F(Served, DropsWhoSaysAnythingElse) {
  for (const std::string& words :
       {std::string("\n"), std::string("REPORT\n"), std::string("report\r\n"),
        std::string("report\njob\n"), std::string("job"), std::string(1, '\0') + "\n",
        std::string(100'000, 'x')}) {
    Asker asker(path_);
    ASSERT_TRUE(asker.say(words));
    pass();
    if (words == "job") clock_.advance(limits::kStatusRequestTime);
    pass();
    asker.read();
    EXPECT_TRUE(asker.ended()) << words.substr(0, 20);
    EXPECT_EQ(asker.heard(), "");
    EXPECT_EQ(server_->clients(), 0u);
  }
  EXPECT_EQ(reports_, 0);
}

TEST_F(Served, DropsWhoGoesOnTalking) {
  Asker asker(path_);
  ASSERT_TRUE(asker.say("job\n"));
  pass();
  ASSERT_TRUE(asker.say("job\n"));
  pass();
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(Served, ForgetsWhoLeavesEarly) {
  for (const char* words : {"", "rep", "job\n"}) {
    Asker asker(path_);
    ASSERT_TRUE(asker.say(words));
    pass();
    EXPECT_EQ(server_->clients(), 1u);
    asker.leave();
    EXPECT_TRUE(at_rest());
    EXPECT_EQ(server_->clients(), 0u);
  }
}

TEST_F(Served, WaitsForASlowReaderButNotForEver) {
  report_ = std::string(4 * 1024 * 1024, 'r');
  Asker slow(path_);
  Asker stuck(path_);
  ASSERT_TRUE(slow.say("report\n"));
  ASSERT_TRUE(stuck.say("report\n"));
  EXPECT_TRUE(at_rest());
  for (int i = 0; i < 100 && !slow.ended(); ++i) {
    slow.read(slow.heard().size() + 100'000);
    EXPECT_TRUE(at_rest());
  }
  EXPECT_EQ(slow.heard().size(), report_.size() + 1);
  EXPECT_EQ(server_->clients(), 1u);
  clock_.advance(limits::kStatusAnswerTime);
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(server_->clients(), 0u);
  EXPECT_EQ(reports_, 1);
}

TEST_F(Served, MakesATextOnceForAllWhoAskAtTheTime) {
  for (int i = 0; i < 20; ++i) {
    Asker asker(path_);
    ASSERT_TRUE(asker.say("report\n"));
    pass();
    asker.read();
    EXPECT_EQ(asker.heard(), report_ + "\n");
  }
  EXPECT_EQ(reports_, 1);
  clock_.advance(limits::kStatusFreshness);
  report_ = "{\"a\":2}";
  Asker asker(path_);
  ASSERT_TRUE(asker.say("report\n"));
  pass();
  asker.read();
  EXPECT_EQ(asker.heard(), report_ + "\n");
}

TEST_F(Served, LetsInOnlySoManyAndTheRestWhenTheyHaveLeft) {
  std::vector<std::unique_ptr<Asker>> silent;
  for (size_t i = 0; i < limits::kStatusClientsMax; ++i) {
    silent.push_back(std::make_unique<Asker>(path_));
  }
  EXPECT_TRUE(at_rest());
  Asker late(path_);
  ASSERT_TRUE(late.say("report\n"));
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(server_->clients(), limits::kStatusClientsMax);
  late.read();
  EXPECT_EQ(late.heard(), "");
  clock_.advance(limits::kStatusRequestTime);
  pass();
  late.read();
  EXPECT_EQ(late.heard(), report_ + "\n");
}

TEST_F(Served, SaysThatAnAnswerIsTooLarge) {
  report_ = std::string(limits::kStatusAnswerBytesMax + 1, 'r');
  Asker asker(path_);
  ASSERT_TRUE(asker.say("report\n"));
  pass();
  asker.read();
  EXPECT_NE(asker.heard().find("\"problem\":\"the answer has"), std::string::npos);
}

TEST_F(Served, PausesWhileThereAreNoDescriptors) {
  std::vector<int> all;
  Asker asker(path_);
  ASSERT_TRUE(asker.say("report\n"));
  for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
    all.push_back(fd);
    if (all.size() > 100'000) break;
  }
  const bool exhausted = errno == EMFILE;
  pass();
  const bool rests = server_->next_timeout() > clock_.now() && reactor_.poll(0) == 0;
  for (const int fd : all) close(fd);
  if (!exhausted) GTEST_SKIP() << "this process may open too many files";
  EXPECT_TRUE(rests);
  EXPECT_EQ(server_->clients(), 0u);
  clock_.advance(2 * kSecond);
  pass();
  asker.read();
  EXPECT_EQ(asker.heard(), report_ + "\n");
}

TEST_F(Served, SurvivesAnythingThatIsSaid) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Asker asker(path_);
    std::string words(random() % 80, ' ');
    for (char& letter : words) letter = static_cast<char>(random() % 2 == 0 ? random() : '\n');
    (void)asker.say(words);
    pass();
    if (random() % 2 == 0) asker.leave();
    clock_.advance(limits::kStatusRequestTime);
  }
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(Served, LeavesNoFileBehind) {
  EXPECT_TRUE(std::filesystem::exists(path_));
  server_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

// The child ends by _exit, as a data loader's worker does; what it inherited it must let go.
TEST_F(Served, KeepsItsFileWhenAForkedChildDestroysItsCopy) {
  const pid_t child = fork();
  if (child == 0) {
    { const std::unique_ptr<StatusServer> copy = std::move(server_); }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(path_));
  Asker asker(path_);
  ASSERT_TRUE(asker.say("report\n"));
  pass();
  asker.read();
  EXPECT_EQ(asker.heard(), report_ + "\n");
}

TEST_F(Served, SendsAnotherUserAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  // As if somebody had opened the directory, and the one above it.
  ASSERT_EQ(chmod(root_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(kNobody) != 0) _exit(3);
    Asker asker(path_);
    if (!asker.connected() || !asker.say("report\n")) _exit(4);
    (void)!write(ready[1], "", 1);
    while (!asker.ended()) asker.read();
    _exit(asker.heard().empty() ? 0 : 5);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  pass();
  EXPECT_EQ(server_->clients(), 0u);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(reports_, 0);
  close(ready[0]);
  close(ready[1]);
}

// By when their requests are there: who connects early may have seen since what others did.
TEST_F(Served, NumbersWhoAskInTheOrderOfTheirRequests) {
  drain_ = "{}";
  Asker slow(path_);
  pass();
  Asker quick(path_);
  ASSERT_TRUE(quick.say("drain check nic1 quick\n"));
  pass();
  ASSERT_TRUE(slow.say("drain check nic1 slow\n"));
  pass();
  ASSERT_EQ(asked_,
            (std::vector<std::string>{"drain check nic1 quick\n", "drain check nic1 slow\n"}));
  EXPECT_LT(askers_[0], askers_[1]);
}

TEST_F(Served, PassesADrainOnUntilItIsDoneAndDoesTheNextOneAgain) {
  const std::string line = "drain start nic1 a host whose name is longer than most of them are\n";
  for (size_t done = 1; done <= 2; ++done) {
    drain_ = std::nullopt;
    Asker asker(path_);
    ASSERT_TRUE(asker.say(line));
    pass();
    asker.read();
    EXPECT_EQ(asker.heard(), "");
    ASSERT_FALSE(asked_.empty());
    EXPECT_EQ(asked_.back(), line);
    EXPECT_EQ(askers_.back(), done) << "nobody else's number";
    asked_.clear();
    drain_ = "{\"ranks\":[]}";
    pass();
    asker.read();
    EXPECT_EQ(asker.heard(), "{\"ranks\":[]}\n");
    EXPECT_TRUE(asker.ended());
    EXPECT_FALSE(asked_.empty()) << "an answer is nobody else's";
  }
}

}  // namespace
}  // namespace r2ccl
