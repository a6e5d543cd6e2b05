#include "sim/cluster/cluster.h"

#include <algorithm>

#include "base/check.h"
#include "sim/cluster/checked_port.h"

namespace r2ccl::sim {
namespace {

constexpr int kManagementRail = 100;
constexpr uint64_t kFurtherContexts = 1000;

std::function<std::array<std::byte, kNonceBytes>()> nonces(uint64_t seed) {
  return [random = Random(seed)]() mutable {
    std::array<std::byte, kNonceBytes> nonce;
    for (std::byte& byte : nonce) byte = static_cast<std::byte>(random.next());
    return nonce;
  };
}

// Returns the identity that the ranks share, because they meet without a rendezvous.
RunIdentity make_run() {
  const std::array<std::byte, kSecretBytes> key{std::byte{42}};
  RunIdentity run;
  run.key = LockedBytes::copy_of(key);
  return run;
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options) : world_(options.seed, world_options(options)) {
  std::vector<RankInfo> rank_table;
  for (int rank = 0; rank < options.hosts * options.ranks_per_host; ++rank) {
    nodes_.push_back(make_node(rank, options));
    RankInfo info;
    info.rank = Rank(rank);
    info.host_name = "h" + std::to_string(rank);
    const int host = rank / options.ranks_per_host + 1;
    info.host[0] = static_cast<std::byte>(host);
    info.host[1] = static_cast<std::byte>(host >> 8);
    node(rank).runtime->describe(info);
    rank_table.push_back(std::move(info));
  }
  const RunIdentity run = make_run();
  for (const auto& each : nodes_) {
    SimRank& one = *each;
    R2CCL_CHECK(one.runtime->start({rank_table, run}).ok());
    for (int c = 1; c < options.communicators; ++c) add_communicator(one, c, options);
    one.actor = world_.add_actor(
        {one.host, [&one] { one.progress(); }, [&one] { return one.next_timeout(); }});
  }
}

WorldOptions Cluster::world_options(const ClusterOptions& options) {
  WorldOptions world = options.world;
  if (options.checked) world.network.watch = &check_;
  return world;
}

RankOptions Cluster::rank_options(int rank, const ClusterOptions& options, SimRank& node) {
  RankOptions made;
  made.self = Rank(rank);
  made.rank_count = options.hosts * options.ranks_per_host;
  made.engine.link = options.link;
  made.engine.listen.shm = options.ranks_per_host > 1;
  made.engine.nonce = nonces(options.seed * 1000 + static_cast<uint64_t>(rank));
  if (options.management) made.engine.listen.oob_ifname = "mgmt";
  made.plan_hosts = options.plan_hosts;
  made.plan_costs = options.plan_costs;
  made.data_at_start = options.data_at_start;
  made.views = options.views;
  made.first_view = options.first_view;
  if (!options.checked) return made;
  made.engine.link.witness = &check_;
  made.port = [this, rank, &node](Link& link) -> MessagePort* {
    const LinkEnd end{Rank(rank), link.peer()};
    node.checked_ports.push_back(std::make_unique<CheckedPort>(link, end, check_));
    return node.checked_ports.back().get();
  };
  return made;
}

std::unique_ptr<SimRank> Cluster::make_node(int rank, const ClusterOptions& options) {
  auto made = std::make_unique<SimRank>();
  made->check = &check_;
  made->turns_per_check = options.turns_per_check;
  const std::string name = "h" + std::to_string(rank);
  if (const int local = rank % options.ranks_per_host; local > 0) {
    SimRank& first = node(rank - local);
    made->host = &fabric().add_process(*first.host, name);
    made->nics = first.nics;
    open(*made, rank, options);
    return made;
  }
  made->host = &fabric().add_host(name);
  for (int k = 0; k < options.nics; ++k) {
    if (options.absent == std::pair(rank / options.ranks_per_host, k)) continue;
    NicOptions nic;
    nic.name = "nic" + std::to_string(k);
    nic.rail = static_cast<uint8_t>(k);
    nic.rate_bytes_per_s = options.rate_bytes_per_s;
    made->nics.push_back(&fabric().add_nic(*made->host, nic));
  }
  if (options.management) {
    NicOptions nic;
    nic.name = "mgmt";
    nic.rail = static_cast<uint8_t>(kManagementRail);
    nic.rate_bytes_per_s = 12'500'000;
    nic.data = false;
    made->management = &fabric().add_nic(*made->host, nic);
  }
  open(*made, rank, options);
  return made;
}

void Cluster::open(SimRank& node, int rank, const ClusterOptions& options) {
  if (options.nic_per_rank) {
    node.host->use_only(
        node.nics[static_cast<size_t>(rank % options.ranks_per_host)]->options.name);
  }
  node.clock = std::make_unique<HostClock>(world_.clock());
  node.process = std::make_unique<ProcessEngine>(*node.host, *node.clock);
  node.runtime =
      std::make_unique<RankRuntime>(*node.process, rank_options(rank, options, node), node);
  R2CCL_CHECK(node.runtime->open().ok());
}

void Cluster::add_communicator(SimRank& node, int number, const ClusterOptions& options) {
  const Rank self = node.runtime->options().self;
  node.further.push_back(std::make_unique<RankRuntime>(
      node.runtime->shared_job(), rank_options(self.value(), options, node), unobserved_));
  std::vector<Rank> peers;
  for (int rank = 0; rank < size(); ++rank) peers.emplace_back(rank);
  const ContextId context(kFurtherContexts + static_cast<uint64_t>(number));
  R2CCL_CHECK(node.further.back()->join(context, std::move(peers)).ok());
}

Cluster::~Cluster() {
  for (int rank = 0; rank < size(); ++rank) leave(rank);
}

void Cluster::leave(int rank) {
  SimRank& each = node(rank);
  if (each.left()) return;
  world_.remove_actor(each.actor);
  const bool first_lasts = rank % 2 == 0;
  if (!first_lasts) each.runtime.reset();
  each.further.clear();
  each.runtime.reset();
  each.process.reset();
  each.checked_ports.clear();
}

bool Cluster::link_up(int rank, int peer) {
  const Link* link = node(rank).engine().link(Rank(peer));
  return link == nullptr || std::ranges::all_of(link->paths(), [](const auto& path) {
           return path->spec.relay || path->state.phase() == PathPhase::up;
         });
}

// Begins with the link that was not up the last time, because a large job connects for long and
// this is asked at each event.
bool Cluster::all_paths_up() {
  const int links = size() * size();
  for (int i = 0; i < links; ++i) {
    const int link = (not_up_ + i) % links;
    if (link_up(link / size(), link % size())) continue;
    not_up_ = link;
    return false;
  }
  return true;
}

bool Cluster::connect() {
  return world_.run_until([this] { return all_paths_up(); }, now() + 5 * kSecond);
}

void Cluster::wake_all() {
  for (const auto& each : nodes_) each->wake();
}

}  // namespace r2ccl::sim
