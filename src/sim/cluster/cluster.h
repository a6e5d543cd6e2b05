// A whole job on the fabric: hosts with NICs, on each an engine, and the executors, incidents and
// drains that a communicator has, driven as actors of one World. The code under test is the real
// one; only time and wires are made up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/admin/drains.h"
#include "runtime/collective/executor.h"
#include "runtime/collective/point_to_point.h"
#include "runtime/diagnosis/incidents.h"
#include "runtime/engine/progress_engine.h"
#include "sim/cluster/data_path_check.h"
#include "sim/cluster/world.h"
#include "sim/fabric/host_clock.h"

namespace r2ccl::sim {

struct ClusterOptions {
  uint64_t seed = 1;
  int hosts = 2;
  int nics = 2;
  uint64_t rate_bytes_per_s = 31'250'000;  // 250 Mbit/s
  bool management = true;                  // a NIC that carries no data, for the out-of-band lane
  int communicators = 1;                   // over the same links
  LinkSettings link;
  WorldOptions world;
  bool checked = false;  // check() watches the whole run; costs half its speed
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  // Runs until every link has every path up; false when that takes more than a simulated 5 s.
  bool connect();

  struct Node final : EngineObserver {
    SimHost* host = nullptr;
    DataPathCheck* check = nullptr;
    std::vector<SimNic*> nics;
    SimNic* management = nullptr;
    std::unique_ptr<HostClock> clock;
    std::unique_ptr<ProgressEngine> engine;
    std::vector<std::unique_ptr<MessagePort>> checked_ports;
    struct Communicator {
      std::unique_ptr<Executor> executor;
      std::unique_ptr<PointToPoint> point_to_point;
    };
    std::vector<Communicator> communicators;
    Executor* executor = nullptr;  // the first communicator's
    PointToPoint* point_to_point = nullptr;
    std::unique_ptr<Incidents> incidents;
    std::unique_ptr<Drains> drains;
    std::vector<bool> ended;  // by rank: it left or died
    bool leaving = false;     // it said goodbye
    uint64_t turns = 0;
    ActorId actor;
    std::vector<PathEvent> events;
    std::vector<std::pair<Rank, PeerEnd>> ends;
    std::vector<std::string> notices;
    std::vector<std::string> contradictions;  // what a communicator fails with
    std::function<void()> in_turn;  // what a test does in every turn of this rank's thread

    void on_path_event(const PathEvent& event) override;
    void on_notice(Rank peer, std::span<const std::byte> bytes) override;
    void on_peer_end(Rank peer, PeerEnd end, const std::string& why) override;
    void on_bad_memory(const BadMemory& bad) override;
    void on_contradiction(Rank peer, const std::string& why) override;
    // A turn of the thread that a communicator has.
    void progress();
    TimeNs next_timeout() const;
    // A communicator fails when it waits for a rank that has said goodbye.
    void check_departed();
  };

  int size() const { return static_cast<int>(nodes_.size()); }
  Node& node(int rank) { return *nodes_[static_cast<size_t>(rank)]; }
  SimNic& nic(int rank, int index) { return *node(rank).nics[static_cast<size_t>(index)]; }
  World& world() { return world_; }
  Fabric& fabric() { return world_.fabric(); }
  TimeNs now() { return world_.clock().now(); }
  DataPathCheck& check() { return check_; }

  // All paths of all links that carry data are up.
  bool all_paths_up();
  // What r2cclCommFinalize begins, and whether it is over: every peer said goodbye too.
  void begin_goodbye(int rank);
  bool goodbye_done(int rank);
  // After calls to executors from outside the actors.
  void wake_all();
  // Destroys what the rank's communicator would; its process and NICs stay.
  void leave(int rank);

 private:
  std::unique_ptr<Node> make_node(int rank, const ClusterOptions& options);
  void add_communicators(int rank, const ClusterOptions& options);

  LinkSettings link_settings(const ClusterOptions& options);
  WorldOptions world_options(const ClusterOptions& options);

  World world_;
  DataPathCheck check_{world_.clock()};
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace r2ccl::sim
