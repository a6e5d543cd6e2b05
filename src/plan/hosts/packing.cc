#include "plan/hosts/packing.h"

#include <algorithm>
#include <numeric>

#include "plan/hosts/nic_loads.h"

namespace r2ccl {
namespace {

// So many trees for each host: a host is the root of some of them, and each adds to its work in a
// small step.
constexpr size_t kTreesPerHost = 32;
// Hosts look for a parent among so many that are cheap, and only then among all.
constexpr size_t kHubs = 8;
// A way has at most so many hops, unless a host has no rail in common with any host that is near.
constexpr uint64_t kDepthMax = 3;
// A host attaches one level deeper where that is cheaper by a quarter.
constexpr uint64_t kDepthParts = 4;
// The trees begin as if each host had sent and received so many chunks, on all its NICs: without
// any load all prices would be equal, and the first trees would not spare slow hosts.
constexpr uint64_t kChunksBefore = 16;
constexpr uint32_t kNone = UINT32_MAX;

struct Nics : NicLoads {
  using NicLoads::NicLoads;
  std::vector<uint64_t> prices;  // of one unit of time more
};

class Packer {
 public:
  explicit Packer(const std::vector<HostRates>& hosts)
      : size_(hosts.size()),
        rails_(rails_of(hosts)),
        fastest_(fastest_of(hosts)),
        send_(hosts, &NicRate::send, rails_, fastest_),
        receive_(hosts, &NicRate::receive, rails_, fastest_) {
    for (Nics* nics : {&send_, &receive_}) nics->loads = loads_before(*nics);
    fill_table(send_, receive_, sums_);
    fill_table(receive_, send_, results_);
  }

  Packing pack() {
    Packing packing;
    const size_t count = kTreesPerHost * size_;
    uint64_t hops = 0;
    for (size_t number = 0; number < count; ++number) {
      set_prices();
      const std::vector<uint64_t> sum_hubs = hub_prices(receive_);
      const std::vector<uint64_t> result_hubs = hub_prices(send_);
      Packing::Tree tree;
      tree.root = cheapest_root(number, sum_hubs, result_hubs);
      if (!grow(tree.root, hubs_of(number, tree.root, sum_hubs), sums_, send_, receive_)) return {};
      tree.sum_to = add_loads(sums_, send_, receive_);
      hops += height();
      if (!grow(tree.root, hubs_of(number, tree.root, result_hubs), results_, receive_, send_)) {
        return {};
      }
      tree.result_from = add_loads(results_, receive_, send_);
      hops += height();
      packing.trees.push_back(std::move(tree));
    }
    packing.hops = (hops + count - 1) / count;
    packing.load = relative_to_fastest_host(load() / count, send_, receive_, fastest_);
    return packing;
  }

 private:
  // The times that a chunk takes at both of its ends, for a rail.
  struct Times {
    uint32_t child = 0;
    uint32_t parent = 0;
  };
  using Table = std::vector<Times>;  // (child * hosts + parent) * rails + rail

  std::vector<uint64_t> loads_before(const Nics& nics) const {
    std::vector<uint64_t> loads(size_ * rails_, 0);
    for (size_t nic = 0; nic < loads.size(); ++nic) {
      if (nics.rates[nic] == 0) continue;
      loads[nic] = kChunksBefore * (fastest_ << NicLoads::kTimeBits) / nics.totals[nic / rails_];
    }
    return loads;
  }

  void fill_table(const Nics& children, const Nics& parents, Table& table) const {
    table.resize(size_ * size_ * rails_);
    std::vector<uint64_t> shared(rails_);
    for (size_t child = 0; child < size_; ++child) {
      for (size_t parent = 0; parent < size_; ++parent) {
        if (parent == child) continue;
        for (size_t rail = 0; rail < rails_; ++rail) {
          shared[rail] = std::min(children.rates[child * rails_ + rail],
                                  parents.rates[parent * rails_ + rail]);
        }
        const uint64_t sum = std::accumulate(shared.begin(), shared.end(), uint64_t{0});
        for (size_t rail = 0; rail < rails_; ++rail) {
          if (shared[rail] == 0) continue;
          const uint64_t time = shared[rail] * (fastest_ << NicLoads::kTimeBits) / sum;
          table[(child * size_ + parent) * rails_ + rail] = {
              static_cast<uint32_t>(time / children.rates[child * rails_ + rail]),
              static_cast<uint32_t>(time / parents.rates[parent * rails_ + rail])};
        }
      }
    }
  }

  void set_prices() {
    const NicPrices prices(std::max(send_.most(), receive_.most()));
    for (Nics* nics : {&send_, &receive_}) {
      nics->prices.clear();
      for (const uint64_t load : nics->loads) nics->prices.push_back(prices.of(load));
    }
  }

  // Returns by host the price of a chunk on all its NICs.
  std::vector<uint64_t> hub_prices(const Nics& nics) const {
    std::vector<uint64_t> prices(size_, 0);
    for (size_t host = 0; host < size_; ++host) {
      uint64_t sum = 0;
      for (size_t rail = 0; rail < rails_; ++rail) {
        if (nics.rates[host * rails_ + rail] > 0) sum += nics.prices[host * rails_ + rail];
      }
      prices[host] = sum * fastest_ / nics.totals[host];
    }
    return prices;
  }

  // Hosts of equal prices take turns.
  uint32_t cheapest_root(size_t number, const std::vector<uint64_t>& sum_hubs,
                         const std::vector<uint64_t>& result_hubs) const {
    size_t best = number % size_;
    const auto price = [&](size_t host) { return sum_hubs[host] + result_hubs[host]; };
    for (size_t at = 1; at < size_; ++at) {
      const size_t host = (number + at) % size_;
      if (price(host) < price(best)) best = host;
    }
    return static_cast<uint32_t>(best);
  }

  // Returns the root and the cheapest other hosts.
  std::vector<uint32_t> hubs_of(size_t number, uint32_t root,
                                const std::vector<uint64_t>& prices) const {
    std::vector<uint32_t> hosts{root};
    for (size_t at = 0; at < size_; ++at) {
      const auto host = static_cast<uint32_t>((number + at) % size_);
      if (host != root) hosts.push_back(host);
    }
    const size_t count = std::min(kHubs, size_);
    const auto turn = [&](uint32_t host) { return (host + size_ - number % size_) % size_; };
    std::partial_sort(hosts.begin() + 1, hosts.begin() + static_cast<ptrdiff_t>(count), hosts.end(),
                      [&](uint32_t a, uint32_t b) {
                        return prices[a] != prices[b] ? prices[a] < prices[b] : turn(a) < turn(b);
                      });
    hosts.resize(count);
    return hosts;
  }

  // Makes parents_ a tree: the hubs attach to each other, and the other hosts to the hubs. Returns
  // false where no common rails lead to a host.
  bool grow(uint32_t root, std::vector<uint32_t> hubs, const Table& table, const Nics& children,
            const Nics& parents) {
    parents_.assign(size_, kNone);
    depths_.assign(size_, 0);
    parents_[root] = root;
    attached_.assign(1, root);
    std::vector<uint32_t> left;
    const auto parent_of = [&](uint32_t host, uint64_t depth_max) {
      return cheapest_parent(host, depth_max, table, children, parents);
    };
    const auto take = [&](uint32_t host, uint64_t depth_max) {
      if (parents_[host] != kNone) return true;
      const uint32_t parent = parent_of(host, depth_max).host;
      if (parent == kNone) return false;
      parents_[host] = parent;
      depths_[host] = depths_[parent] + 1;
      return true;
    };
    // As Prim's algorithm: a hub that is dear at the root waits for a hub at which it is cheap.
    for (std::erase(hubs, root); !hubs.empty();) {
      const auto next = std::ranges::min_element(
          hubs, {}, [&](uint32_t hub) { return parent_of(hub, kDepthMax).price; });
      if (!take(*next, kDepthMax)) break;
      attached_.push_back(*next);
      hubs.erase(next);
    }
    for (uint32_t host = 0; host < size_; ++host) {
      if (!take(host, kDepthMax)) left.push_back(host);
    }
    while (!left.empty()) {
      attached_.clear();
      for (uint32_t host = 0; host < size_; ++host) {
        if (parents_[host] != kNone) attached_.push_back(host);
      }
      const size_t before = left.size();
      std::erase_if(left, [&](uint32_t host) { return take(host, size_); });
      if (left.size() == before) return false;
    }
    return true;
  }

  struct Parent {
    uint32_t host = kNone;
    uint64_t price = UINT64_MAX;
  };
  Parent cheapest_parent(uint32_t host, uint64_t depth_max, const Table& table,
                         const Nics& children, const Nics& parents) const {
    Parent best;
    for (const uint32_t parent : attached_) {
      if (parent == host || depths_[parent] >= depth_max) continue;
      const Times* const times = &table[(host * size_ + parent) * rails_];
      uint64_t price = 0;
      bool meets = false;
      for (size_t rail = 0; rail < rails_; ++rail) {
        meets = meets || times[rail].child > 0 || times[rail].parent > 0;
        price += times[rail].child * children.prices[host * rails_ + rail] +
                 times[rail].parent * parents.prices[parent * rails_ + rail];
      }
      price = (price >> 3) * (kDepthParts + depths_[parent]);
      if (meets && (best.host == kNone || price < best.price)) best = {parent, price};
    }
    return best;
  }

  // Adds the loads of the tree in parents_. Returns it.
  std::vector<uint8_t> add_loads(const Table& table, Nics& children, Nics& parents) const {
    std::vector<uint8_t> tree;
    for (size_t host = 0; host < size_; ++host) {
      const uint32_t parent = parents_[host];
      tree.push_back(static_cast<uint8_t>(parent));
      if (parent == host) continue;
      const Times* const times = &table[(host * size_ + parent) * rails_];
      for (size_t rail = 0; rail < rails_; ++rail) {
        children.loads[host * rails_ + rail] += times[rail].child;
        parents.loads[parent * rails_ + rail] += times[rail].parent;
      }
    }
    return tree;
  }

  uint64_t height() const { return *std::ranges::max_element(depths_); }

  // Returns the largest load of a NIC by the trees alone.
  uint64_t load() const {
    uint64_t most = 0;
    for (const Nics* nics : {&send_, &receive_}) {
      const std::vector<uint64_t> before = loads_before(*nics);
      for (size_t nic = 0; nic < before.size(); ++nic) {
        most = std::max(most, nics->loads[nic] - before[nic]);
      }
    }
    return most;
  }

  const size_t size_;
  const size_t rails_;
  const uint64_t fastest_;  // NIC
  Nics send_;
  Nics receive_;
  Table sums_;
  Table results_;
  // The tree that grows.
  std::vector<uint32_t> parents_;
  std::vector<uint64_t> depths_;
  std::vector<uint32_t> attached_;  // the hosts that may be parents
};

}  // namespace

Packing pack_trees(const std::vector<HostRates>& hosts) {
  if (hosts.size() < 3 || hosts.size() > kPackedHostsMax) return {};
  const auto has_too_many = [](const HostRates& host) { return host.size() > kPackedRailsMax; };
  if (std::ranges::any_of(hosts, has_too_many)) return {};
  return Packer(hosts).pack();
}

}  // namespace r2ccl
