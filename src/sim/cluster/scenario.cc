#include "sim/cluster/scenario.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/limits.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

using Kind = OperationSpec::Kind;

constexpr std::array<const char*, kOperationKinds> kOperationNames = {
    "all_reduce", "broadcast",  "barrier",    "shift",          "send_to_all",
    "run_ahead",  "reduce",     "all_gather", "reduce_scatter", "gather",
    "scatter",    "all_to_all", "tagged",     "tagged_ahead"};
// More calls than a sender may be ahead of a receiver, with so few bytes that the eager pool has
// space for them.
constexpr uint64_t kCallsAhead = limits::kMessagesAheadMax + 200;
constexpr std::array<const char*, kFaultKinds> kFaultNames = {
    "down",       "pull",       "hole",          "hole_tx",   "hole_rx",  "loss",   "delay",
    "jitter",     "slow",       "mtu_hole",      "flap",      "all_nics", "dark",   "rail",
    "control",    "partition",  "sever",         "readdress", "reset",    "cut",    "failed_call",
    "stop",       "deschedule", "suspend",       "kill",      "flip",     "repeat", "add",
    "lost_chunk", "abort",      "call_mismatch", "drain",     "status"};

// One seed in this many has faults that change bytes.
constexpr uint64_t kTamperedSeeds = 5;

// Added to a seed, these give random numbers that are independent of the first ones of the seed.
constexpr uint64_t kRunAheadSeeds = 0x9e3779b97f4a7c15;
constexpr uint64_t kPlanHostSeeds = 0xa0761d6478bd642f;
constexpr uint64_t kPlanCostSeeds = 0xbf58476d1ce4e5b9;
constexpr uint64_t kPeopleSeeds = 0xd1b54a32d192ed03;
constexpr uint64_t kRailSeeds = 0xd6e8feb86659fd93;
constexpr uint64_t kBlockSeeds = 0x2545f4914f6cdd1d;
constexpr uint64_t kTypeSeeds = 0x8ebc6af09c88c6e3;
constexpr uint64_t kTaggedSeeds = 0x94d049bb133111eb;
constexpr uint64_t kDataAtStartSeeds = 0xc2b2ae3d27d4eb4f;

// The random numbers of one scenario.
class ScenarioRandom {
 public:
  // Hashes the seed, because neighbouring seeds of this generator give sequences that overlap.
  explicit ScenarioRandom(uint64_t seed) : random_(Random(seed).next()) {}

  bool chance(int percent) { return random_.below(100) < static_cast<uint64_t>(percent); }
  int between(int least, int most) {
    return least + static_cast<int>(random_.below(static_cast<uint64_t>(most - least + 1)));
  }
  TimeNs time(TimeNs most) {
    return static_cast<TimeNs>(random_.below(static_cast<uint64_t>(most)));
  }
  // Returns a number for which every order of magnitude is equally likely.
  uint64_t log_uniform(uint64_t least, uint64_t most) {
    const double span = std::log(static_cast<double>(most) / static_cast<double>(least));
    const double part = static_cast<double>(random_.below(1 << 20)) / (1 << 20);
    return static_cast<uint64_t>(static_cast<double>(least) * std::exp(span * part));
  }
  template <typename T, size_t N>
  T one_of(const std::array<T, N>& choices) {
    return choices[random_.below(N)];
  }

 private:
  Random random_;
};

// Most runs are small, because most defects that sixteen ranks show already appear with three.
void choose_cluster(ScenarioRandom& random, Scenario& s) {
  const int kind = random.between(0, 99);
  if (kind < 90) {
    s.hosts = random.between(2, 4);
    s.nics = random.between(1, 4);
  } else if (kind < 99) {
    s.hosts = random.between(3, 8);
    s.nics = random.between(1, 3);
  } else {
    s.hosts = random.between(9, 16);
    s.nics = random.between(1, 2);
  }
  if (s.hosts <= 3 && random.chance(5)) s.nics = random.between(5, 8);
  s.rate_bytes_per_s = random.log_uniform(3'000'000, 1'000'000'000);
  s.latency = static_cast<TimeNs>(random.log_uniform(5'000, 1'000'000));
  if (random.chance(30))
    s.wakeup_jitter = static_cast<TimeNs>(random.log_uniform(1'000, 1'000'000));
  s.segment_bytes = random.chance(20) ? 1448 : 16 * 1024;
  s.socket_bytes = random.log_uniform(16 * 1024, 512 * 1024);
  s.management = random.chance(80);
  s.damping = random.chance(50);
  s.communicators = random.chance(34) ? random.between(2, 3) : 1;
  s.depth = random.chance(30) ? 2 : 1;
}

OperationSpec choose_operation(ScenarioRandom& random, const Scenario& s) {
  static constexpr std::array kTypes = {DataType::int32, DataType::int64, DataType::float32,
                                        DataType::float64};
  static constexpr std::array kOps = {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::avg};
  OperationSpec o;
  const int kind = random.between(0, 99);
  o.kind = kind < 55   ? Kind::all_reduce
           : kind < 70 ? Kind::broadcast
           : kind < 75 ? Kind::barrier
           : kind < 90 ? Kind::shift
                       : Kind::send_to_all;
  o.communicator = random.between(0, s.communicators - 1);
  o.type = random.one_of(kTypes);
  o.op = random.one_of(kOps);
  o.root = random.between(0, s.hosts - 1);
  o.in_place = random.chance(30);
  // The sizes are such that a seed takes about ten milliseconds of processor time.
  const uint64_t usual = 512 * 1024 / static_cast<uint64_t>(s.hosts);
  const uint64_t most = random.chance(5) ? 4 * usual : usual;
  const uint64_t least = random.chance(50) ? 1 : most / 16;
  o.count = o.kind == Kind::barrier ? 0 : random.log_uniform(least, most) / size_of(o.type) + 1;
  if (o.kind == Kind::send_to_all) o.count = o.count / static_cast<uint64_t>(s.hosts) + 1;
  return o;
}

void choose_operations(ScenarioRandom& random, Scenario& s) {
  const int count = random.between(20, 32);
  for (int i = 0; i < count; ++i) s.operations.push_back(choose_operation(random, s));
  s.think_max = static_cast<TimeNs>(random.log_uniform(10'000, 4'000'000));
  s.leave_early = random.chance(40);
}

// Turns half of the operations into collectives with blocks, or Reduces. The draw has its own
// random numbers, and old seeds have none.
void choose_blocks(ScenarioRandom random, Scenario& s) {
  if (s.seed <= kSeedsWithoutBlocks) return;
  static constexpr std::array kKinds = {Kind::reduce, Kind::all_gather, Kind::reduce_scatter,
                                        Kind::gather, Kind::scatter,    Kind::all_to_all};
  for (OperationSpec& o : s.operations) {
    if (o.kind == Kind::barrier || random.chance(50)) continue;
    o.kind = random.one_of(kKinds);
    if (!has_blocks(o.kind)) continue;
    o.count = o.count / static_cast<uint64_t>(s.hosts) + 1;
    o.unequal = random.chance(40);
  }
}

// Returns whether the reduction is defined. In a pre-multiplied Reduce or ReduceScatter the engine
// sends from memory that it then frees, which the check of the data path does not allow for.
bool may_choose(const OperationSpec& o) {
  const bool frees = o.kind == Kind::reduce || o.kind == Kind::reduce_scatter;
  return supports(o.type, o.op) && !(frees && o.op == ReduceOp::premulsum);
}

// Gives half of the operations any type and reduction. An operation keeps its bytes, but for a rest
// of an element. The draw has its own random numbers, and old seeds have none.
void choose_types(ScenarioRandom random, Scenario& s) {
  if (s.seed <= kSeedsWithoutBlocks) return;
  for (OperationSpec& o : s.operations) {
    if (random.chance(50)) continue;
    const uint64_t bytes = o.count * size_of(o.type);
    o.type = random.one_of(kDataTypes);
    do {
      o.op = random.one_of(kReduceOps);
    } while (!may_choose(o));
    if (o.count > 0) o.count = std::max<uint64_t>(bytes / size_of(o.type), 1);
  }
}

// Every other run has plans for shared hosts. The draw has its own random numbers, as run_ahead.
void choose_plan_hosts(ScenarioRandom random, Scenario& s) {
  if (random.chance(50)) s.plan_host_ranks = random.between(2, s.hosts);
}

// Half of the runs have another hop, so that calls of the same bytes have all their algorithms.
void choose_plan_costs(ScenarioRandom random, Scenario& s) {
  if (s.seed <= kSeedsWithoutBlocks || random.chance(50)) return;
  s.plan_hop = static_cast<TimeNs>(random.log_uniform(kMicrosecond, 10 * kMillisecond));
}

// In most runs the links between a few hosts are open before the job begins, as in production. The
// others show that links may open amid operations and faults. The draw has its own random numbers.
void choose_data_at_start(ScenarioRandom random, Scenario& s) {
  s.data_at_start = !random.chance(40);
}

// Adds a run_ahead to a few runs only, because it takes as much processor time as all other
// operations of a run. It has its own random numbers, so runs without it are the same as before it
// existed.
void choose_run_ahead(ScenarioRandom random, Scenario& s) {
  if (!random.chance(8)) return;
  OperationSpec o;
  o.kind = OperationSpec::Kind::run_ahead;
  o.communicator = random.between(0, s.communicators - 1);
  o.type = random.chance(50) ? DataType::int32 : DataType::float64;
  o.root = random.between(0, s.hosts - 1);
  o.in_place = s.hosts <= 3 && random.chance(50);
  o.count = kCallsAhead;
  const int at = random.between(0, static_cast<int>(s.operations.size()));
  s.operations.insert(s.operations.begin() + at, o);
}

// Turns some operations into tagged messages, with random numbers as choose_blocks.
void choose_tagged(ScenarioRandom random, Scenario& s) {
  if (s.seed <= kSeedsWithoutBlocks) return;
  for (OperationSpec& o : s.operations) {
    const bool ahead = o.kind == Kind::run_ahead;
    if (o.kind == Kind::barrier || !random.chance(ahead ? 50 : 12)) continue;
    const bool divided = ahead || has_blocks(o.kind) || o.kind == Kind::send_to_all;
    if (!divided) o.count = o.count / static_cast<uint64_t>(s.hosts) + 1;
    o.kind = ahead ? Kind::tagged_ahead : Kind::tagged;
    o.in_place = o.unequal = false;
  }
}

FaultKind choose_fault(ScenarioRandom& random) {
  // Faults that break a path at once find the most defects.
  const int kind = random.between(0, 99);
  if (kind < 45) {
    static constexpr std::array kOften = {FaultKind::down,    FaultKind::pull,    FaultKind::hole,
                                          FaultKind::hole_tx, FaultKind::hole_rx, FaultKind::reset,
                                          FaultKind::cut};
    return random.one_of(kOften);
  }
  return static_cast<FaultKind>(random.between(0, static_cast<int>(FaultKind::suspend)));
}

uint64_t choose_amount(ScenarioRandom& random, FaultKind kind, const Scenario& s) {
  switch (kind) {
    case FaultKind::loss:
      return random.log_uniform(1'000, 100'000);
    case FaultKind::delay:
    case FaultKind::jitter:
      return random.log_uniform(100'000, 100'000'000);
    case FaultKind::slow:
      return s.rate_bytes_per_s / random.log_uniform(2, 100);
    case FaultKind::mtu_hole:
      return 1000;
    case FaultKind::flap:
      return random.log_uniform(2, 8);
    case FaultKind::failed_call:
      return random.log_uniform(1, 200);
    default:
      return 0;
  }
}

FaultSpec choose_one(ScenarioRandom& random, const Scenario& s, TimeNs span) {
  FaultSpec f;
  f.kind = choose_fault(random);
  f.at = random.time(span);
  f.when_busy = random.chance(80);
  f.duration = static_cast<TimeNs>(random.log_uniform(2'000'000, 3'000'000'000));
  if (f.kind == FaultKind::deschedule) f.duration = random.time(40 * kMillisecond);
  f.host = random.between(0, s.hosts - 1);
  f.nic = random.between(0, s.nics - 1);
  f.other_host = (f.host + random.between(1, s.hosts - 1)) % s.hosts;
  if (f.kind == FaultKind::partition) f.host = random.between(1, s.hosts - 1);
  f.amount = choose_amount(random, f.kind, s);
  return f;
}

// Returns about the time that the job takes without a fault.
TimeNs guess_duration(const Scenario& s) {
  TimeNs all = 0;
  for (const OperationSpec& o : s.operations) {
    const uint64_t bytes = o.count * size_of(o.type) * static_cast<uint64_t>(s.hosts);
    const uint64_t rate = s.rate_bytes_per_s * static_cast<uint64_t>(s.nics);
    all += s.think_max / 2 + 2 * s.hosts * (s.latency + s.wakeup_jitter / 2) +
           static_cast<TimeNs>(bytes * static_cast<uint64_t>(kSecond) / rate);
  }
  return all / (s.communicators * s.depth);
}

void choose_faults(ScenarioRandom& random, Scenario& s) {
  const TimeNs span = guess_duration(s);
  const int count = random.between(4, 8);
  for (int i = 0; i < count; ++i) s.faults.push_back(choose_one(random, s, span));
  if (!s.leave_early && random.chance(6)) {
    FaultSpec end = choose_one(random, s, span);
    end.kind = FaultKind::kill;
    s.faults.push_back(end);
  }
  std::ranges::stable_sort(s.faults, {}, &FaultSpec::at);
}

FaultKind choose_tampering(ScenarioRandom& random) {
  const int kind = random.between(0, 99);
  return kind < 60 ? FaultKind::flip : kind < 80 ? FaultKind::repeat : FaultKind::lost_chunk;
}

// Adds faults that change bytes. They have their own random numbers, so the other faults of a seed
// stay the same.
void add_tampering(Scenario& s) {
  if (s.seed % kTamperedSeeds != 0) return;
  ScenarioRandom random(~s.seed);
  const TimeNs span = guess_duration(s);
  const int count = random.between(1, 3);
  bool loses = false;
  for (int i = 0; i < count; ++i) {
    FaultSpec f;
    f.kind = choose_tampering(random);
    // Two may lose both copies of one chunk (seed 1005). The engine rightly calls that a bug.
    if (f.kind == FaultKind::lost_chunk && std::exchange(loses, true)) f.kind = FaultKind::flip;
    f.at = random.time(span);
    f.when_busy = random.chance(80);
    f.host = random.between(0, s.hosts - 1);
    f.nic = random.between(0, s.nics - 1);
    f.amount = random.log_uniform(1, 100'000) - 1;
    s.faults.push_back(f);
  }
  if (random.chance(25)) s.faults.emplace_back(s.faults.back()).kind = FaultKind::add;
  std::ranges::stable_sort(s.faults, {}, &FaultSpec::at);
}

// Adds actions of people, with their own random numbers, and only in seeds that were not in use
// before these actions existed.
void add_people(Scenario& s) {
  if (s.seed <= kSeedsWithoutPeople) return;
  ScenarioRandom random(s.seed + kPeopleSeeds);
  const TimeNs span = guess_duration(s);
  const auto add = [&](FaultKind kind) {
    FaultSpec f;
    f.kind = kind;
    f.at = random.time(span);
    f.host = random.between(0, s.hosts - 1);
    f.nic = random.between(0, s.nics - 1);
    if (kind == FaultKind::drain)
      f.duration = static_cast<TimeNs>(random.log_uniform(2'000'000, 1'000'000'000));
    s.faults.push_back(f);
  };
  if (random.chance(30)) add(FaultKind::status);
  if (random.chance(30)) add(FaultKind::drain);
  // A rank that leaves early does not learn of a later failure.
  if (!s.leave_early && random.chance(15)) add(FaultKind::abort);
  if (!s.leave_early && random.chance(15)) add(FaultKind::call_mismatch);
  std::ranges::stable_sort(s.faults, {}, &FaultSpec::at);
}

// Returns whether the fault may keep a NIC or a host out of reach.
bool cuts(FaultKind kind) {
  switch (kind) {
    case FaultKind::down:
    case FaultKind::pull:
    case FaultKind::hole:
    case FaultKind::hole_tx:
    case FaultKind::hole_rx:
    case FaultKind::mtu_hole:
    case FaultKind::flap:
    case FaultKind::all_nics:
    case FaultKind::dark:
    case FaultKind::rail:
    case FaultKind::partition:
    case FaultKind::sever:
    case FaultKind::readdress:
    case FaultKind::kill:
      return true;
    default:
      return false;
  }
}

// Each rail is lost at one of the two hosts, and each of them keeps one. A fault that would cut
// more off becomes a lost connection. So does a changed byte: its reader cannot excuse the NICs
// while its link to the localising rank has no path yet.
void lose_rails(ScenarioRandom random, Scenario& s) {
  if (s.seed <= kSeedsWithRails) return;
  static constexpr std::array kKinds = {FaultKind::down, FaultKind::pull, FaultKind::hole,
                                        FaultKind::hole_tx, FaultKind::hole_rx};
  s.cutoff = 10 * kSecond;
  for (FaultSpec& fault : s.faults) {
    if (cuts(fault.kind) || of_bytes(fault.kind))
      fault.kind = random.chance(50) ? FaultKind::reset : FaultKind::cut;
  }
  const TimeNs span = guess_duration(s);
  const int first = random.between(0, 1);
  for (int nic = 0; nic < s.nics; ++nic) {
    FaultSpec f;
    f.kind = random.one_of(kKinds);
    f.at = random.time(span / 2 + 1);
    f.duration = 2 * s.cutoff + random.time(s.cutoff);
    f.host = nic < 2 ? (first + nic) % 2 : random.between(0, 1);
    f.nic = nic;
    s.faults.push_back(f);
  }
  std::ranges::stable_sort(s.faults, {}, &FaultSpec::at);
}

}  // namespace

const char* to_string(OperationSpec::Kind kind) {
  return kOperationNames[static_cast<size_t>(kind)];
}

bool has_blocks(OperationSpec::Kind kind) {
  return kind > OperationSpec::Kind::reduce && kind < OperationSpec::Kind::tagged;
}

const char* to_string(FaultKind kind) {
  return kFaultNames[static_cast<size_t>(kind)];
}

bool of_a_nic(FaultKind kind) {
  switch (kind) {
    case FaultKind::all_nics:
    case FaultKind::dark:
    case FaultKind::control:
    case FaultKind::partition:
    case FaultKind::failed_call:
    case FaultKind::stop:
    case FaultKind::deschedule:
    case FaultKind::suspend:
    case FaultKind::kill:
    case FaultKind::abort:
    case FaultKind::call_mismatch:
    case FaultKind::status:
      return false;
    default:
      return true;
  }
}

bool of_bytes(FaultKind kind) {
  return kind == FaultKind::flip || kind == FaultKind::repeat || kind == FaultKind::lost_chunk;
}

bool of_people(FaultKind kind) {
  return kind >= FaultKind::abort;
}

bool needs_amount(FaultKind kind) {
  switch (kind) {
    case FaultKind::loss:
    case FaultKind::delay:
    case FaultKind::jitter:
    case FaultKind::slow:
    case FaultKind::mtu_hole:
    case FaultKind::flap:
    case FaultKind::failed_call:
      return true;
    default:
      return false;
  }
}

Scenario scenario_of(uint64_t seed) {
  ScenarioRandom random(seed);
  Scenario s;
  s.seed = seed;
  choose_cluster(random, s);
  if (seed > kSeedsWithRails) {
    s.hosts = std::max(s.hosts, 3);
    s.nics = std::max(s.nics, 2);
  }
  choose_operations(random, s);
  choose_blocks(ScenarioRandom(seed + kBlockSeeds), s);
  choose_types(ScenarioRandom(seed + kTypeSeeds), s);
  choose_faults(random, s);
  s.nics_write = random.chance(34);
  choose_plan_hosts(ScenarioRandom(seed + kPlanHostSeeds), s);
  choose_plan_costs(ScenarioRandom(seed + kPlanCostSeeds), s);
  choose_data_at_start(ScenarioRandom(seed + kDataAtStartSeeds), s);
  choose_run_ahead(ScenarioRandom(seed + kRunAheadSeeds), s);
  choose_tagged(ScenarioRandom(seed + kTaggedSeeds), s);
  add_tampering(s);
  add_people(s);
  lose_rails(ScenarioRandom(seed + kRailSeeds), s);
  return s;
}

TimeNs Scenario::longest(FaultKind kind) const {
  TimeNs longest = 0;
  for (const FaultSpec& fault : faults) {
    if (fault.kind == kind) longest = std::max(longest, fault.duration);
  }
  return longest;
}

std::vector<uint32_t> Scenario::plan_hosts() const {
  std::vector<uint32_t> host_of;
  for (int rank = 0; rank < hosts; ++rank) {
    host_of.push_back(static_cast<uint32_t>(rank / plan_host_ranks));
  }
  return host_of;
}

PlanCosts Scenario::plan_costs() const {
  PlanCosts costs;
  if (plan_hop > 0) {
    for (DomainCosts* each : {&costs.memory, &costs.network}) {
      each->hop_ns = each->leader_hop_ns = static_cast<uint64_t>(plan_hop);
    }
  }
  if (plan_bytes_per_s == 0) return costs;
  constexpr uint64_t kPsInSecond = 1'000'000'000'000;
  DomainCosts& network = costs.network;
  network.kib_ps = network.fan_kib_ps = network.leader_kib_ps =
      1024 * kPsInSecond / plan_bytes_per_s;
  network.message_ns = network.leader_message_ns = 0;  // simulated processors take no time
  return bounded(costs);
}

}  // namespace r2ccl::sim
