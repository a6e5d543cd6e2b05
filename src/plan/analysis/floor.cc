#include "plan/analysis/floor.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/analysis/rails_floor.h"
#include "plan/holdings.h"
#include "plan/host_rates.h"

namespace r2ccl {
namespace {

// The elements that must leave and enter each host, and the number that the network carries.
struct Traffic {
  std::vector<double> send;
  std::vector<double> receive;
  double total = 0;
};

// The usable rates of hosts, in elements per second.
struct Rates {
  std::vector<double> send;
  std::vector<double> receive;
};

std::vector<HostRates> hosts_of(const PlanKey& key, const FloorOptions& options) {
  if (!key.view.empty()) return key.view.hosts();
  return std::vector<HostRates>(host_count(key), HostRates(options.nics));
}

// A NIC cannot send more than the other hosts can receive on its rail.
double usable(const std::vector<HostRates>& hosts, size_t host, uint32_t NicRate::*own,
              uint32_t NicRate::*others, FabricKind fabric) {
  double sum = 0;
  for (size_t rail = 0; rail < hosts[host].size(); ++rail) {
    double most = 0;
    for (size_t other = 0; other < hosts.size(); ++other) {
      if (other != host && rail < hosts[other].size()) most += hosts[other][rail].*others;
    }
    const double rate = hosts[host][rail].*own;
    sum += fabric == FabricKind::flat ? rate : std::min(rate, most);
  }
  return sum;
}

Rates rates_of(const PlanKey& key, const FloorOptions& options) {
  const std::vector<HostRates> hosts = hosts_of(key, options);
  const double unit =
      options.nic_bytes_per_second / kWholeNic / static_cast<double>(size_of(key.type));
  Rates rates;
  for (size_t host = 0; host < hosts.size(); ++host) {
    rates.send.push_back(unit *
                         usable(hosts, host, &NicRate::send, &NicRate::receive, options.fabric));
    rates.receive.push_back(unit *
                            usable(hosts, host, &NicRate::receive, &NicRate::send, options.fabric));
  }
  return rates;
}

std::vector<std::vector<Rank>> ranks_by_host(const PlanKey& key) {
  std::vector<std::vector<Rank>> ranks;
  for (uint32_t host = 0; host < host_count(key); ++host) ranks.push_back(ranks_of_host(key, host));
  return ranks;
}

double in_blocks(const PlanKey& key, const std::vector<Rank>& ranks) {
  uint64_t count = 0;
  for (const Rank rank : ranks) count += count_in(key, key.blocks, rank);
  return static_cast<double>(count);
}

// Each block must reach all other hosts: an AllGather. The reverse is a ReduceScatter.
Traffic gather_traffic(const PlanKey& key, const std::vector<std::vector<Rank>>& hosts) {
  Traffic traffic;
  double all = 0;
  for (const auto& ranks : hosts) all += in_blocks(key, ranks);
  for (const auto& ranks : hosts) {
    traffic.send.push_back(in_blocks(key, ranks));
    traffic.receive.push_back(all - in_blocks(key, ranks));
  }
  traffic.total = all * static_cast<double>(hosts.size() - 1);
  return traffic;
}

// The root's vector must reach all other hosts: a Broadcast. The reverse is a Reduce.
Traffic broadcast_traffic(const PlanKey& key, const std::vector<std::vector<Rank>>& hosts) {
  const auto count = static_cast<double>(key.count);
  Traffic traffic;
  for (const auto& ranks : hosts) {
    const bool has_root = std::ranges::find(ranks, key.root) != ranks.end();
    traffic.send.push_back(has_root ? count : 0);
    traffic.receive.push_back(has_root ? 0 : count);
  }
  traffic.total = count * static_cast<double>(hosts.size() - 1);
  return traffic;
}

// Every block goes straight to one rank: a Scatter. The reverse is a Gather.
Traffic scatter_traffic(const PlanKey& key, const std::vector<std::vector<Rank>>& hosts) {
  Traffic traffic;
  for (const auto& ranks : hosts) {
    const bool has_root = std::ranges::find(ranks, key.root) != ranks.end();
    traffic.receive.push_back(has_root ? 0 : in_blocks(key, ranks));
    traffic.total += traffic.receive.back();
  }
  for (const auto& ranks : hosts) {
    const bool has_root = std::ranges::find(ranks, key.root) != ranks.end();
    traffic.send.push_back(has_root ? traffic.total : 0);
  }
  return traffic;
}

Traffic exchange_traffic(const PlanKey& key, const std::vector<std::vector<Rank>>& hosts) {
  Traffic traffic;
  for (const auto& ranks : hosts) {
    const auto own = static_cast<double>(ranks.size());
    const double pairs = own * (static_cast<double>(key.rank_count) - own);
    traffic.send.push_back(pairs * static_cast<double>(key.count));
    traffic.total += traffic.send.back();
  }
  traffic.receive = traffic.send;
  return traffic;
}

// Every element must leave and enter each host. When the first host has the sum of an element,
// every other input has moved once, and every other host still lacks the sum.
Traffic all_reduce_traffic(const PlanKey& key, size_t hosts) {
  const auto count = static_cast<double>(key.count);
  return {std::vector<double>(hosts, count), std::vector<double>(hosts, count),
          2 * count * static_cast<double>(hosts - 1)};
}

Traffic traffic_of(const PlanKey& key, const std::vector<std::vector<Rank>>& hosts) {
  switch (key.collective) {
    case Collective::all_reduce:
      return all_reduce_traffic(key, hosts.size());
    case Collective::broadcast:
    case Collective::reduce:
      return broadcast_traffic(key, hosts);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return gather_traffic(key, hosts);
    case Collective::gather:
    case Collective::scatter:
      return scatter_traffic(key, hosts);
    case Collective::all_to_all:
      return exchange_traffic(key, hosts);
    case Collective::barrier:
      break;
  }
  return {};
}

}  // namespace

double floor_seconds(const PlanKey& key, const FloorOptions& options) {
  const std::vector<std::vector<Rank>> hosts = ranks_by_host(key);
  if (hosts.size() < 2 || key.collective == Collective::barrier) return 0;
  Traffic traffic = traffic_of(key, hosts);
  const bool backwards = key.collective == Collective::reduce ||
                         key.collective == Collective::reduce_scatter ||
                         key.collective == Collective::gather;
  if (backwards) std::swap(traffic.send, traffic.receive);
  const Rates rates = rates_of(key, options);
  double floor = 0;
  for (size_t host = 0; host < hosts.size(); ++host) {
    floor = std::max({floor, traffic.send[host] / rates.send[host],
                      traffic.receive[host] / rates.receive[host]});
  }
  if (key.collective == Collective::all_reduce && options.fabric == FabricKind::rails) {
    const double elements_per_second =
        options.nic_bytes_per_second / kWholeNic / static_cast<double>(size_of(key.type));
    floor = std::max(floor, rails_floor(hosts_of(key, options)) * static_cast<double>(key.count) /
                                elements_per_second);
  }
  const auto sum = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  return std::max({floor, traffic.total / sum(rates.send), traffic.total / sum(rates.receive)});
}

}  // namespace r2ccl
