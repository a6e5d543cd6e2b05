#include "runtime/engine/process_engine.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

class Member final : public ProcessEngine::Member {
 public:
  Member(ProcessEngine& process, int rank, std::string& order)
      : reactor(process.reactor(), *this), process_(process), rank_(rank), order_(order) {
    process_.add(*this);
  }
  ~Member() override { process_.remove(*this); }

  Reactor reactor;  // its own, over the process's
  TimeNs due = kNever;
  bool throws = false;
  uint64_t waits_in = 0;
  int told = 0;
  std::string error;

 private:
  Rank self() const override { return rank_; }
  void progress() override {
    order_ += std::to_string(rank_.value());
    if (throws) throw std::runtime_error("pass");
  }
  TimeNs next_timeout() override { return due; }
  bool busy() const override { return false; }
  void on_nics_changed() override {}
  bool caller_waits_outside(uint64_t comm) const override {
    return waits_in != 0 && waits_in != comm;
  }
  void on_caller_waits() override { ++told; }
  void on_exception(const std::exception& thrown) noexcept override { error = thrown.what(); }

  ProcessEngine& process_;
  const Rank rank_;
  std::string& order_;
};

class Handler final : public EventHandler {
 public:
  int events = 0;
  bool throws = false;

 private:
  void on_ready(const PollEvent&) override {
    ++events;
    if (throws) throw std::runtime_error("handler");
  }
};

class ProcessEngineOfThree : public testing::Test {
 protected:
  NoTransport transport_;
  ManualClock clock_;
  std::string order_;
  ProcessEngine process_{transport_, clock_, [this] { order_ += '.'; }};
  Member first_{process_, 0, order_};
  Member second_{process_, 1, order_};
  Member third_{process_, 2, order_};
};

TEST_F(ProcessEngineOfThree, EachTurnBeginsWithAnotherMember) {
  for (int pass = 0; pass < 4; ++pass) process_.progress(0);
  EXPECT_EQ(order_, ".012.120.201.012");
}

TEST_F(ProcessEngineOfThree, TheEarliestTimeoutOfAMemberCounts) {
  EXPECT_EQ(process_.next_timeout(), kNever);
  second_.due = 20;
  third_.due = 10;
  EXPECT_EQ(process_.next_timeout(), 10);
}

TEST_F(ProcessEngineOfThree, ACallerWaitsOutsideOfAllCommunicatorsButHisOwn) {
  EXPECT_FALSE(process_.caller_waits_outside(1));
  second_.waits_in = 2;
  third_.waits_in = 2;
  process_.tell_caller_waits();
  EXPECT_EQ(first_.told, 1);
  EXPECT_TRUE(process_.caller_waits_outside(1));
  EXPECT_FALSE(process_.caller_waits_outside(2));
  third_.waits_in = 1;
  EXPECT_TRUE(process_.caller_waits_outside(2));
}

TEST_F(ProcessEngineOfThree, AnExceptionInATurnReachesItsMemberOnly) {
  second_.throws = true;
  process_.progress(0);
  EXPECT_EQ(order_, ".012");
  EXPECT_EQ(second_.error, "pass");
  EXPECT_TRUE(first_.error.empty());
  EXPECT_TRUE(third_.error.empty());
}

TEST_F(ProcessEngineOfThree, AnExceptionInAHandlerReachesItsMemberOnly) {
  Handler bad;
  Handler good;
  bad.throws = true;
  const auto bad_events = first_.reactor.add(1, bad, false);
  const auto good_events = second_.reactor.add(2, good, false);
  ASSERT_TRUE(bad_events.ok() && good_events.ok());
  process_.progress(0);
  EXPECT_EQ(first_.error, "handler");
  EXPECT_TRUE(second_.error.empty());
  EXPECT_EQ(good.events, 1);
  EXPECT_EQ(order_, ".012");
}

TEST_F(ProcessEngineOfThree, AnExceptionOfTheTurnItselfReachesAll) {
  process_.on_exception(std::runtime_error("poller"));
  for (const Member* member : {&first_, &second_, &third_}) EXPECT_EQ(member->error, "poller");
}

TEST_F(ProcessEngineOfThree, AMemberThatHasLeftGetsNoTurn) {
  auto leaving = std::make_unique<Member>(process_, 3, order_);
  leaving.reset();
  process_.progress(0);
  EXPECT_EQ(order_, ".012");
}

TEST_F(ProcessEngineOfThree, HasOneAccountForEachNic) {
  process_.nic_queues()["nic0"].on_sent(100, true, 0);
  EXPECT_EQ(process_.nic_queues()["nic0"].outstanding(), 100U);
  EXPECT_EQ(process_.nic_queues()["nic1"].outstanding(), 0U);
}

}  // namespace
}  // namespace r2ccl
