// A whole job on the fabric: hosts with NICs, on each a rank, driven as actors of one World.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cluster/data_path_check.h"
#include "sim/cluster/sim_rank.h"
#include "sim/cluster/world.h"

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

  int size() const { return static_cast<int>(nodes_.size()); }
  SimRank& node(int rank) { return *nodes_[static_cast<size_t>(rank)]; }
  SimNic& nic(int rank, int index) { return *node(rank).nics[static_cast<size_t>(index)]; }
  World& world() { return world_; }
  Fabric& fabric() { return world_.fabric(); }
  TimeNs now() { return world_.clock().now(); }
  DataPathCheck& check() { return check_; }

  // All paths of all links that carry data are up.
  bool all_paths_up();
  // After calls to runtimes from outside the actors.
  void wake_all();
  // Destroys the rank's runtime; its process and NICs stay.
  void leave(int rank);

 private:
  std::unique_ptr<SimRank> make_node(int rank, const ClusterOptions& options);
  RankOptions rank_options(int rank, const ClusterOptions& options, SimRank& node);

  WorldOptions world_options(const ClusterOptions& options);

  World world_;
  DataPathCheck check_{world_.clock()};
  std::vector<std::unique_ptr<SimRank>> nodes_;
};

}  // namespace r2ccl::sim
