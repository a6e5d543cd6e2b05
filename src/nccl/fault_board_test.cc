#include "nccl/fault_board.h"

#include <gtest/gtest.h>

#include <map>

namespace r2ccl::nccl {
namespace {

constexpr TimeNs kStart = 100 * kSecond;

VerdictInfo pair_of(const std::string& nic, const std::string& peer_host,
                    const std::string& peer_nic) {
  VerdictInfo verdict;
  verdict.scope = Scope::pair;
  verdict.kind = DownCause::silent;
  verdict.host = "h0";
  verdict.nic = nic;
  verdict.peer_host = peer_host;
  verdict.peer_nic = peer_nic;
  verdict.retransmitted = 10;
  return verdict;
}

VerdictInfo nic_of(const std::string& host, const std::string& nic) {
  VerdictInfo verdict;
  verdict.scope = Scope::nic;
  verdict.kind = DownCause::carrier_lost;
  verdict.host = host;
  verdict.nic = nic;
  return verdict;
}

// The process runs on h0. Links 1 to 3 go to h1 to h3, link 11 goes to h1, too.
class FaultBoardTest : public testing::Test {
 protected:
  static std::string host_of(uint64_t link) { return "h" + std::to_string(link % 10); }

  void hear(uint64_t link, const VerdictInfo& verdict, bool over = false) {
    board_.on_verdict({link, host_of(link), verdict, 0, over}, now_);
  }
  void lose_pair(uint64_t link, const std::string& nic = "nic1") {
    hear(link, pair_of(nic, host_of(link), nic));
  }
  std::vector<std::string> lines_at(TimeNs when) {
    now_ = when;
    std::vector<std::string> lines;
    for (const Fault& fault : board_.progress(when)) {
      lines.push_back(fault.repaired_at ? repair_text(fault) : fault_text(fault));
    }
    return lines;
  }
  std::vector<std::string> lines() { return lines_at(now_); }

  TimeNs now_ = kStart;
  std::map<std::string, NicReach> reach_ = {{"nic1", {3, true}}, {"", {3, true}}};
  FaultBoard board_{"h0", [this](const std::string& nic) { return reach_[nic]; }};
};

using Lines = std::vector<std::string>;

TEST_F(FaultBoardTest, NamesTheNicThatThreeHostsMiss) {
  lose_pair(1);
  EXPECT_EQ(lines(), Lines()) << "two more hosts may miss it";
  reach_["nic1"].connected = false;
  lose_pair(2);
  EXPECT_EQ(lines(), Lines{"h0 nic1: silent, missed by 2 hosts, 20 bytes replayed"});
  lose_pair(3);
  EXPECT_EQ(lines(), Lines());
  ASSERT_EQ(board_.faults().size(), 1u);
  EXPECT_EQ(board_.faults()[0].missed_by, 3u);
  EXPECT_EQ(board_.faults()[0].verdict.scope, Scope::nic);
  for (const uint64_t link : {1, 2}) board_.on_path_up(link, "nic1", "nic1");
  EXPECT_EQ(lines(), Lines()) << "one path is still lost";
  board_.on_path_up(3, "nic1", "nic1");
  EXPECT_EQ(lines_at(now_ + 12 * kSecond), Lines{"h0 nic1: works again after 12.0 s"});
  EXPECT_EQ(board_.next_timeout(), kNever);
}

TEST_F(FaultBoardTest, KeepsThePairWhileTheNicReachesAnotherHost) {
  lose_pair(1);
  lose_pair(2);
  EXPECT_EQ(lines(), Lines());
  EXPECT_EQ(board_.next_timeout(), kStart + kFaultWait);
  EXPECT_EQ(lines_at(kStart + kFaultWait - 1), Lines());
  EXPECT_EQ(lines_at(kStart + kFaultWait),
            (Lines{"between h0 nic1 and h1 nic1: silent, 10 bytes replayed",
                   "between h0 nic1 and h2 nic1: silent, 10 bytes replayed"}));
  EXPECT_EQ(board_.next_timeout(), kNever);
}

TEST_F(FaultBoardTest, WaitsForNoHostThatHasNoSuchPath) {
  reach_["nic1"] = {1, false};
  lose_pair(1);
  EXPECT_EQ(board_.next_timeout(), 0);
  EXPECT_EQ(lines(), Lines{"between h0 nic1 and h1 nic1: silent, 10 bytes replayed"});
}

// Two processes of one host say no more than one: that host's NIC may be at fault.
TEST_F(FaultBoardTest, CountsHostsAndNotLinks) {
  reach_["nic1"] = {2, false};
  lose_pair(1);
  lose_pair(11);
  EXPECT_EQ(lines(), Lines());
  EXPECT_EQ(lines_at(kStart + kFaultWait),
            Lines{"between h0 nic1 and h1 nic1: silent, 20 bytes replayed"});
  lose_pair(2);
  EXPECT_EQ(lines(), Lines{"h0 nic1: silent, missed by 2 hosts, 30 bytes replayed"})
      << "later evidence says more";
  for (const uint64_t link : {1, 11, 2}) board_.on_path_up(link, "nic1", "nic1");
  EXPECT_EQ(lines().size(), 1u) << "one repair, of the NIC";
  for (const Fault& fault : board_.faults()) EXPECT_TRUE(fault.repaired_at);
}

TEST_F(FaultBoardTest, TellsTheKernelsWordAtOnceAndOnce) {
  hear(1, nic_of("h0", "nic1"));
  EXPECT_EQ(lines(), Lines{"h0 nic1: carrier_lost, 0 bytes replayed"});
  hear(2, nic_of("h0", "nic1"));
  lose_pair(3);
  EXPECT_EQ(lines(), Lines());
  for (const uint64_t link : {1, 2, 3}) board_.on_path_up(link, "nic1", "nic1");
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_EQ(board_.count(), 1u);
}

TEST_F(FaultBoardTest, TellsOfTheNicOfAnotherHostOnce) {
  hear(1, nic_of("h1", "nic1"));
  hear(11, nic_of("h1", "nic1"));
  hear(2, nic_of("h2", "nic1"));
  EXPECT_EQ(lines(), (Lines{"h1 nic1: carrier_lost, 0 bytes replayed",
                            "h2 nic1: carrier_lost, 0 bytes replayed"}));
}

// Links to busy processes may find it silent before the kernel tells.
TEST_F(FaultBoardTest, TheKernelsWordMakesAFaultMorePrecise) {
  reach_["nic1"].connected = false;
  lose_pair(1);
  lose_pair(2);
  EXPECT_EQ(lines().size(), 1u);
  hear(3, nic_of("h0", "nic1"));
  EXPECT_EQ(lines(), Lines());
  EXPECT_EQ(board_.faults().front().verdict.kind, DownCause::carrier_lost);
  EXPECT_EQ(board_.faults().front().missed_by, 2u);
}

TEST_F(FaultBoardTest, AVerdictOfTheKernelTakesInThePairsThatWait) {
  lose_pair(1);
  EXPECT_EQ(lines(), Lines());
  hear(2, nic_of("h0", "nic1"));
  EXPECT_EQ(lines(), Lines{"h0 nic1: carrier_lost, 10 bytes replayed"});
  EXPECT_EQ(lines_at(kStart + kFaultWait), Lines());
}

TEST_F(FaultBoardTest, ALaterLossOfOnePairIsAPairAgain) {
  reach_["nic1"].connected = false;
  lose_pair(1);
  lose_pair(2);
  EXPECT_EQ(lines().size(), 1u);
  for (const uint64_t link : {1, 2}) board_.on_path_up(link, "nic1", "nic1");
  reach_["nic1"].connected = true;
  EXPECT_EQ(lines().size(), 1u);
  now_ += 10 * kSecond;
  lose_pair(2);
  EXPECT_EQ(lines_at(now_ + kFaultWait),
            Lines{"between h0 nic1 and h2 nic1: silent, 10 bytes replayed"});
}

TEST_F(FaultBoardTest, APairThatIsRepairedMeanwhileIsToldWithItsRepair) {
  lose_pair(1);
  EXPECT_EQ(lines(), Lines());
  board_.on_path_up(1, "nic1", "nic1");
  EXPECT_EQ(lines(), (Lines{"between h0 nic1 and h1 nic1: silent, 10 bytes replayed",
                            "between h0 nic1 and h1 nic1: works again after 0.0 s"}));
  hear(1, pair_of("nic1", "h1", "nic1"), true);
  EXPECT_EQ(lines().size(), 2u) << "the verdict may come after the repair";
}

// Its processes have ended.
TEST_F(FaultBoardTest, ALinkThatEndsRepairsNothing) {
  hear(1, nic_of("h0", "nic1"));
  EXPECT_EQ(lines().size(), 1u);
  board_.on_link_end(1);
  EXPECT_EQ(lines(), Lines());
  hear(2, nic_of("h0", "nic1"));
  EXPECT_EQ(lines().size(), 1u) << "a fault of its own";
}

TEST_F(FaultBoardTest, NamesThisHostWhenAllHostsMissAllOfIt) {
  reach_[""] = {2, false};
  lose_pair(1, "");
  lose_pair(2, "");
  EXPECT_EQ(lines(), Lines{"all NICs of h0: silent, missed by 2 hosts, 20 bytes replayed"});
}

TEST_F(FaultBoardTest, TellsOfLossOnceInAWhile) {
  VerdictInfo lossy = nic_of("h0", "nic1");
  lossy.kind = DownCause::lossy;
  lossy.loss_ppm = 12'000;
  hear(1, lossy);
  hear(2, lossy);
  EXPECT_EQ(lines(), Lines{"h0 nic1: lossy, 1.2 % of the packets are lost; it stays in use"});
  now_ += kFaultRepeat;
  hear(1, lossy);
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_EQ(board_.next_timeout(), kNever);
}

TEST_F(FaultBoardTest, TellsOfEachProcessThatDies) {
  VerdictInfo death;
  death.scope = Scope::process;
  death.kind = DownCause::connection_lost;
  death.host = "h1";
  for (const uint32_t process : {41, 42}) board_.on_verdict({1, "h1", death, process}, now_);
  EXPECT_EQ(lines(), (Lines{"process 41 of host h1: connection_lost, 0 bytes replayed",
                            "process 42 of host h1: connection_lost, 0 bytes replayed"}));
}

TEST_F(FaultBoardTest, KeepsTheLatestFaults) {
  for (size_t i = 0; i < kFaultsKept + 5; ++i) {
    hear(1, nic_of("h0", "nic" + std::to_string(i)));
    (void)lines();
    board_.on_path_up(1, "nic" + std::to_string(i), "");
    (void)lines();
  }
  EXPECT_EQ(board_.faults().size(), kFaultsKept);
  EXPECT_EQ(board_.count(), kFaultsKept + 5);
  EXPECT_EQ(board_.faults().back().number, kFaultsKept + 4);
}

}  // namespace
}  // namespace r2ccl::nccl
