#include "sim/trial/blame_trial.h"

#include <algorithm>
#include <array>
#include <set>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/fault_script.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

constexpr TimeNs kBlameStep = 5 * kMillisecond;
// An idle path notices a fault after one or two heartbeats, the last path of a link later.
constexpr TimeNs kBlameWatched = 2500 * kMillisecond;
constexpr TimeNs kWatchedIdle = 4 * kSecond;
// Longer than any trial watches.
constexpr TimeNs kLonger = 3600 * kSecond;

NicName name(int host, int nic) {
  return {static_cast<uint32_t>(host), "nic" + std::to_string(nic)};
}

// Every fault of the table: a trial chooses from these.
constexpr std::array kKinds = {
    FaultKind::down,      FaultKind::pull,    FaultKind::hole,  FaultKind::hole_tx,
    FaultKind::hole_rx,   FaultKind::sever,   FaultKind::rail,  FaultKind::dark,
    FaultKind::partition, FaultKind::slow,    FaultKind::delay, FaultKind::loss,
    FaultKind::mtu_hole,  FaultKind::control, FaultKind::kill,  FaultKind::stop};

bool breaks_nic(FaultKind kind) {
  switch (kind) {
    case FaultKind::down:
    case FaultKind::pull:
    case FaultKind::hole:
    case FaultKind::hole_tx:
    case FaultKind::hole_rx:
      return true;
    default:
      return false;
  }
}

// Faults whose evidence another fault at the same time does not change.
bool of_one_rail(FaultKind kind) {
  return breaks_nic(kind) || kind == FaultKind::sever || kind == FaultKind::rail;
}

// Returns the verdict as the text that is compared: scope and ends.
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
  std::set<std::string> others;  // coarser, or a consequence of the fault: names no innocent
};

// Returns the row of docs/blame.md's table for one fault whose evidence no other fault touches.
Permitted permitted(const BlameTrial& trial, const FaultSpec& f) {
  const NicName nic = name(f.host, f.nic);
  const auto pair_with = [&](int other) { return words(Scope::pair, nic, name(other, f.nic)); };
  const NicName host{static_cast<uint32_t>(f.host), ""};
  Permitted result;
  for (int other = 0; other < trial.scenario.hosts; ++other) {
    if (other != f.host) result.others.insert(pair_with(other));
  }
  switch (f.kind) {
    case FaultKind::down:
    case FaultKind::pull:
      result.finest = {words(Scope::nic, nic, {})};
      return result;
    case FaultKind::hole:
    case FaultKind::hole_tx:
    case FaultKind::hole_rx:
      result.finest = {trial.scenario.hosts == 2 ? pair_with(1 - f.host)
                                                 : words(Scope::nic, nic, {})};
      return result;
    case FaultKind::sever:
      return {{pair_with(f.other_host)}, {}};
    case FaultKind::rail:
      result.finest = {trial.scenario.hosts == 2 ? pair_with(1 - f.host)
                                                 : words(Scope::rail, nic, {})};
      return result;
    case FaultKind::dark:
      result.finest = {trial.scenario.hosts == 2
                           ? words(Scope::pair, host, {static_cast<uint32_t>(1 - f.host), ""})
                           : words(Scope::host, host, {})};
      for (int each = 0; each < trial.scenario.nics; ++each) {
        result.others.insert(words(Scope::nic, name(f.host, each), {}));
      }
      return result;
    case FaultKind::mtu_hole:
      // Without traffic no rank can know. With traffic, both neighbours of a ring must have lost
      // it.
      if (trial.traffic && trial.scenario.hosts == 2) result.finest = {pair_with(1 - f.host)};
      if (trial.traffic && trial.scenario.hosts > 2) result.finest = {words(Scope::nic, nic, {})};
      return result;
    case FaultKind::kill:
      result.finest = {words(Scope::process, host, {})};
      result.others.clear();
      return result;
    case FaultKind::loss:
      // Enough loss in a row is silence.
      result.others.insert(words(Scope::nic, nic, {}));
      return result;
    default:
      result.others.clear();
      return result;
  }
}

// Two NIC faults that leave a host without NICs look like a fault of the host.
void permit_host(const BlameTrial& trial, std::vector<Permitted>& all) {
  if (trial.scenario.faults.size() != 2 || trial.scenario.nics != 2) return;
  const FaultSpec& a = trial.scenario.faults[0];
  const FaultSpec& b = trial.scenario.faults[1];
  if (a.nic == b.nic) return;
  for (int host = 0; host < trial.scenario.hosts; ++host) {
    const NicName whole{static_cast<uint32_t>(host), ""};
    const auto lost = [&](const FaultSpec& f) {
      return f.kind == FaultKind::rail || (breaks_nic(f.kind) && f.host == host) ||
             trial.scenario.hosts == 2;
    };
    if (!lost(a) || !lost(b)) continue;
    const std::string verdict = trial.scenario.hosts == 2 ? words(Scope::pair, {0, ""}, {1, ""})
                                                          : words(Scope::host, whole, {});
    for (Permitted& each : all) each.finest.insert(verdict);
  }
}

struct Watch {
  std::vector<Verdict> verdicts;
  TimeNs slowest = 0;
};

bool concerns(const PathEvent& event, int self, const Verdict& verdict) {
  const auto host = static_cast<int>(verdict.faulty.host);
  const bool touches = self == host || event.peer == Rank(host) || verdict.scope == Scope::rail;
  const bool lost = event.to == PathPhase::down && event.local_nic != kNoNic &&
                    (event.from == PathPhase::up || event.from == PathPhase::suspect);
  const bool of_nic = verdict.faulty.nic.empty() ||
                      verdict.faulty.nic == "nic" + std::to_string(event.local_nic.value());
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

// Follows the longest list of verdicts: a stopped or dead rank has an older one.
Watch watch(Cluster& cluster, TimeNs until) {
  Watch seen;
  while (cluster.now() < until) {
    cluster.world().run_for(kBlameStep);
    for (int rank = 0; rank < cluster.size(); ++rank) {
      const auto& list = cluster.node(rank).fault_reporter().verdicts();
      for (size_t i = seen.verdicts.size(); i < list.size(); ++i) {
        const TimeNs down = first_down(cluster, list[i]);
        if (down != kNever) seen.slowest = std::max(seen.slowest, cluster.now() - down);
        seen.verdicts.push_back(list[i]);
      }
    }
  }
  return seen;
}

BlameOutcome compare(const BlameTrial& trial, const Watch& seen) {
  BlameOutcome outcome;
  outcome.slowest = seen.slowest;
  std::vector<Permitted> all;
  for (const FaultSpec& fault : trial.scenario.faults) all.push_back(permitted(trial, fault));
  permit_host(trial, all);
  std::multiset<std::string> said;
  for (const Verdict& v : seen.verdicts) said.insert(words(v.scope, v.faulty, v.other));
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

// Returns whether the verdict says that the NIC carries nothing, or may carry nothing.
bool blames(const Verdict& verdict, const NicName& nic) {
  if (verdict.kind == DownCause::lossy || verdict.kind == DownCause::tampered) return false;
  const auto meant = [&](const NicName& end) {
    return end.host == nic.host && (end.nic.empty() || end.nic == nic.nic);
  };
  if (verdict.scope == Scope::process) return false;
  if (verdict.scope == Scope::rail) return verdict.faulty.nic == nic.nic;
  return meant(verdict.faulty) || (verdict.scope == Scope::pair && meant(verdict.other));
}

// Returns the view of the rank that has the latest one; null when no rank is in order.
const RankViews* latest_views(Cluster& cluster) {
  const RankViews* latest = nullptr;
  const auto version = [](const RankViews* views) { return views->agreement().latest().version; };
  for (int rank = 0; rank < cluster.size(); ++rank) {
    SimRank& node = cluster.node(rank);
    const RankViews* own = node.left() || node.failed() ? nullptr : node.runtime->views();
    if (own != nullptr && (latest == nullptr || version(own) > version(latest))) latest = own;
  }
  return latest;
}

// Returns the NICs that the plans avoid though no verdict blames them, and those that they use
// though a verdict says that they reach nothing. Where the hosts have lost alike, as two hosts
// always have, plans need no view. They keep the last one while a host has no NIC at all.
std::vector<std::string> apart(Cluster& cluster, const BlameTrial& trial, const Watch& seen) {
  const RankViews* views = latest_views(cluster);
  if (views == nullptr) return {};
  const View& view = views->agreement().latest().view;
  std::vector<std::string> all;
  std::set<std::vector<bool>> by_host;
  for (int host = 0; host < trial.scenario.hosts; ++host) {
    std::vector<bool> lost;
    for (int index = 0; index < trial.scenario.nics; ++index) {
      const NicName nic = name(host, index);
      const auto rail = views->nics().rails(nic.host)[static_cast<size_t>(index)];
      const bool unused = !view.empty() && view.hosts()[nic.host][rail].send == 0;
      const auto is_of = [&](const Verdict& verdict) { return blames(verdict, nic); };
      const auto is_sure = [&](const Verdict& verdict) {
        return verdict.scope != Scope::pair && is_of(verdict);
      };
      const std::string text = "h" + std::to_string(host) + " " + nic.nic;
      if (unused && std::ranges::none_of(seen.verdicts, is_of)) {
        all.push_back(text + " is unused and has no verdict");
      }
      const bool sure = std::ranges::any_of(seen.verdicts, is_sure);
      if (!unused && sure) all.push_back(text + " has a verdict and is used");
      lost.push_back(std::ranges::any_of(seen.verdicts, is_of));
    }
    if (std::ranges::count(lost, false) == 0) return {};
    by_host.insert(std::move(lost));
  }
  const bool alike = by_host.size() < 2 || trial.scenario.hosts == 2;
  return alike && view.empty() ? std::vector<std::string>() : all;
}

uint64_t amount_of(FaultKind kind, const Scenario& scenario) {
  switch (kind) {
    case FaultKind::slow:
      return scenario.rate_bytes_per_s / 10;
    case FaultKind::delay:
      return static_cast<uint64_t>(3 * kMillisecond);
    case FaultKind::loss:
    case FaultKind::mtu_hole:
      return 1'000;
    default:
      return 0;
  }
}

FaultSpec random_fault(Random& random, const Scenario& scenario) {
  FaultSpec fault;
  const auto hosts = static_cast<uint64_t>(scenario.hosts);
  fault.kind = kKinds[random.below(kKinds.size())];
  fault.host = static_cast<int>(random.below(hosts));
  fault.other_host =
      static_cast<int>((static_cast<uint64_t>(fault.host) + 1 + random.below(hosts - 1)) % hosts);
  fault.nic = static_cast<int>(random.below(static_cast<uint64_t>(scenario.nics)));
  fault.at = static_cast<TimeNs>(random.below(300)) * kMillisecond;
  fault.duration = kLonger;
  fault.amount = amount_of(fault.kind, scenario);
  if (fault.kind == FaultKind::partition) fault.host = std::max(fault.host, 1);
  return fault;
}

// Returns true for two faults whose evidence does not mix: on two rails, or on two NICs of a rail
// with two witnesses.
bool apart(const BlameTrial& trial, const FaultSpec& a, const FaultSpec& b) {
  if (!of_one_rail(a.kind) || !of_one_rail(b.kind)) return false;
  if (a.nic != b.nic) return true;
  return breaks_nic(a.kind) && breaks_nic(b.kind) && a.host != b.host && trial.scenario.hosts >= 4;
}

}  // namespace

BlameTrial random_blame_trial(uint64_t seed) {
  Random random(seed);
  BlameTrial trial;
  Scenario& s = trial.scenario;
  s.seed = seed;
  s.hosts = 2 + static_cast<int>(random.below(5));
  s.nics = 2 + static_cast<int>(random.below(3));
  // Slow NICs need few events for the same time.
  s.rate_bytes_per_s = 4'000'000;
  trial.traffic = random.below(2) == 1;
  s.faults.push_back(random_fault(random, s));
  const FaultSpec second = random_fault(random, s);
  if (random.below(3) == 0 && apart(trial, s.faults[0], second)) s.faults.push_back(second);
  return trial;
}

std::string describe(const BlameTrial& trial) {
  std::string text = "seed " + std::to_string(trial.scenario.seed) + ": " +
                     describe(trial.scenario) + (trial.traffic ? ", traffic" : "");
  for (const FaultSpec& fault : trial.scenario.faults) {
    text += "; " + describe(fault) + " at " + std::to_string(fault.at / kMillisecond) + " ms";
  }
  return text;
}

BlameOutcome run(const BlameTrial& trial) {
  ClusterOptions options;
  options.seed = trial.scenario.seed;
  options.hosts = trial.scenario.hosts;
  options.nics = trial.scenario.nics;
  options.rate_bytes_per_s = trial.scenario.rate_bytes_per_s;
  Cluster cluster(options);
  BlameOutcome failed;
  failed.coarse = {"no connection"};
  if (!cluster.connect()) return failed;
  // A plan is fixed, because it decides which paths have seen a fault, and so how fine a verdict
  // can be.
  const bool rings = trial.scenario.hosts == 3 || trial.scenario.hosts == 5;
  AllReduceJob job(cluster, 8192, rings ? Algorithm::ring : Algorithm::halving_doubling);
  if (trial.traffic) job.start(100'000);
  FaultScript faults(cluster, trial.scenario, [](const std::string&) {});
  TimeNs last = cluster.now();
  for (const FaultSpec& fault : trial.scenario.faults) {
    last = std::max(last, cluster.now() + fault.at);
  }
  faults.start();
  const Watch seen = watch(cluster, last + (trial.traffic ? kBlameWatched : kWatchedIdle));
  BlameOutcome outcome = compare(trial, seen);
  outcome.apart = apart(cluster, trial, seen);
  job.abandon();
  return outcome;
}

}  // namespace r2ccl::sim
