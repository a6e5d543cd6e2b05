#include "sim/trial/loss_trial.h"

#include <algorithm>
#include <cmath>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

constexpr TimeNs kLossStep = 10 * kMillisecond;
constexpr TimeNs kQuiet = 300 * kMillisecond;
constexpr TimeNs kLossWatched = 6 * kSecond;
// Long enough after the verdict to see wrong ones that follow.
constexpr TimeNs kAfter = 500 * kMillisecond;
constexpr uint64_t kSegment = 1448;

NicName name_of(const LossTrial::Fault& fault) {
  return {static_cast<uint32_t>(fault.host), "nic" + std::to_string(fault.nic)};
}

// Loss matters by its order of magnitude.
uint32_t random_ppm(Random& random) {
  const double exponent = static_cast<double>(random.below(10'001)) / 10'000;
  return static_cast<uint32_t>(1'000 * std::pow(300.0, exponent));
}

LossTrial::Fault random_place(Random& random, const LossTrial& trial) {
  LossTrial::Fault fault;
  fault.host = static_cast<int>(random.below(static_cast<uint64_t>(trial.hosts)));
  fault.nic = static_cast<int>(random.below(static_cast<uint64_t>(trial.nics)));
  return fault;
}

LossTrial::Fault random_other(Random& random, const LossTrial& trial) {
  LossTrial::Fault fault = random_place(random, trial);
  switch (random.below(3)) {
    case 0:
      fault.faults.rate_bytes_per_s = trial.rate_bytes_per_s / (2 + random.below(9));
      break;
    case 1:
      fault.faults.delay_ns = static_cast<TimeNs>(1 + random.below(50)) * kMillisecond;
      break;
    default:
      fault.faults.frame_bytes_max = 1'000;
      break;
  }
  return fault;
}

bool same_place(const LossTrial::Fault& a, const LossTrial::Fault& b) {
  return a.host == b.host && a.nic == b.nic;
}

bool is_end(const Verdict& verdict, const NicName& nic) {
  return verdict.faulty == nic || (verdict.scope == Scope::pair && verdict.other == nic);
}

std::string words(const Verdict& verdict) {
  const auto text = [](const NicName& nic) { return "h" + std::to_string(nic.host) + nic.nic; };
  std::string said = std::string(to_string(verdict.scope)) + " " + text(verdict.faulty);
  if (verdict.scope == Scope::pair) said += " " + text(verdict.other);
  return said + " " + to_string(verdict.kind);
}

// A lossy NIC may break connections, and so may the other faults. Only the lossy NIC may be named
// lossy.
bool permitted(const LossTrial& trial, const Verdict& verdict) {
  const bool of_lossy = trial.loses() && is_end(verdict, name_of(trial.lossy));
  if (verdict.kind == DownCause::lossy) return of_lossy;
  if (of_lossy) return true;
  return std::ranges::any_of(
      trial.others, [&](const LossTrial::Fault& other) { return is_end(verdict, name_of(other)); });
}

bool names(const LossTrial& trial, const Verdict& verdict) {
  return trial.loses() && verdict.kind == DownCause::lossy && verdict.scope == Scope::nic &&
         verdict.faulty == name_of(trial.lossy);
}

bool all_know(const LossTrial& trial, Cluster& cluster) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    const auto& verdicts = cluster.node(rank).fault_reporter().verdicts();
    const auto here = [&](const Verdict& verdict) { return names(trial, verdict); };
    if (std::ranges::none_of(verdicts, here)) return false;
  }
  return true;
}

void conclude(const LossTrial& trial, Cluster& cluster, LossOutcome& outcome) {
  for (const Verdict& verdict : cluster.node(0).fault_reporter().verdicts()) {
    if (!permitted(trial, verdict)) outcome.innocent.push_back(words(verdict));
    if (!trial.loses() || !is_end(verdict, name_of(trial.lossy))) continue;
    outcome.verdicts.push_back(words(verdict));
    if (names(trial, verdict)) outcome.said_ppm = verdict.loss_ppm;
    outcome.pair_named =
        outcome.pair_named || (verdict.scope == Scope::pair && verdict.kind == DownCause::lossy);
  }
}

}  // namespace

LossTrial random_loss_trial(uint64_t seed) {
  Random random(seed);
  LossTrial trial;
  trial.seed = seed;
  trial.hosts = 3 + static_cast<int>(random.below(3));
  trial.nics = 2 + static_cast<int>(random.below(2));
  trial.rate_bytes_per_s = 2'000'000 + 1'000'000 * random.below(5);
  if (random.below(3) == 0) trial.latency = static_cast<TimeNs>(random.below(25)) * kMillisecond;
  trial.latency += 50 * kMicrosecond;
  trial.bytes = uint64_t{32 * 1024} << random.below(4);
  // Room for the smallest windows of all senders: simulated kernels, unlike real ones, do not send
  // less when packets are lost, and would overrun a smaller port for ever.
  if (random.below(4) == 0) trial.port_bytes = (64 + random.below(65)) * 1024;
  if (random.below(3) == 0) trial.others.push_back(random_other(random, trial));
  trial.lossy = random_place(random, trial);
  if (random.below(4) != 0) {
    trial.lossy.faults.loss_ppm = random_ppm(random);
    trial.lossy.faults.lost = static_cast<NicFaults::Way>(random.below(5) % 3);
    // The lossy NIC has no second fault.
    std::erase_if(trial.others, [&](const auto& other) { return same_place(other, trial.lossy); });
  }
  return trial;
}

std::string describe(const LossTrial& trial) {
  const auto place = [](const LossTrial::Fault& fault) {
    return " h" + std::to_string(fault.host) + " nic" + std::to_string(fault.nic);
  };
  std::string text = "seed " + std::to_string(trial.seed) + ": " + std::to_string(trial.hosts) +
                     " hosts, " + std::to_string(trial.nics) + " NICs of " +
                     std::to_string(trial.rate_bytes_per_s / 1'000'000) + " MB/s, latency " +
                     std::to_string(trial.latency / kMicrosecond) + " us, " +
                     std::to_string(trial.bytes / 1024) + " KB";
  if (trial.port_bytes > 0) text += ", ports of " + std::to_string(trial.port_bytes) + " bytes";
  for (const LossTrial::Fault& other : trial.others) {
    const NicFaults& faults = other.faults;
    text += ";" + place(other);
    if (faults.rate_bytes_per_s > 0) {
      text += " slow " + std::to_string(faults.rate_bytes_per_s) + " bytes/s";
    }
    if (faults.delay_ns > 0) {
      text += " delay " + std::to_string(faults.delay_ns / kMillisecond) + " ms";
    }
    if (faults.frame_bytes_max > 0) text += " MTU hole";
  }
  if (!trial.loses()) return text + "; no loss";
  static constexpr const char* kWays[] = {"both ways", "of what it sends", "of what it receives"};
  return text + ";" + place(trial.lossy) + " loses " + std::to_string(trial.lossy.faults.loss_ppm) +
         " ppm " + kWays[static_cast<size_t>(trial.lossy.faults.lost)];
}

LossOutcome run(const LossTrial& trial) {
  ClusterOptions options;
  options.seed = trial.seed;
  options.hosts = trial.hosts;
  options.nics = trial.nics;
  options.rate_bytes_per_s = trial.rate_bytes_per_s;
  options.world.network.latency_ns = trial.latency;
  options.world.network.stream.segment_bytes = kSegment;
  Cluster cluster(options);
  LossOutcome outcome;
  outcome.connected = cluster.connect();
  if (!outcome.connected) return outcome;
  const auto set = [&](int host, int nic, NicFaults faults) {
    faults.port_bytes = trial.port_bytes;
    cluster.fabric().set_faults(cluster.nic(host, nic), faults);
  };
  for (int host = 0; host < trial.hosts; ++host) {
    for (int nic = 0; nic < trial.nics; ++nic) set(host, nic, {});
  }
  for (const LossTrial::Fault& other : trial.others) set(other.host, other.nic, other.faults);
  AllReduceJob job(cluster, trial.bytes / sizeof(int64_t));
  job.start(100'000);
  cluster.world().run_for(kQuiet);
  if (trial.loses()) set(trial.lossy.host, trial.lossy.nic, trial.lossy.faults);
  const TimeNs began = cluster.now();
  TimeNs until = began + kLossWatched;
  while (cluster.now() < until) {
    cluster.world().run_for(kLossStep);
    if (outcome.named || !all_know(trial, cluster)) continue;
    outcome.named = true;
    outcome.named_after = cluster.now() - began;
    until = std::min(until, cluster.now() + kAfter);
  }
  conclude(trial, cluster, outcome);
  job.abandon();
  return outcome;
}

}  // namespace r2ccl::sim
