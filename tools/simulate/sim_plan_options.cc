#include "tools/simulate/sim_plan_options.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

#include "base/limits.h"
#include "plan/cost_model.h"
#include "plan/text/plan_words.h"
#include "plan/text/view_text.h"
#include "tools/common/parse.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

constexpr double kBitRateMin = 1e3;
constexpr double kBitRateMax = 1e15;
constexpr double kMicrosecondsMax = 1e9;
constexpr uint64_t kVectorBytesMax = uint64_t{1} << 44;
constexpr uint64_t kSegmentBytesMin = 1024;
// A rank's part of a plan stays below some GB while it is built.
constexpr uint64_t kSegmentsMax = uint64_t{8} << 20;

Status bad(const std::string& option, const std::string& why) {
  return {Code::invalid_argument, option + ": " + why};
}

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) words.push_back(word);
  return words;
}

Result<double> bit_rate_of(const std::string& option, const std::string& text) {
  const std::optional<double> rate = parse_bit_rate(text);
  if (rate && *rate >= kBitRateMin && *rate <= kBitRateMax) return *rate / 8;
  return bad(option, "'" + text + "' is no rate; write bits a second from 1K to 1000T, as 50G");
}

Result<double> seconds_of(const std::string& option, double microseconds) {
  if (std::isfinite(microseconds) && microseconds >= 0 && microseconds <= kMicrosecondsMax) {
    return microseconds / 1e6;
  }
  return bad(option, "write a time from 0 to 1000 seconds");
}

bool has_blocks(Collective collective) {
  return collective != Collective::all_reduce && collective != Collective::broadcast &&
         collective != Collective::reduce && collective != Collective::barrier;
}

// Sets the elements of the vector, or of each of its blocks.
Status set_count(const SimPlanOptions& options, PlanKey& key) {
  if (key.collective == Collective::barrier) return {};
  const std::optional<uint64_t> bytes = parse_bytes(options.bytes);
  if (!bytes || *bytes == 0 || *bytes > kVectorBytesMax) {
    return bad("--bytes", "'" + options.bytes + "' is no size from 1 byte to 16384G, as 1G");
  }
  const uint64_t ranks = has_blocks(key.collective) ? static_cast<uint64_t>(key.rank_count) : 1;
  key.count = *bytes / size_of(key.type) / ranks;
  if (key.count > 0) return {};
  return bad("--bytes", options.bytes + " is less than " +
                            std::to_string(size_of(key.type) * ranks) + ", one element of 4 bytes" +
                            (ranks > 1 ? " for each rank" : ""));
}

Result<PlanKey> key_of(const SimPlanOptions& options) {
  PlanKey key;
  const auto collective = value_of(kCollectiveWords, options.collective);
  if (!collective) {
    return Status{Code::invalid_argument, "no collective '" + options.collective + "'; there are " +
                                              list_of_words(kCollectiveWords)};
  }
  const auto algorithm = algorithm_named(options.algorithm);
  if (!algorithm) {
    return bad("--algorithm", "no algorithm '" + options.algorithm + "'; there are " +
                                  list_of_words(kAlgorithmWords));
  }
  const int64_t ranks = int64_t{options.hosts} * options.ranks_per_host;
  if (ranks > kSimRanksMax) {
    return bad("--hosts", std::to_string(ranks) + " ranks on all hosts; the simulator takes " +
                              std::to_string(kSimRanksMax));
  }
  if (options.root >= ranks) {
    return bad("--root",
               std::to_string(options.root) + " is none of " + std::to_string(ranks) + " ranks");
  }
  key.collective = *collective;
  key.algorithm = *algorithm;
  key.rank_count = static_cast<int32_t>(ranks);
  key.root = Rank(options.root);
  if (options.ranks_per_host > 1) {
    std::vector<uint32_t> host_of;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      host_of.push_back(static_cast<uint32_t>(rank / options.ranks_per_host));
    }
    key.hosts = HostGroups(host_of);
  }
  R2CCL_RETURN_IF_ERROR(set_count(options, key));
  return key;
}

Result<std::vector<HostRates>> rates_of(const SimPlanOptions& options, size_t hosts) {
  const auto nics = static_cast<uint32_t>(options.nics);
  if (options.view.empty()) {
    if (options.loss.empty()) return std::vector<HostRates>(hosts, HostRates(nics));
    Result<std::vector<HostRates>> rates = parse_losses(options.loss, hosts, nics);
    return rates.ok() ? rates : rates.status().with_context("--loss");
  }
  if (!options.loss.empty()) return bad("--loss", "give one of --loss and --view");
  Result<std::vector<HostRates>> rates = parse_rates(options.view, hosts);
  R2CCL_RETURN_IF_ERROR(rates.status().with_context("--view"));
  for (size_t host = 0; host < hosts; ++host) {
    const size_t own = rates.value()[host].size();
    if (own == nics) continue;
    return bad("--view", "host " + std::to_string(host) + " has " + std::to_string(own) +
                             " NICs, and --nics gives each host " + std::to_string(nics));
  }
  return rates;
}

Result<FluidFabric> fabric_of(const SimPlanOptions& options) {
  FluidFabric fabric;
  if (options.fabric == "rails") {
    fabric.kind = FluidFabricKind::rails;
  } else if (options.fabric == "spine") {
    fabric.kind = FluidFabricKind::spine;
  } else if (options.fabric != "flat") {
    return bad("--fabric", "'" + options.fabric + "' is none of flat, rails and spine");
  }
  if (fabric.kind != FluidFabricKind::spine && options.oversubscription != 1) {
    return bad("--oversubscription", "only --fabric spine has switches to share");
  }
  if (!std::isfinite(options.oversubscription) || options.oversubscription < 1) {
    return bad("--oversubscription", "write a factor of 1 or more");
  }
  fabric.nics = static_cast<uint32_t>(options.nics);
  fabric.oversubscription = options.oversubscription;
  const Result<double> rate = bit_rate_of("--nic-rate", options.nic_rate);
  R2CCL_RETURN_IF_ERROR(rate.status());
  const Result<double> intra = bit_rate_of("--intra-rate", options.intra_rate);
  R2CCL_RETURN_IF_ERROR(intra.status());
  const Result<double> latency = seconds_of("--latency-us", options.latency_us);
  R2CCL_RETURN_IF_ERROR(latency.status());
  const Result<double> within = seconds_of("--intra-latency-us", options.intra_latency_us);
  R2CCL_RETURN_IF_ERROR(within.status());
  fabric.nic_rate = rate.value();
  fabric.intra_rate = intra.value();
  fabric.latency_s = latency.value();
  fabric.intra_latency_s = within.value();
  return fabric;
}

// Parses "MS,HOST,NIC" or "MS,HOST,NIC,RATE".
Result<RateChange> change_of(const std::string& text) {
  const std::vector<std::string> parts = words_of(text, ',');
  const auto wrong = bad("--fail", "'" + text + "' is neither MS,HOST,NIC nor MS,HOST,NIC,RATE");
  if (parts.size() != 3 && parts.size() != 4) return wrong;
  const std::optional<double> at = parse_number(parts[0]);
  const std::optional<int> host = parse_int(parts[1]);
  const std::optional<int> nic = parse_int(parts[2]);
  if (!at || !host || !nic || *host < 0 || *nic < 0) return wrong;
  const Result<NicRate> rate = parts.size() == 4 ? parse_rate(parts[3]) : NicRate{0, 0};
  R2CCL_RETURN_IF_ERROR(rate.status().with_context("--fail"));
  const Result<double> seconds = seconds_of("--fail", *at * 1e3);
  R2CCL_RETURN_IF_ERROR(seconds.status());
  return RateChange{seconds.value(), static_cast<uint32_t>(*host), static_cast<uint32_t>(*nic),
                    rate.value()};
}

Result<FluidOptions> options_of(const SimPlanOptions& options, const PlanLimits& limits) {
  FluidOptions result;
  const Result<double> message = seconds_of("--message-us", options.message_us);
  R2CCL_RETURN_IF_ERROR(message.status());
  const Result<double> detection = seconds_of("--detection-ms", options.detection_ms * 1e3);
  R2CCL_RETURN_IF_ERROR(detection.status());
  result.message_s = message.value();
  result.detection_s = detection.value();
  if (options.window > 0) result.window = static_cast<uint32_t>(options.window);
  const uint64_t slots = limits::kStagingBytes / limits.segment_bytes_max;
  result.staging = options.staging > 0 ? static_cast<uint32_t>(options.staging)
                                       : static_cast<uint32_t>(std::max<uint64_t>(slots, 1));
  for (const std::string& text : options.failures) {
    const Result<RateChange> change = change_of(text);
    R2CCL_RETURN_IF_ERROR(change.status());
    result.changes.push_back(change.value());
  }
  return result;
}

Result<PlanLimits> limits_of(const SimPlanOptions& options, const PlanKey& key) {
  PlanLimits limits;
  const std::optional<uint64_t> segment = parse_bytes(options.segment);
  if (!segment || *segment < kSegmentBytesMin || *segment > kVectorBytesMax) {
    return bad("--segment", "'" + options.segment + "' is no size from 1K to 16384G, as 256K");
  }
  limits.segment_bytes_max = *segment;
  limits.segment_bytes_min = std::min(limits.segment_bytes_min, *segment);
  const uint64_t blocks = has_blocks(key.collective) ? static_cast<uint64_t>(key.rank_count) : 1;
  if (key.count * blocks * size_of(key.type) / *segment > kSegmentsMax) {
    return bad("--segment", options.bytes + " in segments of " + options.segment +
                                " are too many messages; take larger ones");
  }
  return limits;
}

// The costs by which the planner chooses, as this network has them.
PlanCosts costs_of(const SimPlan& plan, int ranks_per_host) {
  const auto ns = [](double seconds) { return static_cast<uint64_t>(std::llround(seconds * 1e9)); };
  const double host_rate = plan.fabric.nic_rate * plan.fabric.nics;
  PlanCosts costs;
  costs.memory.hop_ns = costs.memory.leader_hop_ns = ns(plan.fabric.intra_latency_s);
  costs.network.hop_ns = costs.network.leader_hop_ns = ns(plan.fabric.latency_s);
  for (DomainCosts* domain : {&costs.memory, &costs.network}) {
    domain->message_ns = domain->leader_message_ns = ns(plan.options.message_s);
    const bool within = domain == &costs.memory;
    const double alone = 1024 / (within ? plan.fabric.intra_rate : host_rate);
    const double together = within ? alone : alone * ranks_per_host;
    domain->kib_ps = domain->fan_kib_ps = std::max<uint64_t>(ns(1000 * together), 1);
    domain->leader_kib_ps = std::max<uint64_t>(ns(1000 * alone), 1);
  }
  return bounded(costs);
}

}  // namespace

Result<SimPlan> sim_plan_of(const SimPlanOptions& options) {
  SimPlan plan;
  Result<PlanKey> key = key_of(options);
  R2CCL_RETURN_IF_ERROR(key.status());
  plan.key = std::move(key.value());
  const Result<PlanLimits> limits = limits_of(options, plan.key);
  R2CCL_RETURN_IF_ERROR(limits.status());
  plan.limits = limits.value();
  Result<FluidFabric> fabric = fabric_of(options);
  R2CCL_RETURN_IF_ERROR(fabric.status());
  plan.fabric = std::move(fabric.value());
  const auto hosts = static_cast<size_t>(options.hosts);
  Result<std::vector<HostRates>> rates = rates_of(options, hosts);
  R2CCL_RETURN_IF_ERROR(rates.status());
  plan.fabric.rates = std::move(rates.value());
  Result<View> view = View::of(plan.fabric.rates);
  R2CCL_RETURN_IF_ERROR(view.status().with_context(options.view.empty() ? "--loss" : "--view"));
  plan.view = std::move(view.value());
  if (!options.healthy_plan) {
    const bool rails = plan.fabric.kind == FluidFabricKind::rails;
    plan.key.view = rails ? plan.view : View::of(without_rails(plan.fabric.rates)).value();
  }
  Result<FluidOptions> rest = options_of(options, plan.limits);
  R2CCL_RETURN_IF_ERROR(rest.status());
  plan.options = std::move(rest.value());
  plan.key.costs = costs_of(plan, options.ranks_per_host);
  const std::optional<uint64_t> memory = parse_bytes(options.memory);
  if (!memory || *memory == 0) return bad("--memory", "'" + options.memory + "' is no size, as 4G");
  plan.memory_max = *memory;
  R2CCL_RETURN_IF_ERROR(check_fabric(plan.fabric, hosts).with_context("the network"));
  R2CCL_RETURN_IF_ERROR(check_options(plan.options, plan.fabric, hosts).with_context("--fail"));
  return plan;
}

}  // namespace r2ccl::tools
