#include "sim/cluster/world.h"

#include <gtest/gtest.h>

#include "testing/test_pair.h"

namespace r2ccl::sim {
namespace {

// An actor that connects to all its peers by every NIC, sends for ever and counts the bytes that
// arrive.
class Blaster {
 public:
  Blaster(SimHost& host, std::vector<Endpoint> peers, Listener* const* listeners, size_t count)
      : host_(host), listeners_(listeners, listeners + count), bytes_(pattern_bytes(64 * 1024)) {
    for (Listener* listener : listeners_) add(listener->poll_id(), kListenerToken, false);
    // As with a link, the kernel holds few unsent bytes.
    const ConnectOptions options{.device = "", .source = {}, .unsent_low_water = 16 * 1024};
    for (const Endpoint& peer : peers) adopt(host.connect(peer, options).value());
  }
  ~Blaster() {
    for (auto& connection : connections_) host_.poller().remove(connection->poll_id());
    for (Listener* listener : listeners_) host_.poller().remove(listener->poll_id());
  }

  void progress() {
    std::array<PollEvent, 16> events;
    const size_t count = host_.poller().wait(events, kSecond);
    for (size_t i = 0; i < count; ++i) {
      if (events[i].token == kListenerToken) {
        accept_all();
        continue;
      }
      Connection& connection = *connections_[events[i].token];
      const iovec slice = slice_of(bytes_);
      if (events[i].writable) (void)connection.write({&slice, 1});
      if (events[i].readable) received_ += connection.read({&slice, 1}).bytes;
    }
  }
  uint64_t received() const { return received_; }

 private:
  static constexpr uint64_t kListenerToken = UINT64_MAX;

  void add(int poll_id, uint64_t token, bool want_write) {
    ASSERT_TRUE(host_.poller().add(poll_id, token, want_write).ok());
  }
  void adopt(std::unique_ptr<Connection> connection) {
    add(connection->poll_id(), connections_.size(), true);
    connections_.push_back(std::move(connection));
  }
  void accept_all() {
    for (Listener* listener : listeners_) {
      while (auto connection = listener->accept()) adopt(std::move(connection));
    }
  }

  SimHost& host_;
  std::vector<Listener*> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::byte> bytes_;
  uint64_t received_ = 0;
};

// `host_count` hosts with `nic_count` NICs each, every pair connected on every rail.
struct Mesh {
  Mesh(uint64_t seed, size_t host_count, size_t nic_count, const WorldOptions& options = {})
      : world(seed, options) {
    std::vector<SimHost*> hosts;
    std::vector<Endpoint> peers;
    std::vector<std::vector<Listener*>> raw(host_count);
    for (size_t h = 0; h < host_count; ++h) {
      hosts.push_back(&world.fabric().add_host("host" + std::to_string(h)));
      for (size_t n = 0; n < nic_count; ++n) {
        const std::string name = "nic" + std::to_string(n);
        NicOptions nic;
        nic.name = name;
        nic.rail = static_cast<uint32_t>(n);
        nics.push_back(&world.fabric().add_nic(*hosts[h], nic));
        listeners.push_back(hosts[h]->listen({hosts[h]->address_of(name), 0}, name).value());
        raw[h].push_back(listeners.back().get());
      }
    }
    for (size_t h = 0; h < host_count; ++h) {
      blasters.push_back(std::make_unique<Blaster>(*hosts[h], peers, raw[h].data(), nic_count));
      for (Listener* listener : raw[h]) peers.push_back(listener->local());
      Blaster* blaster = blasters.back().get();
      actors.push_back(
          world.add_actor({hosts[h], [blaster] { blaster->progress(); }, [] { return kNever; }}));
    }
  }
  ~Mesh() {
    for (const ActorId actor : actors) world.remove_actor(actor);
  }
  uint64_t received() const {
    uint64_t sum = 0;
    for (const auto& blaster : blasters) sum += blaster->received();
    return sum;
  }

  World world;
  std::vector<SimNic*> nics;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::unique_ptr<Blaster>> blasters;
  std::vector<ActorId> actors;
};

uint64_t run_with_faults(uint64_t seed) {
  WorldOptions options;
  options.wakeup_jitter_ns = 50 * kMicrosecond;
  Mesh mesh(seed, 3, 2, options);
  Fabric& fabric = mesh.world.fabric();
  const TimeNs start = mesh.world.clock().now();
  fabric.at(start + 10 * kMillisecond, [&] { fabric.hole(*mesh.nics[0]); });
  fabric.at(start + 20 * kMillisecond, [&] { fabric.lose(*mesh.nics[3], 1000); });
  fabric.at(start + 300 * kMillisecond, [&] { fabric.fix(*mesh.nics[0]); });
  mesh.world.run_for(500 * kMillisecond);
  return mesh.world.trace_hash();
}

TEST(World, OneSeedGivesOneRunAndAnotherSeedAnother) {
  EXPECT_EQ(run_with_faults(1), run_with_faults(1));
  EXPECT_NE(run_with_faults(1), run_with_faults(2));
}

TEST(World, FourHostsWithFourNicsFillTheirLines) {
  Mesh mesh(1, 4, 4);
  mesh.world.run_for(kSecond);
  // 16 NICs carry 31.25 MB/s each for one second. These are 500 MB, minus the time to connect and
  // the bytes still in flight.
  EXPECT_GT(mesh.received(), 490'000'000u);
  EXPECT_LE(mesh.received(), 500'000'000u);
}

TEST(World, AnIdleWorldJumps) {
  World world(1);
  SimHost& host = world.fabric().add_host("a");
  int turns = 0;
  TimeNs next = world.clock().now() + 3600 * kSecond;
  world.add_actor({&host,
                   [&] {
                     ++turns;
                     next = kNever;
                   },
                   [&] { return next; }});
  EXPECT_TRUE(world.run_until([&] { return turns == 1; }, kNever));
  EXPECT_EQ(world.clock().now(), kSecond + 3600 * kSecond);
  EXPECT_FALSE(world.run_until([&] { return turns == 2; }, kNever));
}

TEST(World, AWakeRunsTheActor) {
  World world(1);
  SimHost& host = world.fabric().add_host("a");
  int turns = 0;
  std::array<PollEvent, 1> events;
  world.add_actor({&host,
                   [&] {
                     ++turns;
                     host.poller().wait(events, kNever);
                   },
                   [] { return kNever; }});
  world.run_for(kMillisecond);
  const int before = turns;
  host.poller().wake();
  world.run_for(kMillisecond);
  EXPECT_EQ(turns, before + 1);
}

TEST(World, ADescheduledActorRunsLateAndAStoppedOneOnlyAfterItResumes) {
  World world(1);
  SimHost& host = world.fabric().add_host("a");
  TimeNs ran_at = 0;
  TimeNs next = kNever;
  const ActorId actor = world.add_actor({&host,
                                         [&] {
                                           ran_at = world.clock().now();
                                           next = kNever;
                                         },
                                         [&] { return next; }});
  const TimeNs start = world.clock().now();
  next = start + kMillisecond;
  world.deschedule(actor, 20 * kMillisecond);
  world.run_for(50 * kMillisecond);
  EXPECT_EQ(ran_at, start + 20 * kMillisecond);

  world.stop(actor);
  next = world.clock().now();
  world.run_for(10 * kSecond);
  EXPECT_EQ(ran_at, start + 20 * kMillisecond);
  world.resume(actor);
  world.run_for(kMillisecond);
  EXPECT_EQ(ran_at, start + 50 * kMillisecond + 10 * kSecond);
}

TEST(World, AKilledProcessRunsNoMore) {
  World world(1);
  SimHost& host = world.fabric().add_host("a");
  int turns = 0;
  world.add_actor({&host, [&] { ++turns; }, [&] { return world.clock().now() + kMillisecond; }});
  world.run_for(10 * kMillisecond);
  EXPECT_GE(turns, 9);
  world.kill(host);
  const int before = turns;
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(turns, before);
}

// A reader that never reads keeps its poller ready. This must cost turns, and must not stop time.
TEST(World, AnActorThatLeavesItsEventsAloneDoesNotStopTime) {
  World world(1);
  SimHost& host = world.fabric().add_host("a");
  world.fabric().add_nic(host, {.name = "nic0"});
  ASSERT_TRUE(host.poller().add(host.nic_events_poll_id(), 1, false).ok());
  uint64_t turns = 0;
  world.add_actor({&host, [&] { ++turns; }, [] { return kNever; }});
  world.run_for(kMillisecond);
  EXPECT_EQ(turns, 501u);  // one turn each 2 us
}

}  // namespace
}  // namespace r2ccl::sim
