// The number of control frames that a job sends because of a fault.
#include <gtest/gtest.h>

#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr int kHost = 1;
const NicId kNic(3);

// Returns the number of frames that all ranks have sent. `spared` excludes the NIC's own paths.
uint64_t control_frames(Cluster& cluster, bool spared) {
  uint64_t frames = 0;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    for (int peer = 0; peer < cluster.size(); ++peer) {
      const Link* link = cluster.node(rank).engine().link(Rank(peer));
      if (link == nullptr) continue;
      const bool of_host = rank == kHost || peer == kHost;
      for (const auto& path : link->paths()) {
        const bool of_nic = of_host && path->spec.local_nic == kNic;
        if (!spared || !of_nic) frames += path->total_control_frames();
      }
    }
  }
  return frames;
}

// Counts the frames that an idle job sends while one NIC is silent. If none is silent, counts only
// the paths of the other NICs.
uint64_t frames_sent(int hosts, bool silent, TimeNs watched) {
  ClusterOptions options;
  options.hosts = hosts;
  options.nics = 8;
  Cluster cluster(options);
  EXPECT_TRUE(cluster.connect());
  cluster.world().run_for(2 * kSecond);
  const uint64_t before = control_frames(cluster, !silent);
  if (silent) cluster.fabric().hole(cluster.nic(kHost, kNic.value()));
  cluster.world().run_for(watched);
  const uint64_t frames = control_frames(cluster, !silent) - before;
  if (!silent) return frames;
  for (int rank = 0; rank < hosts; ++rank) {
    const auto& verdicts = cluster.node(rank).fault_reporter().verdicts();
    EXPECT_EQ(verdicts.size(), 1u);
    if (verdicts.empty()) continue;
    EXPECT_EQ(verdicts[0].scope, Scope::nic);
    EXPECT_EQ(verdicts[0].faulty, (NicName{kHost, "nic3"}));
  }
  return frames;
}

TEST(ControlFrames, ASilentNicOfALargeJobCostsFew) {
  constexpr TimeNs kWatched = 4 * kSecond;
  struct Case {
    int hosts;
    uint64_t frames_max;
  };
  // Heartbeats do not wait for other frames, so these all come on top. The agreement on a view
  // takes up to nine frames of each rank and the proposer, the table of rates two of each rank.
  for (const Case& c : {Case{4, 188}, Case{8, 490}, Case{16, 1032}}) {
    const uint64_t heartbeats = frames_sent(c.hosts, false, kWatched);
    const uint64_t frames = frames_sent(c.hosts, true, kWatched);
    EXPECT_LE(frames, heartbeats + c.frames_max) << c.hosts << " ranks";
    std::printf("%d ranks: %lld frames more\n", c.hosts,
                static_cast<long long>(frames) - static_cast<long long>(heartbeats));
  }
}

}  // namespace
}  // namespace r2ccl::sim
