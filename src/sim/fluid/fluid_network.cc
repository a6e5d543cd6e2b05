#include "sim/fluid/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kTrafficUnits = 16384;  // of the largest flow
// A power of two, so that sums of weights are exact. No weight is zero: a link may use any rail
// that is idle.
constexpr double kPart = 1.0 / RailDivision::kParts;

Status bad_fabric(const std::string& what) {
  return {Code::invalid_argument, what};
}

bool is_positive(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

Status check_fabric(const FluidFabric& fabric, size_t hosts) {
  if (fabric.nics == 0 || fabric.nics > kFluidNicsMax) {
    return bad_fabric("a host has 1 to " + std::to_string(kFluidNicsMax) + " NICs, not " +
                      std::to_string(fabric.nics));
  }
  if (!is_positive(fabric.nic_rate) || !is_positive(fabric.intra_rate)) {
    return bad_fabric("a NIC, and a rank's port within its host, need a rate above zero");
  }
  for (const double latency : {fabric.latency_s, fabric.intra_latency_s}) {
    if (!std::isfinite(latency) || latency < 0)
      return bad_fabric("a latency must be 0 or more seconds");
  }
  if (!std::isfinite(fabric.oversubscription) || fabric.oversubscription < 1) {
    return bad_fabric("an oversubscription is a factor of 1 or more");
  }
  if (fabric.rates.empty()) return {};
  const std::vector<HostRates>& rates = fabric.rates;
  if (rates.size() != hosts) {
    return bad_fabric("the rates name " + std::to_string(rates.size()) + " hosts, and there are " +
                      std::to_string(hosts));
  }
  for (size_t host = 0; host < hosts; ++host) {
    if (rates[host].size() > fabric.nics) {
      return bad_fabric("host " + std::to_string(host) + " has rates for " +
                        std::to_string(rates[host].size()) + " NICs, and a host has " +
                        std::to_string(fabric.nics));
    }
  }
  return {};
}

FluidNetwork::FluidNetwork(const FluidFabric& fabric, const HostGroups& hosts, int32_t ranks)
    : fabric_(fabric) {
  host_of_.resize(static_cast<size_t>(ranks));
  size_t host_count = host_of_.size();
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank) host_of_[rank] = rank;
  if (!hosts.empty()) {
    host_count = hosts.hosts().size();
    for (uint32_t host = 0; host < host_count; ++host) {
      for (const Rank rank : hosts.hosts()[host]) {
        host_of_[static_cast<size_t>(rank.value())] = host;
      }
    }
  }
  for (size_t host = 0; host < host_count; ++host) {
    add_host(fabric_.rates.empty() ? nullptr : &fabric_.rates[host]);
  }
  if (fabric_.kind == FluidFabricKind::spine) add_switches();
  first_port_ = shares_.add_resource(fabric_.intra_rate);
  for (size_t i = 1; i < 2 * host_of_.size(); ++i) shares_.add_resource(fabric_.intra_rate);
}

double FluidNetwork::bytes_per_s(uint32_t permille) const {
  return fabric_.nic_rate * permille / kWholeNic;
}

// A host without rates has whole NICs. A host of the view may lack the last rails.
void FluidNetwork::add_host(const HostRates* rates) {
  HostRates& nics = nic_rates_.emplace_back(fabric_.nics);
  if (rates != nullptr) {
    nics.assign(fabric_.nics, {.send = 0, .receive = 0});
    std::ranges::copy(*rates, nics.begin());
  }
  double send = 0;
  double receive = 0;
  for (const NicRate& nic : nics) {
    send += bytes_per_s(nic.send);
    receive += bytes_per_s(nic.receive);
    if (fabric_.kind == FluidFabricKind::flat) continue;
    shares_.add_resource(bytes_per_s(nic.send));
    shares_.add_resource(bytes_per_s(nic.receive));
  }
  if (fabric_.kind != FluidFabricKind::flat) return;
  shares_.add_resource(send);
  shares_.add_resource(receive);
}

void FluidNetwork::add_switches() {
  for (uint32_t rail = 0; rail < fabric_.nics; ++rail) {
    const double rate = fabric_.nic_rate * static_cast<double>(hosts()) / fabric_.oversubscription;
    const MaxMin::Resource up = shares_.add_resource(rate);
    shares_.add_resource(rate);
    if (rail == 0) first_switch_ = up;
  }
}

MaxMin::Resource FluidNetwork::sender(uint32_t host, uint32_t nic) const {
  const bool flat = fabric_.kind == FluidFabricKind::flat;
  return flat ? 2 * host : 2 * (host * fabric_.nics + nic);
}

std::span<const FluidNetwork::Pair> FluidNetwork::pairs(uint32_t from, uint32_t to) {
  pairs_.clear();
  if (!is_remote(from, to)) {
    pairs_.push_back({.resources = {first_port_ + 2 * from, first_port_ + 2 * to + 1}, .count = 2});
    return pairs_;
  }
  const uint32_t a = host_of_[from];
  const uint32_t b = host_of_[to];
  if (fabric_.kind == FluidFabricKind::flat) {
    pairs_.push_back({.resources = {sender(a, 0), receiver(b, 0)}, .count = 2});
    return pairs_;
  }
  pair_rails(a, b);
  if (fabric_.kind == FluidFabricKind::spine) pair_others(a, b);
  return pairs_;
}

void FluidNetwork::set_traffic(std::vector<RailFlow> traffic) {
  R2CCL_CHECK(has_weights());
  traffic_ = std::move(traffic);
  uint64_t most = 0;
  for (const RailFlow& flow : traffic_) most = std::max(most, flow.share);
  for (size_t i = 0; i < traffic_.size(); ++i) {
    RailFlow& flow = traffic_[i];
    traffic_of_[uint64_t{flow.from} * hosts() + flow.to] = i;
    flow.share = std::max<uint64_t>(flow.share * kTrafficUnits / std::max<uint64_t>(most, 1), 1);
  }
  divided_ = false;
}

void FluidNetwork::divide_traffic() {
  if (std::exchange(divided_, true)) return;
  const auto differ = [&](const HostRates& rates) { return rates != nic_rates_.front(); };
  parts_.clear();
  if (std::ranges::none_of(nic_rates_, differ)) return;
  if (traffic_.size() * fabric_.nics > kFluidDividedMax) return;
  parts_ = divide_over_rails(nic_rates_, traffic_, kTrafficUnits).parts;
}

void FluidNetwork::pair_rails(uint32_t from, uint32_t to) {
  divide_traffic();
  const uint16_t* parts = nullptr;
  const auto found = traffic_of_.find(uint64_t{from} * hosts() + to);
  if (!parts_.empty() && found != traffic_of_.end()) parts = &parts_[found->second * fabric_.nics];
  for (uint32_t rail = 0; rail < fabric_.nics; ++rail) {
    if (rate(from, rail).send == 0 || rate(to, rail).receive == 0) continue;
    pairs_.push_back({.resources = {sender(from, rail), receiver(to, rail)},
                      .count = 2,
                      .sender = rail,
                      .receiver = rail,
                      .weight = parts == nullptr ? 1 : std::max<double>(parts[rail], 1) * kPart});
  }
}

// Pairs the NICs whose rail is dead at the other host.
void FluidNetwork::pair_others(uint32_t from, uint32_t to) {
  uint32_t other = 0;
  for (uint32_t rail = 0; rail < fabric_.nics; ++rail) {
    if (rate(from, rail).send == 0 || rate(to, rail).receive > 0) continue;
    while (other < fabric_.nics && (rate(to, other).receive == 0 || rate(from, other).send > 0)) {
      ++other;
    }
    if (other == fabric_.nics) return;
    pairs_.push_back({.resources = {sender(from, rail), first_switch_ + 2 * rail,
                                    first_switch_ + 2 * other + 1, receiver(to, other)},
                      .count = 4,
                      .sender = rail,
                      .receiver = other});
    ++other;
  }
}

void FluidNetwork::set_rate(uint32_t host, uint32_t nic, const NicRate& rate) {
  nic_rates_[host][nic] = rate;
  divided_ = false;
  if (fabric_.kind != FluidFabricKind::flat) {
    shares_.set_capacity(sender(host, nic), bytes_per_s(rate.send));
    shares_.set_capacity(receiver(host, nic), bytes_per_s(rate.receive));
    return;
  }
  double send = 0;
  double receive = 0;
  for (const NicRate& each : nic_rates_[host]) {
    send += bytes_per_s(each.send);
    receive += bytes_per_s(each.receive);
  }
  shares_.set_capacity(sender(host, 0), send);
  shares_.set_capacity(receiver(host, 0), receive);
}

}  // namespace r2ccl::sim
