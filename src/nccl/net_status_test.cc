// Processes on several hosts, each with two NICs that can fail, in one process: what an operator
// sees of them, and can ask. The hosts are names, and the NICs addresses of the loopback interface.
#include "nccl/net_status.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nccl/net.h"

#include <unistd.h>

namespace r2ccl::nccl {
namespace {

using Handle = std::array<std::byte, kHandleBytes>;
constexpr TimeNs kPatience = 20 * kSecond;

std::string nic_of(int host, int rail) {
  return "lo@127.0." + std::to_string(20 + rail) + "." + std::to_string(host + 1);
}

class NetStatusTest : public testing::Test {
 protected:
  NetStatusTest() {
    std::string name = "/tmp/r2ccl-test-XXXXXX";
    folder_ = mkdtemp(name.data());
    set("XDG_RUNTIME_DIR", folder_);
    set("R2CCL_FAULT_FILE", folder_ + "/faults");
    set("R2CCL_DAMPING", "0");
    set_faults("");
  }
  ~NetStatusTest() override {
    nets_.clear();
    for (const std::string& name : names_) unsetenv(name.c_str());
    std::filesystem::remove_all(folder_);
  }

  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  void set_faults(const std::string& text) {
    std::ofstream(folder_ + "/new") << text;
    std::filesystem::rename(folder_ + "/new", folder_ + "/faults");
  }

  // Starts a process on the next host.
  Net& start() {
    const int host = static_cast<int>(nets_.size());
    set("R2CCL_HOST_ID", "h" + std::to_string(host));
    set("R2CCL_SOCKET_IFNAME", nic_of(host, 0) + "," + nic_of(host, 1));
    set("RANK", std::to_string(host));
    set("WORLD_SIZE", "4");
    auto net = Net::open(1, [](const std::string&) {});
    EXPECT_TRUE(net.ok()) << net.status().message();
    nets_.push_back(std::move(net).value());
    return *nets_.back();
  }
  // Makes a connection that nobody closes.
  void connect(Net& from, Net& to) {
    Handle handle{};
    const uint32_t listener = to.listen(handle).value();
    Comm* send = nullptr;
    Comm* receive = nullptr;
    for (int i = 0; i < 1'000'000 && (send == nullptr || receive == nullptr); ++i) {
      if (send == nullptr) send = from.connect(0, handle).value();
      if (receive == nullptr) receive = to.accept(listener).value();
    }
    ASSERT_NE(send, nullptr);
    ASSERT_NE(receive, nullptr);
    for (Comm* each : {send, receive}) comms_.emplace_back(each);
    to.close_listener(listener);
  }

  // Sends a line to the status socket of that host's process. Returns the answer.
  std::string ask(int host, const std::string& line) const {
    const std::string suffix = "-" + std::to_string(host) + ".sock";
    const std::string directory = folder_ + "/r2ccl-" + std::to_string(geteuid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    for (const auto& file : std::filesystem::directory_iterator(directory)) {
      const std::string path = file.path().string();
      if (path.ends_with(suffix)) std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::string answer;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        send(fd, line.data(), line.size(), MSG_NOSIGNAL) > 0) {
      char part[4096];
      for (ssize_t count = 0; (count = recv(fd, part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<size_t>(count));
      }
    }
    close(fd);
    return answer;
  }
  // Asks until the answer has the text, and returns the last answer.
  std::string ask_for(int host, const std::string& line, const std::string& text) const {
    const SystemClock clock;
    const TimeNs end = clock.now() + kPatience;
    std::string answer = ask(host, line);
    while (answer.find(text) == std::string::npos && clock.now() < end) {
      poll(nullptr, 0, 20);
      answer = ask(host, line);
    }
    return answer;
  }
  template <typename Done>
  static bool wait(Done done) {
    const SystemClock clock;
    const TimeNs end = clock.now() + kPatience;
    while (!done() && clock.now() < end) poll(nullptr, 0, 20);
    return done();
  }
  // Waits until all paths of that host's process are up.
  void wait_for_paths(int host) const {
    EXPECT_TRUE(wait([&] {
      const std::string job = ask(host, "job\n");
      return job.find("\"paths_up\":2,") != std::string::npos &&
             job.find("\"state\":") == std::string::npos;
    }));
  }

  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Net>> nets_;
  std::vector<std::unique_ptr<Comm>> comms_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(NetStatusTest, ShowsTheProcessItsNicsAndItsLinks) {
  Net& a = start();
  const std::string alone = ask(0, "job\n");
  EXPECT_TRUE(has(alone, R"("kind":"nccl","name":"","rank":0,"ranks":4,"pid":)")) << alone;
  EXPECT_TRUE(has(alone, "\"name\":\"" + nic_of(0, 1) + "\",\"up\":true")) << alone;
  EXPECT_TRUE(has(alone, R"("links":[])")) << alone;
  Net& b = start();
  connect(a, b);
  connect(a, b);
  connect(b, a);
  wait_for_paths(0);
  const std::string job = ask(0, "job\n");
  EXPECT_TRUE(has(job, R"("hosts":["h0","h1"])")) << job;
  EXPECT_TRUE(has(job, R"("links":[{"peer":1,"link":")")) << job;
  EXPECT_TRUE(has(job, R"("host":"h1","pid":)" + std::to_string(getpid()) +
                           R"(,"connections":3,"usable":true,"paths_up":2,)"))
      << job;
  const std::string report = ask(0, "report\n");
  EXPECT_TRUE(has(report, R"("peer_host":"h1","peer_pid":)")) << report;
  EXPECT_TRUE(has(report, "\"nic\":\"" + nic_of(0, 1) + "\",\"peer_nic\":\"" + nic_of(1, 1)))
      << report;
}

TEST_F(NetStatusTest, KnowsNoRankWithoutALauncher) {
  set("R2CCL_HOST_ID", "h0");
  set("R2CCL_SOCKET_IFNAME", nic_of(0, 0));
  const auto net = Net::open(1, [](const std::string&) {});
  ASSERT_TRUE(net.ok());
  EXPECT_TRUE(has(ask(-1, "job\n"), R"("rank":null,"ranks":null)"));
}

TEST_F(NetStatusTest, NamesItsNicThatTwoHostsMiss) {
  Net& a = start();
  for (int host = 1; host <= 2; ++host) connect(a, start());
  for (int host = 0; host <= 2; ++host) wait_for_paths(host);
  set_faults(nic_of(0, 1).substr(3) + " hole\n");
  EXPECT_TRUE(wait([&] { return !a.faults().empty(); }));
  const Fault fault = a.faults().front();
  EXPECT_EQ(fault.verdict.scope, Scope::nic) << fault_text(fault);
  EXPECT_EQ(fault.verdict.host, "h0");
  EXPECT_EQ(fault.verdict.nic, nic_of(0, 1));
  EXPECT_EQ(fault.missed_by, 2u);
  // Its only link tells the other process of no more than the pair.
  EXPECT_TRUE(wait([&] { return !nets_[1]->faults().empty(); }));
  EXPECT_EQ(nets_[1]->faults().front().verdict.scope, Scope::pair);
  set_faults("");
  EXPECT_TRUE(wait([&] { return a.faults().front().repaired_at.has_value(); }));
  EXPECT_EQ(a.faults().size(), 1u);
  EXPECT_TRUE(has(ask(0, "job\n"), R"("verdict_count":1,"verdicts":[{"rank":-1,"scope":"nic")"));
}

TEST_F(NetStatusTest, TellsOnceOfANicThatItsKernelHasLost) {
  Net& a = start();
  for (int host = 1; host <= 2; ++host) connect(start(), a);
  for (int host = 0; host <= 2; ++host) wait_for_paths(host);
  set_faults(nic_of(0, 0).substr(3) + " down\n");
  for (const auto& net : nets_) {
    EXPECT_TRUE(wait([&] { return !net->faults().empty(); }));
    const Fault fault = net->faults().front();
    EXPECT_EQ(fault.verdict.scope, Scope::nic) << fault_text(fault);
    EXPECT_EQ(fault.verdict.host, "h0");
    EXPECT_EQ(fault.verdict.nic, nic_of(0, 0));
  }
  set_faults("");
  for (const auto& net : nets_) {
    EXPECT_TRUE(wait([&] { return net->faults().front().repaired_at.has_value(); }));
    EXPECT_EQ(net->faults().size(), 1u);
  }
}

TEST_F(NetStatusTest, TakesItsNicOutOfServiceForAllLinksAndLaterOnes) {
  Net& a = start();
  connect(a, start());
  wait_for_paths(0);
  const std::string check = "drain check " + nic_of(0, 1) + " h0\n";
  const std::string started = ask(0, "drain start:000000000000000a " + nic_of(0, 1) + " h0\n");
  EXPECT_TRUE(has(started, R"("tally":{"paths":1,"up":1,"marked":1,)")) << started;
  connect(start(), a);
  const std::string both = ask_for(2, "job\n", R"("paths_drained":1,"verdicts")");
  EXPECT_TRUE(has(both, R"("paths_drained":1,"verdicts")")) << both;
  const std::string checked = ask(0, check);
  EXPECT_FALSE(has(checked, R"("marked":0)")) << checked;
  const std::string undone = ask(0, "drain back:000000000000000a " + nic_of(0, 1) + " h0\n");
  EXPECT_TRUE(has(undone, R"("marked":0)")) << undone;
  const std::string after = ask_for(2, "job\n", R"("paths_drained":0,"verdicts")");
  EXPECT_TRUE(has(after, R"("paths_drained":0,"verdicts")")) << after;
}

TEST_F(NetStatusTest, DrainsNoNicOfAnotherHostAndNoneThatItDoesNotHave) {
  Net& a = start();
  EXPECT_TRUE(has(ask(0, "drain start " + nic_of(0, 1) + " h0\n"), R"("ranks":[])"));
  EXPECT_TRUE(has(ask(0, "drain check nic7 h0\n"), R"("unknown":"nic")"));
  EXPECT_TRUE(has(ask(0, "drain check nic7 h9\n"), R"("unknown":"host")"));
  EXPECT_TRUE(has(ask(0, "drain no\n"), R"("problem":"not a request that is known")"));
  connect(a, start());
  const std::string other = ask(0, "drain start " + nic_of(1, 1) + " h1\n");
  EXPECT_TRUE(has(other, "run this on h1\"")) << other;
}

TEST_F(NetStatusTest, RunsWithoutASocket) {
  set("R2CCL_STATUS", "0");
  connect(start(), start());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/r2ccl-" + std::to_string(geteuid())));
}

}  // namespace
}  // namespace r2ccl::nccl
