#include "sim/blame_trial.h"

#include <algorithm>
#include <memory>
#include <set>

#include "sim/all_reduce_job.h"
#include "sim/cluster.h"

namespace r2ccl {
namespace {

constexpr TimeNs kStep = 5 * kMillisecond;
// A path that carries nothing notices after a heartbeat, or two, the last one of a link later.
constexpr TimeNs kWatched = 2500 * kMillisecond;
constexpr TimeNs kWatchedIdle = 4 * kSecond;

NicName name(int host, int nic) {
  return {static_cast<uint32_t>(host), "nic" + std::to_string(nic)};
}

bool breaks_nic(BlameFault kind) {
  switch (kind) {
    case BlameFault::down:
    case BlameFault::pull:
    case BlameFault::hole:
    case BlameFault::hole_tx:
    case BlameFault::hole_rx:
      return true;
    case BlameFault::severed:
    case BlameFault::rail:
    case BlameFault::host_nics:
    case BlameFault::partition:
    case BlameFault::slow:
    case BlameFault::delay:
    case BlameFault::lossy:
    case BlameFault::mtu_hole:
    case BlameFault::control:
    case BlameFault::killed:
    case BlameFault::stopped:
      return false;
  }
  return false;
}

// What another fault at the same time does not change the evidence of.
bool of_one_rail(BlameFault kind) {
  return breaks_nic(kind) || kind == BlameFault::severed || kind == BlameFault::rail;
}

void strike(Cluster& cluster, const TrialFault& f) {
  Fabric& fabric = cluster.fabric();
  SimNic& nic = cluster.nic(f.host, f.nic);
  switch (f.kind) {
    case BlameFault::down:
      return fabric.down(nic);
    case BlameFault::pull:
      return fabric.pull(nic);
    case BlameFault::hole:
      return fabric.hole(nic);
    case BlameFault::hole_tx:
      return fabric.hole_tx(nic);
    case BlameFault::hole_rx:
      return fabric.hole_rx(nic);
    case BlameFault::severed:
      return fabric.sever(nic, cluster.nic(f.other, f.nic));
    case BlameFault::rail:
      for (int host = 0; host < cluster.size(); ++host) fabric.hole(cluster.nic(host, f.nic));
      return;
    case BlameFault::host_nics:
      for (SimNic* each : cluster.node(f.host).nics) fabric.hole(*each);
      return;
    case BlameFault::partition: {
      SimHost* const one[] = {cluster.node(f.host).host};
      return fabric.partition(one);
    }
    case BlameFault::slow:
      return fabric.slow(nic, nic.options.rate_bytes_per_s / 10);
    case BlameFault::delay:
      return fabric.delay(nic, 3 * kMillisecond, kMillisecond);
    case BlameFault::lossy:
      return fabric.lose(nic, 1'000);
    case BlameFault::mtu_hole:
      return fabric.mtu_hole(nic, 1000);
    case BlameFault::control:
      return fabric.hole(*cluster.node(f.host).management);
    case BlameFault::killed:
      return cluster.world().kill(*cluster.node(f.host).host);
    case BlameFault::stopped:
      return cluster.world().stop(cluster.node(f.host).actor);
  }
}

// The verdict in the words that are compared: scope and ends.
std::string words(Scope scope, const NicName& one, const NicName& other) {
  const auto text = [](const NicName& nic) { return "h" + std::to_string(nic.host) + nic.nic; };
  const std::string kind = to_string(scope);
  switch (scope) {
    case Scope::nic:
    case Scope::host:
    case Scope::process:
      return kind + " " + text(one);
    case Scope::pair:
      return kind + " " + text(std::min(one, other)) + " " + text(std::max(one, other));
    case Scope::rail:
      return kind + " " + one.nic;
  }
  return kind;
}

struct Permitted {
  std::set<std::string> finest;  // any of these; empty: no verdict is due
  std::set<std::string> others;  // coarser, or about the effect: no innocent is named
};

// The table of docs/blame.md for one fault, when others do not touch its evidence.
Permitted permitted(const Trial& trial, const TrialFault& f) {
  const NicName nic = name(f.host, f.nic);
  const auto pair_with = [&](int other) { return words(Scope::pair, nic, name(other, f.nic)); };
  const NicName host{static_cast<uint32_t>(f.host), ""};
  Permitted result;
  for (int other = 0; other < trial.hosts; ++other) {
    if (other != f.host) result.others.insert(pair_with(other));
  }
  switch (f.kind) {
    case BlameFault::down:
    case BlameFault::pull:
      result.finest = {words(Scope::nic, nic, {})};
      return result;
    case BlameFault::hole:
    case BlameFault::hole_tx:
    case BlameFault::hole_rx:
      result.finest = {trial.hosts == 2 ? pair_with(1 - f.host) : words(Scope::nic, nic, {})};
      return result;
    case BlameFault::severed:
      return {{pair_with(f.other)}, {}};
    case BlameFault::rail:
      result.finest = {trial.hosts == 2 ? pair_with(1 - f.host) : words(Scope::rail, nic, {})};
      return result;
    case BlameFault::host_nics:
      result.finest = {trial.hosts == 2
                           ? words(Scope::pair, host, {static_cast<uint32_t>(1 - f.host), ""})
                           : words(Scope::host, host, {})};
      for (int each = 0; each < trial.nics; ++each) {
        result.others.insert(words(Scope::nic, name(f.host, each), {}));
      }
      return result;
    case BlameFault::mtu_hole:
      // Without traffic nobody can know; with it, when both neighbours of a ring have lost it.
      if (trial.traffic && trial.hosts == 2) result.finest = {pair_with(1 - f.host)};
      if (trial.traffic && trial.hosts > 2) result.finest = {words(Scope::nic, nic, {})};
      return result;
    case BlameFault::killed:
      result.finest = {words(Scope::process, host, {})};
      result.others.clear();
      return result;
    case BlameFault::partition:
    case BlameFault::slow:
    case BlameFault::delay:
    case BlameFault::lossy:
    case BlameFault::control:
    case BlameFault::stopped:
      result.others.clear();
      return result;
  }
  return result;
}

// Two NIC faults that leave a host none look like the host.
void permit_host(const Trial& trial, std::vector<Permitted>& all) {
  if (trial.faults.size() != 2 || trial.nics != 2) return;
  const TrialFault& a = trial.faults[0];
  const TrialFault& b = trial.faults[1];
  if (a.nic == b.nic) return;
  for (int host = 0; host < trial.hosts; ++host) {
    const NicName whole{static_cast<uint32_t>(host), ""};
    const auto lost = [&](const TrialFault& f) {
      return f.kind == BlameFault::rail || (breaks_nic(f.kind) && f.host == host) ||
             trial.hosts == 2;
    };
    if (!lost(a) || !lost(b)) continue;
    const std::string verdict =
        trial.hosts == 2 ? words(Scope::pair, {0, ""}, {1, ""}) : words(Scope::host, whole, {});
    for (Permitted& each : all) each.finest.insert(verdict);
  }
}

struct Watch {
  std::vector<Verdict> verdicts;
  TimeNs slowest = 0;
};

bool concerns(const PathEvent& event, int self, const Verdict& verdict) {
  const auto host = static_cast<int>(verdict.culprit.host);
  const bool touches = self == host || event.peer == Rank(host) || verdict.scope == Scope::rail;
  const bool lost = event.to == PathPhase::down && event.local_nic != kNoNic &&
                    (event.from == PathPhase::up || event.from == PathPhase::suspect);
  const bool of_nic = verdict.culprit.nic.empty() ||
                      verdict.culprit.nic == "nic" + std::to_string(event.local_nic.value());
  return lost && touches && of_nic;
}

TimeNs first_down(Cluster& cluster, const Verdict& verdict) {
  TimeNs first = kNever;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    for (const PathEvent& event : cluster.node(rank).events) {
      if (concerns(event, rank, verdict)) first = std::min(first, event.at);
    }
  }
  return first;
}

// The list of whoever knows most: a stopped or dead rank has not heard.
Watch watch(Cluster& cluster, TimeNs until) {
  Watch seen;
  while (cluster.now() < until) {
    cluster.world().run_for(kStep);
    for (int rank = 0; rank < cluster.size(); ++rank) {
      const auto& list = cluster.node(rank).incidents->verdicts();
      for (size_t i = seen.verdicts.size(); i < list.size(); ++i) {
        const TimeNs down = first_down(cluster, list[i]);
        if (down != kNever) seen.slowest = std::max(seen.slowest, cluster.now() - down);
        seen.verdicts.push_back(list[i]);
      }
    }
  }
  return seen;
}

TrialOutcome compare(const Trial& trial, const Watch& seen) {
  TrialOutcome outcome;
  outcome.slowest = seen.slowest;
  std::vector<Permitted> all;
  for (const TrialFault& fault : trial.faults) all.push_back(permitted(trial, fault));
  permit_host(trial, all);
  std::multiset<std::string> said;
  for (const Verdict& v : seen.verdicts) said.insert(words(v.scope, v.culprit, v.other));
  for (const std::string& each : said) {
    const bool known = std::ranges::any_of(all, [&](const Permitted& p) {
      return p.finest.contains(each) || p.others.contains(each);
    });
    if (!known) outcome.innocent.push_back(each);
    const bool fine =
        std::ranges::any_of(all, [&](const Permitted& p) { return p.finest.contains(each); });
    if (!fine || said.count(each) > 1) outcome.coarse.push_back("said " + each);
  }
  for (const Permitted& p : all) {
    const bool told =
        std::ranges::any_of(p.finest, [&](const std::string& each) { return said.contains(each); });
    if (!told && !p.finest.empty()) outcome.coarse.push_back("not said " + *p.finest.begin());
  }
  return outcome;
}

TrialFault random_fault(Random& random, const Trial& trial) {
  TrialFault fault;
  const auto hosts = static_cast<uint64_t>(trial.hosts);
  fault.kind = static_cast<BlameFault>(random.below(kBlameFaults));
  fault.host = static_cast<int>(random.below(hosts));
  fault.other =
      static_cast<int>((static_cast<uint64_t>(fault.host) + 1 + random.below(hosts - 1)) % hosts);
  fault.nic = static_cast<int>(random.below(static_cast<uint64_t>(trial.nics)));
  fault.at = static_cast<TimeNs>(random.below(300)) * kMillisecond;
  return fault;
}

// Two faults whose evidence does not mix: on two rails, or two NICs of a rail with two witnesses.
bool apart(const Trial& trial, const TrialFault& a, const TrialFault& b) {
  if (!of_one_rail(a.kind) || !of_one_rail(b.kind)) return false;
  if (a.nic != b.nic) return true;
  return breaks_nic(a.kind) && breaks_nic(b.kind) && a.host != b.host && trial.hosts >= 4;
}

}  // namespace

const char* to_string(BlameFault kind) {
  constexpr const char* kNames[kBlameFaults] = {
      "down",      "pull", "hole",  "hole_tx", "hole_rx",  "severed", "rail",   "host_nics",
      "partition", "slow", "delay", "lossy",   "mtu_hole", "control", "killed", "stopped"};
  return kNames[static_cast<size_t>(kind)];
}

Trial random_trial(uint64_t seed) {
  Random random(seed);
  Trial trial;
  trial.seed = seed;
  trial.hosts = 2 + static_cast<int>(random.below(5));
  trial.nics = 2 + static_cast<int>(random.below(3));
  trial.traffic = random.below(2) == 1;
  trial.faults.push_back(random_fault(random, trial));
  const TrialFault second = random_fault(random, trial);
  if (random.below(3) == 0 && apart(trial, trial.faults[0], second)) {
    trial.faults.push_back(second);
  }
  return trial;
}

std::string to_string(const Trial& trial) {
  std::string text = "seed " + std::to_string(trial.seed) + ": " + std::to_string(trial.hosts) +
                     " hosts of " + std::to_string(trial.nics) + " NICs" +
                     (trial.traffic ? " with traffic" : "");
  for (const TrialFault& f : trial.faults) {
    text += ", " + std::string(to_string(f.kind)) + " h" + std::to_string(f.host) + " nic" +
            std::to_string(f.nic) + " (h" + std::to_string(f.other) + ") at " +
            std::to_string(f.at / kMillisecond) + " ms";
  }
  return text;
}

TrialOutcome run(const Trial& trial) {
  ClusterOptions options;
  options.seed = trial.seed;
  options.hosts = trial.hosts;
  options.nics = trial.nics;
  // Slow NICs make few events of as much time.
  options.rate_bytes_per_s = 4'000'000;
  Cluster cluster(options);
  TrialOutcome failed;
  failed.coarse = {"no connection"};
  if (!cluster.connect()) return failed;
  AllReduceJob job(cluster, 8192);
  if (trial.traffic) job.start(100'000);
  const TimeNs start = cluster.now();
  TimeNs last = start;
  for (const TrialFault& fault : trial.faults) {
    cluster.fabric().at(start + fault.at, [&cluster, &fault] { strike(cluster, fault); });
    last = std::max(last, start + fault.at);
  }
  const Watch seen = watch(cluster, last + (trial.traffic ? kWatched : kWatchedIdle));
  job.abandon();
  return compare(trial, seen);
}

}  // namespace r2ccl
