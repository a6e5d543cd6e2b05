// A whole job on the fabric: hosts with NICs, and on each host ranks that run as actors of one
// World.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/cluster/data_path_check.h"
#include "sim/cluster/sim_rank.h"
#include "sim/cluster/world.h"

namespace r2ccl::sim {

struct ClusterOptions {
  uint64_t seed = 1;
  int hosts = 2;
  int nics = 2;
  std::optional<std::pair<int, int>> absent;  // a host, and the rail on which it has no NIC
  uint64_t rate_bytes_per_s = 31'250'000;     // 250 Mbit/s
  int ranks_per_host = 1;  // processes of a host, which share its NICs and, above one, memory
  // The i-th rank of a host uses its i-th NIC alone.
  bool nic_per_rank = false;
  bool management = true;  // adds a NIC only for the out-of-band control stream
  int communicators = 1;   // they share the links
  // Plans take these for the host groups, wherever the ranks are.
  std::vector<uint32_t> plan_hosts;
  PlanCosts plan_costs;  // until the ranks measure some
  bool views = true;     // plans follow the NICs that are left
  View first_view;
  bool data_at_start = true;  // as in RankOptions
  LinkSettings link;
  WorldOptions world;
  bool checked = false;  // check() watches the whole run; costs half its speed
  // Checks a rank's invariants in each turn of this number, or never if it is 0: they visit every
  // path of the rank.
  uint64_t turns_per_check = 4;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  // Runs until every path of every link is up. Returns false when that takes more than 5 s of
  // virtual time.
  bool connect();

  int size() const { return static_cast<int>(nodes_.size()); }
  SimRank& node(int rank) { return *nodes_[static_cast<size_t>(rank)]; }
  SimNic& nic(int rank, int index) { return *node(rank).nics[static_cast<size_t>(index)]; }
  World& world() { return world_; }
  Fabric& fabric() { return world_.fabric(); }
  TimeNs now() { return world_.clock().now(); }
  DataPathCheck& check() { return check_; }

  // Returns whether every path of every link is up.
  bool all_paths_up();
  // Wakes every rank. A test calls it after calls to runtimes from outside the actors.
  void wake_all();
  // Destroys the rank's runtime; its process and NICs stay.
  void leave(int rank);

 private:
  std::unique_ptr<SimRank> make_node(int rank, const ClusterOptions& options);
  void open(SimRank& node, int rank, const ClusterOptions& options);
  bool link_up(int rank, int peer);
  void add_communicator(SimRank& node, int number, const ClusterOptions& options);
  RankOptions rank_options(int rank, const ClusterOptions& options, SimRank& node);

  WorldOptions world_options(const ClusterOptions& options);

  RankObserver unobserved_;
  World world_;
  DataPathCheck check_{world_.clock()};
  std::vector<std::unique_ptr<SimRank>> nodes_;
  int not_up_ = 0;  // the number of a link, by rank and peer
};

}  // namespace r2ccl::sim
