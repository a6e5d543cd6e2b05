#include "runtime/bootstrap/known_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {
namespace {

std::vector<std::byte> meeting() {
  return std::vector<std::byte>(kJobIdBytes, std::byte{7});
}

RunIdentity run(uint8_t number) {
  RunIdentity made;
  made.id.fill(std::byte{number});
  made.key = LockedBytes::make(
      32, [&](std::span<std::byte> out) { std::ranges::fill(out, std::byte{number}); });
  return made;
}

class KnownJobs : public testing::Test {
 protected:
  KnownJobs() {
    for (int32_t rank = 0; rank < 3; ++rank) table_.emplace_back().rank = Rank(rank);
  }

  // Says that the rank is that peer of the run.
  void say(size_t rank, const RunIdentity& of, int32_t peer, std::vector<Rank> parted = {}) {
    KnownJob known{of.id, Rank(peer), std::move(parted), {}};
    prove(known, of, meeting(), table_[rank].rank);
    table_[rank].known_jobs.push_back(std::move(known));
  }
  std::vector<Rank> find(std::span<const std::byte> of_meeting) const {
    const auto common = find_common_job(
        table_, of_meeting, [&](std::span<const std::byte> id) -> const RunIdentity* {
          const auto at = std::ranges::find_if(
              runs_, [&](const RunIdentity& each) { return std::ranges::equal(each.id, id); });
          return at == runs_.end() ? nullptr : &*at;
        });
    return common ? common->peers : std::vector<Rank>();
  }
  std::vector<Rank> find() const { return find(meeting()); }

  std::vector<RunIdentity> runs_ = [] {
    std::vector<RunIdentity> runs;
    runs.push_back(run(1));
    runs.push_back(run(2));
    return runs;
  }();
  std::vector<RankInfo> table_;
};

TEST_F(KnownJobs, AreUsedIfAllRanksAreInOne) {
  EXPECT_TRUE(find().empty());
  say(0, runs_[0], 4);
  say(0, runs_[1], 9);
  say(1, runs_[1], 2);
  say(1, runs_[0], 0);
  EXPECT_TRUE(find().empty());
  say(2, runs_[1], 5);
  EXPECT_EQ(find(), (std::vector{Rank(9), Rank(2), Rank(5)}));
}

TEST_F(KnownJobs, AreNotUsedWithoutTheKey) {
  for (size_t rank = 0; rank < 3; ++rank) say(rank, runs_[0], static_cast<int32_t>(rank));
  EXPECT_FALSE(find().empty());
  EXPECT_TRUE(find(std::vector<std::byte>(kJobIdBytes, std::byte{8})).empty());  // another meeting
  RunIdentity forged = run(3);
  forged.id = runs_[0].id;
  table_[2].known_jobs.clear();
  say(2, forged, 2);
  EXPECT_TRUE(find().empty());
}

// A rank may have heard what another one says.
TEST_F(KnownJobs, AreNotUsedIfARankRepeatsAnother) {
  for (size_t rank = 0; rank < 3; ++rank) say(rank, runs_[0], static_cast<int32_t>(rank));
  table_[2].known_jobs = table_[1].known_jobs;
  EXPECT_TRUE(find().empty());
  table_[2].known_jobs.front().peer = Rank(2);
  EXPECT_TRUE(find().empty());
  table_[2].known_jobs.clear();
  say(2, runs_[0], 1);
  EXPECT_TRUE(find().empty());
}

TEST_F(KnownJobs, AreNotUsedIfALinkBetweenTheRanksHasEnded) {
  say(0, runs_[0], 0, {Rank(3)});
  say(1, runs_[0], 1, {Rank(3)});
  say(2, runs_[0], 2);
  EXPECT_EQ(find().size(), 3U);  // the peer 3 is not at this meeting
  table_[1].known_jobs.clear();
  say(1, runs_[0], 1, {Rank(3), Rank(2)});
  EXPECT_TRUE(find().empty());
}

}  // namespace
}  // namespace r2ccl
