// A collective begins only when its view is decided, and follows that view.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "protocol/view/view_agreement.h"
#include "runtime/collective/executor.h"
#include "testing/fake_network.h"

namespace r2ccl {
namespace {

constexpr ChannelId kChannel{7};
constexpr size_t kCount = 100;

class ExecutorViews : public testing::Test {
 protected:
  ExecutorViews() { executors_[0].set_views(&views_); }

  // Starts an AllReduce on both ranks. Rank 1 has no agreement, and the whole view.
  void start() {
    for (Executor& executor : executors_) {
      PlanKey key;
      key.rank_count = 2;
      key.count = kCount;
      const size_t rank = &executor == &executors_[0] ? 0 : 1;
      results_[rank].reset();
      executor.start({key, reinterpret_cast<const std::byte*>(input_.data()),
                      reinterpret_cast<std::byte*>(outputs_[rank].data()),
                      [this, rank](const Status& status) { results_[rank] = status; }});
    }
    network_.run();
  }
  bool ended_well() const { return results_[0] && results_[0]->ok(); }

  // Rank 1 proposes a view from this collective on.
  void propose(uint64_t start_at, const View& view) {
    const ViewAsk ask{3, 1, ViewStage::propose, 0, ViewRecord{1, start_at, view}};
    ASSERT_TRUE(views_.on_message(Rank(1), ask, 0).ok());
    ASSERT_FALSE(views_.may_bind(start_at));
  }
  void release() {
    ASSERT_TRUE(views_.on_message(Rank(1), ViewAsk{3, 2, ViewStage::release, 0, {}}, 0).ok());
  }

  const View degraded_ = View::of({{{}, {}}, {{}, {0, 0}}}).value();
  ViewAgreement views_{Rank(0), 2, {}};
  FakeNetwork network_{2, 1};
  std::vector<float> input_ = std::vector<float>(kCount, 1);
  std::vector<float> outputs_[2] = {input_, input_};
  std::optional<Status> results_[2];
  // Last: an executor that is destroyed ends its collectives, which fill the results.
  Executor executors_[2] = {{Rank(0), kChannel, network_.ports_of(Rank(0)), 8},
                            {Rank(1), kChannel, network_.ports_of(Rank(1)), 8}};
};

TEST_F(ExecutorViews, ACollectiveAheadOfTheStartBeginsAtOnce) {
  propose(2, degraded_);
  start();
  EXPECT_TRUE(ended_well());
  EXPECT_EQ(views_.member().bound(), 1u);
}

TEST_F(ExecutorViews, APromisedCollectiveWaitsForTheDecision) {
  propose(1, degraded_);
  start();
  EXPECT_FALSE(results_[0].has_value());
  EXPECT_FALSE(executors_[0].idle());
  EXPECT_EQ(executors_[0].next_number(), 2u);
  EXPECT_EQ(executors_[0].waits_on(), std::vector{Rank(1)});
  executors_[0].resume();
  network_.run();
  EXPECT_FALSE(results_[0].has_value());
  release();
  executors_[0].resume();
  network_.run();
  EXPECT_TRUE(ended_well());
  EXPECT_TRUE(executors_[0].latest_view().empty());
}

TEST_F(ExecutorViews, ACommittedViewIsThatOfThePlan) {
  propose(1, degraded_);
  start();
  ASSERT_TRUE(views_.on_message(Rank(1), ViewCommit{3, {1, 1, degraded_}}, 0).ok());
  // Rank 1 has begun with another view, so the calls differ.
  executors_[0].resume();
  EXPECT_EQ(executors_[0].latest_view(), degraded_);
  network_.run();
  EXPECT_FALSE(ended_well());
}

TEST_F(ExecutorViews, CollectivesThatWaitEndWithTheCommunicator) {
  propose(1, degraded_);
  start();
  executors_[0].cancel({Code::aborted, "the end"});
  ASSERT_TRUE(results_[0].has_value());
  EXPECT_EQ(results_[0]->code(), Code::aborted);
  EXPECT_TRUE(executors_[0].idle());
}

}  // namespace
}  // namespace r2ccl
