#include "nccl/peer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "edge/open_transport.h"
#include "edge/settings.h"
#include "runtime/communicator_options.h"

namespace r2ccl::nccl {
namespace {

class NoWatcher final : public PeerWatcher {
 public:
  void on_verdict(Peer&, const Verdict&) override {}
  void on_path_up(Peer&, const PathEvent&) override {}
};

// The next attempt then makes another link.
TEST(Peer, IsOfNoUseOnceItsStartHasFailed) {
  setenv("R2CCL_SOCKET_IFNAME", "lo", 1);
  CommunicatorOptions options;
  options.config = load_settings().value();
  options.rank_count = 2;
  ProcessDriver driver(open_transport(options.config).value());
  NoWatcher watcher;
  driver.thread()->call([&] {
    const JobOptions job{rank_options(options).engine, false, nullptr, false};
    const RankInfo own = describe_self(options).value();
    Peer peer(
        driver, Rank(0), job, 7, own, [](const std::string&) {}, watcher);
    ASSERT_TRUE(peer.open().ok());
    EXPECT_TRUE(peer.usable()) << "its link is to come";
    RankInfo other = peer.own_info();
    other.rank = Rank(1);
    other.host_name = "another";
    other.host = {};
    other.nics.clear();
    EXPECT_FALSE(peer.start(7, other, LockedBytes::random(kRunTokenBytes)).ok());
    EXPECT_FALSE(peer.started());
    EXPECT_FALSE(peer.usable());
    EXPECT_TRUE(peer.over());
  });
}

}  // namespace
}  // namespace r2ccl::nccl
