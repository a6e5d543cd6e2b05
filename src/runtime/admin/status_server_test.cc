// The server on real sockets and a real poller, with a clock that the test moves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <random>

#include "base/limits.h"
#include "runtime/admin/status_server.h"
#include "testing/served_status.h"

#include <unistd.h>

namespace r2ccl {
namespace {

using status_test::Client;
using status_test::Served;

constexpr uid_t kNobody = 65534;

TEST_F(Served, AnswersAndEndsTheStream) {
  Client client(path_);
  ASSERT_TRUE(client.connected());
  ASSERT_TRUE(client.say("report\n"));
  pass();
  client.read();
  EXPECT_EQ(client.heard(), "{\"a\":1}\n");
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(server_->clients(), 0u);
  EXPECT_TRUE(at_rest());
}

TEST_F(Served, TakesARequestInPieces) {
  Client client(path_);
  for (const char* piece : {"re", "po", "rt"}) {
    ASSERT_TRUE(client.say(piece));
    pass();
    client.read();
    EXPECT_FALSE(client.ended());
  }
  ASSERT_TRUE(client.say("\n"));
  pass();
  client.read();
  EXPECT_EQ(client.heard(), "{\"a\":1}\n");
}

TEST_F(Served, LetsTheClientWaitForTheOtherRanks) {
  Client client(path_);
  ASSERT_TRUE(client.say("job\n"));
  EXPECT_TRUE(at_rest());
  clock_.advance(limits::kStatusQueryTimeMax);
  EXPECT_TRUE(at_rest());
  client.read();
  EXPECT_FALSE(client.ended());
  job_ = "{\"members\":[]}";
  pass();
  client.read();
  EXPECT_EQ(client.heard(), "{\"members\":[]}\n");
}

TEST_F(Served, DropsAClientThatSendsNothing) {
  Client client(path_);
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(server_->clients(), 1u);
  EXPECT_EQ(server_->next_timeout(), clock_.now() + limits::kStatusRequestTime);
  clock_.advance(limits::kStatusRequestTime);
  pass();
  client.read();
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(client.heard(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(Served, DropsAClientThatSendsOneByteNowAndThen) {
  Client client(path_);
  for (int i = 0; i < 5; ++i) {
    (void)client.say("r");
    pass();
    clock_.advance(limits::kStatusRequestTime / 4);
  }
  pass();
  client.read();
  EXPECT_TRUE(client.ended());
}

TEST_F(Served, DropsAClientThatSendsAnUnknownRequest) {
  for (const std::string& words :
       {std::string("\n"), std::string("REPORT\n"), std::string("report\r\n"),
        std::string("report\njob\n"), std::string("job"), std::string(1, '\0') + "\n",
        std::string(100'000, 'x')}) {
    Client client(path_);
    ASSERT_TRUE(client.say(words));
    pass();
    if (words == "job") clock_.advance(limits::kStatusRequestTime);
    pass();
    client.read();
    EXPECT_TRUE(client.ended()) << words.substr(0, 20);
    EXPECT_EQ(client.heard(), "");
    EXPECT_EQ(server_->clients(), 0u);
  }
  EXPECT_EQ(reports_, 0);
}

TEST_F(Served, DropsAClientThatSendsMoreAfterItsRequest) {
  Client client(path_);
  ASSERT_TRUE(client.say("job\n"));
  pass();
  ASSERT_TRUE(client.say("job\n"));
  pass();
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(Served, ForgetsAClientThatLeavesEarly) {
  for (const char* words : {"", "rep", "job\n"}) {
    Client client(path_);
    ASSERT_TRUE(client.say(words));
    pass();
    EXPECT_EQ(server_->clients(), 1u);
    client.leave();
    EXPECT_TRUE(at_rest());
    EXPECT_EQ(server_->clients(), 0u);
  }
}

TEST_F(Served, WaitsForASlowReaderButNotForEver) {
  report_ = std::string(4 * 1024 * 1024, 'r');
  Client slow(path_);
  Client stuck(path_);
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

TEST_F(Served, MakesATextOnceForAllClientsOfThatTime) {
  for (int i = 0; i < 20; ++i) {
    Client client(path_);
    ASSERT_TRUE(client.say("report\n"));
    pass();
    client.read();
    EXPECT_EQ(client.heard(), report_ + "\n");
  }
  EXPECT_EQ(reports_, 1);
  clock_.advance(limits::kStatusFreshness);
  report_ = "{\"a\":2}";
  Client client(path_);
  ASSERT_TRUE(client.say("report\n"));
  pass();
  client.read();
  EXPECT_EQ(client.heard(), report_ + "\n");
}

TEST_F(Served, LetsInOnlySoManyAndTheRestWhenTheyHaveLeft) {
  std::vector<std::unique_ptr<Client>> silent;
  for (size_t i = 0; i < limits::kStatusClientsMax; ++i) {
    silent.push_back(std::make_unique<Client>(path_));
  }
  EXPECT_TRUE(at_rest());
  Client late(path_);
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
  Client client(path_);
  ASSERT_TRUE(client.say("report\n"));
  pass();
  client.read();
  EXPECT_NE(client.heard().find("\"problem\":\"the answer has"), std::string::npos);
}

TEST_F(Served, PausesWhileThereAreNoDescriptors) {
  std::vector<int> all;
  Client client(path_);
  ASSERT_TRUE(client.say("report\n"));
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
  client.read();
  EXPECT_EQ(client.heard(), report_ + "\n");
}

TEST_F(Served, SurvivesAnythingThatIsSaid) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Client client(path_);
    std::string words(random() % 80, ' ');
    for (char& letter : words) letter = static_cast<char>(random() % 2 == 0 ? random() : '\n');
    (void)client.say(words);
    pass();
    if (random() % 2 == 0) client.leave();
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

// The child ends by _exit, like a data loader's worker, and must release the inherited copy.
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
  Client client(path_);
  ASSERT_TRUE(client.say("report\n"));
  pass();
  client.read();
  EXPECT_EQ(client.heard(), report_ + "\n");
}

TEST_F(Served, SendsAnotherUserAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  // As if a user had opened the directory, and its parent.
  ASSERT_EQ(chmod(root_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(kNobody) != 0) _exit(3);
    Client client(path_);
    if (!client.connected() || !client.say("report\n")) _exit(4);
    (void)!write(ready[1], "", 1);
    while (!client.ended()) client.read();
    _exit(client.heard().empty() ? 0 : 5);
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

// Numbers clients by the arrival of their requests: an early connection may have seen the effects
// of others since.
TEST_F(Served, NumbersClientsInTheOrderOfTheirRequests) {
  drain_ = "{}";
  Client slow(path_);
  pass();
  Client quick(path_);
  ASSERT_TRUE(quick.say("drain check nic1 quick\n"));
  pass();
  ASSERT_TRUE(slow.say("drain check nic1 slow\n"));
  pass();
  ASSERT_EQ(asked_,
            (std::vector<std::string>{"drain check nic1 quick\n", "drain check nic1 slow\n"}));
  EXPECT_LT(clients_[0], clients_[1]);
}

TEST_F(Served, PassesADrainOnUntilItIsDoneAndDoesTheNextOneAgain) {
  const std::string line = "drain start nic1 a host whose name is longer than most of them are\n";
  for (size_t done = 1; done <= 2; ++done) {
    drain_ = std::nullopt;
    Client client(path_);
    ASSERT_TRUE(client.say(line));
    pass();
    client.read();
    EXPECT_EQ(client.heard(), "");
    ASSERT_FALSE(asked_.empty());
    EXPECT_EQ(asked_.back(), line);
    EXPECT_EQ(clients_.back(), done) << "the client's own number";
    asked_.clear();
    drain_ = "{\"ranks\":[]}";
    pass();
    client.read();
    EXPECT_EQ(client.heard(), "{\"ranks\":[]}\n");
    EXPECT_TRUE(client.ended());
    EXPECT_FALSE(asked_.empty()) << "a drain answer is not shared";
  }
}

}  // namespace
}  // namespace r2ccl
