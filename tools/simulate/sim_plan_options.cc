#include "tools/simulate/sim_plan_options.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/limits.h"
#include "plan/cost_model.h"
#include "plan/text/plan_words.h"
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
  const auto algorithm = options.algorithm == "auto" ? std::optional(Algorithm::automatic)
                                                     : value_of(kAlgorithmWords, options.algorithm);
  if (!algorithm) {
    return bad("--algorithm", "no algorithm '" + options.algorithm + "'; there are auto, " +
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

// Parses "500", or "500/1000" where a NIC sends and receives at other rates.
std::optional<NicRate> nic_rate_of(const std::string& text) {
  const std::vector<std::string> parts = words_of(text, '/');
  if (parts.empty() || parts.size() > 2) return std::nullopt;
  const std::optional<int> send = parse_int(parts.front());
  const std::optional<int> receive = parse_int(parts.back());
  const auto fits = [](std::optional<int> rate) {
    return rate && *rate >= 0 && static_cast<uint32_t>(*rate) <= kNicRateMax;
  };
  if (!fits(send) || !fits(receive)) return std::nullopt;
  return NicRate{static_cast<uint32_t>(*send), static_cast<uint32_t>(*receive)};
}

Result<std::vector<std::string>> lines_of(const std::string& path) {
  std::ifstream in(path);
  if (!in) return bad("--view", path + " cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    line.erase(std::remove_if(line.begin(), line.end(), [](unsigned char c) { return c <= ' '; }),
               line.end());
    if (!line.empty() && line.front() != '#') lines.push_back(line);
    if (lines.size() > kSimRanksMax) return bad("--view", path + " has too many lines");
  }
  return lines;
}

Result<std::vector<HostRates>> rates_of(const SimPlanOptions& options, size_t hosts) {
  const auto nics = static_cast<uint32_t>(options.nics);
  if ((options.loss.empty() ? 0 : 1) + (options.rates.empty() ? 0 : 1) +
          (options.view_path.empty() ? 0 : 1) >
      1) {
    return bad("--loss", "give one of --loss, --rates and --view");
  }
  if (!options.loss.empty()) return rates_of_losses(options.loss, hosts, nics);
  if (options.view_path.empty()) return rates_of_lines(options.rates, hosts, nics);
  const Result<std::vector<std::string>> lines = lines_of(options.view_path);
  R2CCL_RETURN_IF_ERROR(lines.status());
  Result<std::vector<HostRates>> rates = rates_of_lines(lines.value(), hosts, nics);
  return rates.ok() ? rates : rates.status().with_context(options.view_path);
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

// Parses "MS:HOST:NIC" or "MS:HOST:NIC=RATE".
Result<RateChange> change_of(const std::string& text) {
  const std::vector<std::string> halves = words_of(text, '=');
  const std::vector<std::string> parts = words_of(halves.empty() ? "" : halves[0], ':');
  const auto wrong = bad("--fail", "'" + text + "' is none of MS:HOST:NIC and MS:HOST:NIC=RATE");
  if (halves.size() > 2 || parts.size() != 3) return wrong;
  const std::optional<double> at = parse_number(parts[0]);
  const std::optional<int> host = parse_int(parts[1]);
  const std::optional<int> nic = parse_int(parts[2]);
  const std::optional<NicRate> rate =
      halves.size() == 2 ? nic_rate_of(halves[1]) : std::optional(NicRate{.send = 0, .receive = 0});
  if (!at || !host || !nic || !rate || *host < 0 || *nic < 0) return wrong;
  const Result<double> seconds = seconds_of("--fail", *at * 1e3);
  R2CCL_RETURN_IF_ERROR(seconds.status());
  return RateChange{seconds.value(), static_cast<uint32_t>(*host), static_cast<uint32_t>(*nic),
                    *rate};
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
    domain->kib_ns = domain->fan_kib_ns = std::max<uint64_t>(ns(together), 1);
    domain->leader_kib_ns = std::max<uint64_t>(ns(alone), 1);
  }
  return bounded(costs);
}

}  // namespace

Result<std::vector<HostRates>> rates_of_losses(const std::string& text, size_t hosts,
                                               uint32_t nics) {
  const std::vector<std::string> words = words_of(text, ',');
  if (words.size() > hosts) {
    return bad("--loss", std::to_string(words.size()) + " losses for " + std::to_string(hosts) +
                             " hosts; name at most one for each");
  }
  std::vector<HostRates> rates(hosts, HostRates(nics));
  for (size_t host = 0; host < words.size(); ++host) {
    const std::optional<double> percent = parse_number(words[host]);
    if (!percent || *percent < 0 || *percent >= 100) {
      return bad("--loss", "'" + words[host] + "' is no percentage from 0 to below 100");
    }
    auto left = static_cast<uint32_t>(std::lround(*percent / 100 * nics * kWholeNic));
    for (uint32_t i = 0; i < nics && left > 0; ++i) {
      const uint32_t lost = std::min(left, kWholeNic);
      rates[host][(host + i) % nics] = {kWholeNic - lost, kWholeNic - lost};
      left -= lost;
    }
  }
  return rates;
}

Result<std::vector<HostRates>> rates_of_lines(const std::vector<std::string>& lines, size_t hosts,
                                              uint32_t nics) {
  std::vector<HostRates> rates(hosts, HostRates(nics));
  for (const std::string& line : lines) {
    const std::vector<std::string> halves = words_of(line, '=');
    const std::optional<int> host = halves.size() == 2 ? parse_int(halves[0]) : std::nullopt;
    if (!host || *host < 0 || static_cast<size_t>(*host) >= hosts) {
      return bad("--rates", "'" + line + "' is not HOST=RATE,RATE,... of a host below " +
                                std::to_string(hosts));
    }
    const std::vector<std::string> words = words_of(halves[1], ',');
    if (words.size() != nics) {
      return bad("--rates", "'" + line + "' has " + std::to_string(words.size()) +
                                " NICs, and a host has " + std::to_string(nics));
    }
    for (size_t nic = 0; nic < words.size(); ++nic) {
      const std::optional<NicRate> rate = nic_rate_of(words[nic]);
      if (!rate) {
        return bad("--rates", "'" + words[nic] + "' is no rate in 1/1000 from 0 to " +
                                  std::to_string(kNicRateMax) + ", as 500 or 500/1000");
      }
      rates[static_cast<size_t>(*host)][nic] = *rate;
    }
  }
  return rates;
}

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
  R2CCL_RETURN_IF_ERROR(view.status().with_context("the rates of the NICs"));
  plan.view = std::move(view.value());
  if (!options.healthy_plan) plan.key.view = plan.view;
  Result<FluidOptions> rest = options_of(options, plan.limits);
  R2CCL_RETURN_IF_ERROR(rest.status());
  plan.options = std::move(rest.value());
  plan.key.costs = costs_of(plan, options.ranks_per_host);
  const std::optional<uint64_t> memory = parse_bytes(options.memory);
  if (!memory || *memory == 0) return bad("--memory", "'" + options.memory + "' is no size, as 4G");
  plan.memory_max = *memory;
  R2CCL_RETURN_IF_ERROR(check_fabric(plan.fabric, hosts).with_context("the network"));
  R2CCL_RETURN_IF_ERROR(check_options(plan.options, plan.fabric, hosts));
  return plan;
}

}  // namespace r2ccl::tools
