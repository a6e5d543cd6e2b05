#include "plan/hosts/packing.h"

#include <algorithm>
#include <bit>
#include <numeric>

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
// Times are in 2^-14 of the time in which the fastest NIC moves a chunk.
constexpr int kTimeBits = 14;
// Slower NICs than 1/1024 of the fastest count as that.
constexpr int kRateBits = 10;
constexpr uint32_t kNone = UINT32_MAX;

// All NICs of all hosts, in one direction: `host * rails + rail`.
struct Nics {
  std::vector<uint64_t> rates;
  std::vector<uint64_t> totals;  // by host
  std::vector<uint64_t> loads;   // the time of what each has to do
  std::vector<uint64_t> prices;  // of one unit of time more
};

class Packer {
 public:
  explicit Packer(const std::vector<HostRates>& hosts) : size_(hosts.size()) {
    for (const HostRates& host : hosts) {
      rails_ = std::max(rails_, host.size());
      for (const NicRate& nic : host)
        fastest_ = std::max<uint64_t>({fastest_, nic.send, nic.receive});
    }
    read(hosts, &NicRate::send, send_);
    read(hosts, &NicRate::receive, receive_);
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
    packing.load = relative(load() / count);
    return packing;
  }

  uint64_t load_of(const std::vector<RailFlow>& flows, uint64_t whole) {
    for (Nics* nics : {&send_, &receive_}) std::ranges::fill(nics->loads, 0);
    for (const RailFlow& flow : flows) {
      const Times* const times = &sums_[(flow.from * size_ + flow.to) * rails_];
      bool meets = false;
      for (size_t rail = 0; rail < rails_; ++rail) {
        meets = meets || times[rail].child > 0 || times[rail].parent > 0;
        send_.loads[flow.from * rails_ + rail] += times[rail].child * flow.share;
        receive_.loads[flow.to * rails_ + rail] += times[rail].parent * flow.share;
      }
      if (!meets) return UINT64_MAX;
    }
    return relative(std::max(*std::ranges::max_element(send_.loads),
                             *std::ranges::max_element(receive_.loads)) /
                    whole);
  }

 private:
  // The times that a chunk takes at both of its ends, for a rail.
  struct Times {
    uint32_t child = 0;
    uint32_t parent = 0;
  };
  using Table = std::vector<Times>;  // (child * hosts + parent) * rails + rail

  void read(const std::vector<HostRates>& hosts, uint32_t NicRate::*direction, Nics& nics) const {
    nics.rates.resize(size_ * rails_);
    nics.prices.resize(size_ * rails_);
    for (size_t host = 0; host < size_; ++host) {
      uint64_t total = 0;
      for (size_t rail = 0; rail < hosts[host].size(); ++rail) {
        uint64_t rate = hosts[host][rail].*direction;
        if (rate > 0) rate = std::max({rate, fastest_ >> kRateBits, uint64_t{1}});
        nics.rates[host * rails_ + rail] = rate;
        total += rate;
      }
      nics.totals.push_back(total);
    }
    nics.loads = loads_before(nics);
  }

  std::vector<uint64_t> loads_before(const Nics& nics) const {
    std::vector<uint64_t> loads(size_ * rails_, 0);
    for (size_t nic = 0; nic < loads.size(); ++nic) {
      if (nics.rates[nic] == 0) continue;
      loads[nic] = kChunksBefore * (fastest_ << kTimeBits) / nics.totals[nic / rails_];
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
          const uint64_t time = shared[rail] * (fastest_ << kTimeBits) / sum;
          table[(child * size_ + parent) * rails_ + rail] = {
              static_cast<uint32_t>(time / children.rates[child * rails_ + rail]),
              static_cast<uint32_t>(time / parents.rates[parent * rails_ + rail])};
        }
      }
    }
  }

  // A price is the twelfth power of a NIC's load relative to the largest one: the trees keep the
  // twelfth norm of all loads small, and so the largest load.
  void set_prices() {
    uint64_t most = 1;
    for (const Nics* nics : {&send_, &receive_}) {
      most = std::max(most, *std::ranges::max_element(nics->loads));
    }
    const int shift = std::max(0, static_cast<int>(std::bit_width(most)) - 31);
    const uint64_t inverse = (uint64_t{1} << 62) / (most >> shift);
    for (Nics* nics : {&send_, &receive_}) {
      for (size_t nic = 0; nic < nics->loads.size(); ++nic) {
        // Each has 31 binary digits.
        const uint64_t first = (nics->loads[nic] >> shift) * inverse >> 31;
        const uint64_t second = first * first >> 31;
        const uint64_t fourth = second * second >> 31;
        const uint64_t eighth = fourth * fourth >> 31;
        nics->prices[nic] = fourth * eighth >> 30;
      }
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

  // Returns the time relative to that of the fastest host, in 1/1024.
  uint64_t relative(uint64_t time) const {
    return (time * fastest_host() / fastest_) >> (kTimeBits - 10);
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
  uint64_t fastest_host() const {
    return std::max(*std::ranges::max_element(send_.totals),
                    *std::ranges::max_element(receive_.totals));
  }

  const size_t size_;
  size_t rails_ = 0;
  uint64_t fastest_ = 1;  // NIC
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

uint64_t rail_load(const std::vector<HostRates>& hosts, const std::vector<RailFlow>& flows,
                   uint64_t whole) {
  return Packer(hosts).load_of(flows, whole);
}

Packing pack_trees(const std::vector<HostRates>& hosts) {
  if (hosts.size() < 3 || hosts.size() > kPackedHostsMax) return {};
  const auto has_too_many = [](const HostRates& host) { return host.size() > kPackedRailsMax; };
  if (std::ranges::any_of(hosts, has_too_many)) return {};
  return Packer(hosts).pack();
}

}  // namespace r2ccl
