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
#include "testing/scripted_link.h"
#include "transport/tcp/tcp_poller.h"

#include <unistd.h>

namespace r2ccl {
namespace {

constexpr uid_t kNobody = 65534;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

// A client process.
class Client {
 public:
  explicit Client(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(path);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool say(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Reads the available bytes, at most `bytes_max`.
  void read(size_t bytes_max = SIZE_MAX) {
    std::vector<char> part(256 * 1024);
    while (!ended_ && heard_.size() < bytes_max) {
      const ssize_t count = recv(socket_, part.data(), std::min(part.size(), bytes_max), 0);
      if (count < 0 && errno == EAGAIN) return;
      ended_ = count <= 0;
      if (count > 0) heard_.append(part.data(), static_cast<size_t>(count));
    }
  }
  bool ended() const { return ended_; }
  const std::string& heard() const { return heard_; }
  void leave() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string heard_;
};

class Served : public testing::Test, protected StatusSource {
 protected:
  Served() {
    std::string pattern = testing::TempDir() + "r2ccl_status.XXXXXX";
    root_ = mkdtemp(pattern.data());
    directory_ = root_ + "/place";
    auto socket = StatusSocket::open(directory_, {11, 22, Rank(3)});
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    path_ = socket.value().path();
    server_ = std::make_unique<StatusServer>(static_cast<StatusSource&>(*this), reactor_, clock_);
    EXPECT_TRUE(server_->open(std::move(socket).value()).ok());
  }
  ~Served() override {
    server_.reset();
    std::filesystem::remove_all(root_);
  }

  std::string status_report() override {
    ++reports_;
    return report_;
  }
  std::optional<std::string> job_status() override { return job_; }
  std::optional<std::string> drain_status(uint64_t client, std::string_view line) override {
    clients_.push_back(client);
    asked_.emplace_back(line);
    return drain_;
  }

  // Runs some passes of the progress thread.
  void pass() {
    for (int i = 0; i < 8; ++i) {
      reactor_.poll(0);
      server_->progress();
    }
  }
  // Returns true when the thread would sleep instead of spinning.
  bool at_rest() {
    pass();
    return reactor_.poll(0) == 0 && server_->next_timeout() > clock_.now();
  }

  std::string root_;
  std::string directory_;
  std::string path_;
  std::unique_ptr<TcpPoller> poller_ = TcpPoller::open().value();
  Reactor reactor_{*poller_};
  ManualClock clock_;
  int reports_ = 0;
  std::string report_ = "{\"a\":1}";
  std::optional<std::string> job_;
  std::optional<std::string> drain_;
  std::vector<std::string> asked_;
  std::vector<uint64_t> clients_;
  std::unique_ptr<StatusServer> server_;
};

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

// --- the file
// -------------------------------------------------------------------------------------

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
