#include "transport/faulty/fault_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

TEST(FaultFile, ReadsEveryFaultAndCombinesWords) {
  const FaultFileContent content = parse_fault_file(
      "# the NICs that are broken now\n"
      "\n"
      "127.0.3.2 hole slow 3125000  # and why\n"
      "nic1 down\n"
      "nic2 hole-tx\n"
      "nic3 hole-rx delay 5 queue 3000\n"
      "nic4 flip 41 9 1\n"
      "nic5 add 4142 50 2\n");
  EXPECT_TRUE(content.complaints.empty());
  const std::map<std::string, NicFault> expected = {
      {"127.0.3.2", {.hole_tx = true, .hole_rx = true, .bytes_per_s = 3125000}},
      {"nic1", {.down = true}},
      {"nic2", {.hole_tx = true}},
      {"nic3", {.hole_rx = true, .delay_ns = 5 * kMillisecond, .queue_bytes = 3000}},
      {"nic4", {.change = {.order = 1, .bit = 8, .pattern = "A"}}},
      {"nic5", {.change = {.order = 2, .added = 50, .pattern = "AB"}}}};
  EXPECT_EQ(content.faults, expected);
}

TEST(FaultFile, LetsTheLastLineOfANicCount) {
  EXPECT_EQ(parse_fault_file("nic0 hole\nnic0 down").faults.at("nic0"), NicFault{.down = true});
}

TEST(FaultFile, IgnoresLinesThatMakeNoSenseAndNamesThem) {
  for (const char* line :
       {"nic1", "nic1 burning", "nic1 slow", "nic1 slow 0", "nic1 slow -5", "nic1 slow 10%",
        "nic1 slow 99999999999999999999", "nic1 delay soon", "nic1 queue 3000",
        "nic1 slow 10 queue 0", "nic1 flip 5232 0 1", "nic1 flip 523 1 1", "nic1 flip xx 1 1",
        "nic1 flip 52 1", "nic1 flip 52 1 0", "nic1 add 52 0 1", "nic1 add 5 1 1",
        "nic1 add 52 1"}) {
    const FaultFileContent content = parse_fault_file("nic0 hole\n" + std::string(line) + "\n");
    EXPECT_EQ(content.faults.size(), 1U) << line;
    ASSERT_EQ(content.complaints.size(), 1U) << line;
    EXPECT_EQ(content.complaints[0].rfind("line 2 is ignored: ", 0), 0U) << content.complaints[0];
  }
}

class FollowingTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }

  void write(const std::string& text) {
    std::ofstream(file_ + ".new") << text;
    std::filesystem::rename(file_ + ".new", file_);
  }
  bool lo_has_carrier(Transport& transport) {
    const Result<std::vector<Nic>> nics = transport.nics();
    for (const Nic& nic : nics.value()) {
      if (nic.name == "lo") return nic.carrier;
    }
    return false;
  }
  // Waits for the transport's own event, as an owner does.
  bool becomes(Transport& transport, bool carrier) {
    const TimeNs deadline = clock_.now() + 10 * kSecond;
    std::array<PollEvent, 4> events;
    while (clock_.now() < deadline) {
      (void)transport.poller().wait(events, 100 * kMillisecond);
      if (transport.drain_nic_events() && lo_has_carrier(transport) == carrier) return true;
    }
    return false;
  }
  Result<std::unique_ptr<Transport>> follow(const std::string& file) {
    return follow_fault_file(std::move(TcpTransport::open({})).value(), file, clock_);
  }
  std::unique_ptr<Transport> open() {
    auto transport = follow(file_).value();
    EXPECT_TRUE(transport->poller().add(transport->nic_events_poll_id(), 1, false).ok());
    return transport;
  }

  const std::string file_ =
      testing::TempDir() + "r2ccl_fault_file_test." + std::to_string(getpid());
  SystemClock clock_;
};

TEST_F(FollowingTest, AppliesTheFileFromTheStart) {
  write("lo down\n");
  EXPECT_FALSE(lo_has_carrier(*open()));
}

TEST_F(FollowingTest, FollowsAFileThatComesChangesAndGoes) {
  const std::unique_ptr<Transport> transport = open();
  EXPECT_TRUE(lo_has_carrier(*transport));
  write("lo down\n");
  EXPECT_TRUE(becomes(*transport, false));
  write("lo delay 1\n");
  EXPECT_TRUE(becomes(*transport, true));
  write("lo down\n");
  EXPECT_TRUE(becomes(*transport, false));
  std::filesystem::remove(file_);
  EXPECT_TRUE(becomes(*transport, true));
}

TEST_F(FollowingTest, RefusesAFileThatCanNeverBeRead) {
  EXPECT_EQ(follow(testing::TempDir()).status().message(), "is a directory");
  EXPECT_EQ(follow("/nonexistent/faults").status().message(),
            "there is no directory /nonexistent, so the file can never come");
  const std::string fifo = file_ + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(follow(fifo).status().message(), "is a FIFO and not a regular file");
  std::filesystem::remove(fifo);
  write("");
  EXPECT_EQ(follow(file_ + "/faults").status().message(), "cannot read the file: Not a directory");
  EXPECT_TRUE(follow("a_file_that_may_come").ok());
}

TEST_F(FollowingTest, EndsWithItsTransportInTheMiddleOfChanges) {
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<Transport> transport = open();
    write(i % 2 == 0 ? "lo down\n" : "lo slow 1000\n");
  }
}

}  // namespace
}  // namespace r2ccl
