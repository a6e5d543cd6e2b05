#include "sim/cluster/fault_script.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/rank_status.h"

namespace r2ccl::sim {
namespace {

constexpr TimeNs kTrafficLook = 20 * kMicrosecond;
// A rank may notice the effect of a fault this long after its end, because the path is idle or its
// timers are slow.
constexpr TimeNs kAftermath = 4 * kSecond;

bool ends_at_once(FaultKind kind) {
  return kind == FaultKind::reset || kind == FaultKind::cut || kind == FaultKind::add ||
         kind == FaultKind::failed_call || kind == FaultKind::kill || of_bytes(kind) ||
         (of_people(kind) && kind != FaultKind::drain);
}

bool of_process(FaultKind kind) {
  return kind == FaultKind::stop || kind == FaultKind::deschedule || kind == FaultKind::suspend;
}

// Returns whether the fault affects that data NIC.
bool hits(const FaultSpec& spec, int host, int nic) {
  switch (spec.kind) {
    case FaultKind::all_nics:
    case FaultKind::dark:
    case FaultKind::suspend:
    case FaultKind::failed_call:
    case FaultKind::kill:
      return spec.host == host;
    case FaultKind::rail:
      return spec.nic == nic;
    case FaultKind::partition:
      return true;
    case FaultKind::sever:
      return spec.nic == nic && (spec.host == host || spec.other_host == host);
    case FaultKind::control:
    case FaultKind::stop:
    case FaultKind::deschedule:
    case FaultKind::abort:
    case FaultKind::call_mismatch:
    case FaultKind::status:
      return false;
    default:
      return spec.host == host && spec.nic == nic;
  }
}

void add(NicFaults& sum, const FaultSpec& spec) {
  switch (spec.kind) {
    case FaultKind::down:
    case FaultKind::readdress:
      sum.admin_down = true;
      break;
    case FaultKind::pull:
    case FaultKind::flap:
    case FaultKind::all_nics:
      sum.pulled = true;
      break;
    case FaultKind::hole:
    case FaultKind::rail:
    case FaultKind::dark:
    case FaultKind::suspend:
      sum.hole_tx = true;
      sum.hole_rx = true;
      break;
    case FaultKind::hole_tx:
      sum.hole_tx = true;
      break;
    case FaultKind::hole_rx:
      sum.hole_rx = true;
      break;
    case FaultKind::loss:
      sum.loss_ppm = std::max(sum.loss_ppm, static_cast<uint32_t>(spec.amount));
      break;
    case FaultKind::delay:
      sum.delay_ns += static_cast<TimeNs>(spec.amount);
      break;
    case FaultKind::jitter:
      sum.jitter_ns += static_cast<TimeNs>(spec.amount);
      break;
    case FaultKind::slow:
      sum.rate_bytes_per_s =
          sum.rate_bytes_per_s == 0 ? spec.amount : std::min(sum.rate_bytes_per_s, spec.amount);
      break;
    case FaultKind::mtu_hole:
      sum.frame_bytes_max = static_cast<uint32_t>(spec.amount);
      break;
    default:
      break;
  }
}

}  // namespace

FaultScript::FaultScript(Cluster& cluster, const Scenario& scenario,
                         std::function<void(const std::string&)> note,
                         std::function<void()> ends_job)
    : cluster_(cluster),
      hosts_(scenario.hosts),
      nics_(scenario.nics),
      note_(std::move(note)),
      ends_job_(std::move(ends_job)),
      random_(scenario.seed + 1313),
      wire_random_(scenario.seed + 4242) {
  for (const FaultSpec& spec : scenario.faults) faults_.push_back({spec});
  killed_.resize(static_cast<size_t>(hosts_));
  aborted_.resize(static_cast<size_t>(hosts_));
  stopped_.resize(static_cast<size_t>(hosts_));
  moved_.resize(static_cast<size_t>(hosts_));
}

void FaultScript::kill(int rank) {
  killed_[static_cast<size_t>(rank)] = true;
  cluster_.world().kill(*cluster_.node(rank).host);
}

void FaultScript::start() {
  const TimeNs begins = cluster_.now();
  for (size_t i = 0; i < faults_.size(); ++i) {
    const TimeNs at = begins + faults_[i].spec.at;
    cluster_.fabric().at(at, [this, i, at] {
      faults_[i].spec.when_busy ? wait_for_traffic(i, at + kBusyWait) : begin(i);
    });
  }
}

void FaultScript::wait_for_traffic(size_t index, TimeNs until) {
  const FaultSpec& spec = faults_[index].spec;
  if (cluster_.now() >= until || carries_chunks(spec.host, spec.nic)) return begin(index);
  cluster_.fabric().at(cluster_.now() + kTrafficLook,
                       [this, index, until] { wait_for_traffic(index, until); });
}

// Returns null when the rank has left.
ProgressEngine* FaultScript::engine_of(int rank) {
  SimRank& node = cluster_.node(rank);
  return node.left() ? nullptr : &node.engine();
}

bool FaultScript::carries_chunks(int host, int nic) {
  for (int rank = 0; rank < hosts_; ++rank) {
    ProgressEngine* engine = engine_of(rank);
    for (int peer = 0; engine != nullptr && peer < hosts_; ++peer) {
      const Link* link = engine->link(Rank(peer));
      if (link == nullptr || (rank != host && peer != host)) continue;
      for (const auto& path : link->paths()) {
        if (path->spec.control_only) continue;
        const NicId end = rank == host ? path->spec.local_nic : path->spec.remote_nic;
        if (end != NicId(static_cast<uint16_t>(nic))) continue;
        const bool sending = cluster_.nic(rank, path->spec.local_nic.value()).egress_busy;
        if (sending && path->model.bytes_outstanding() > 0) return true;
      }
    }
  }
  return false;
}

void FaultScript::begin(size_t index) {
  Active& fault = faults_[index];
  fault.began_at = cluster_.now();
  note_("fault: " + describe(fault.spec));
  open_trouble(index);
  if (fault.spec.kind == FaultKind::flap) {
    flap(index, fault.spec.amount);
  } else {
    apply(fault, true);
  }
  if (ends_at_once(fault.spec.kind)) return end(index);
  cluster_.fabric().at(cluster_.now() + fault.spec.duration, [this, index] { end(index); });
}

void FaultScript::end(size_t index) {
  Active& fault = faults_[index];
  fault.ended_at = cluster_.now();
  if (!ends_at_once(fault.spec.kind)) {
    note_(std::string("mended: ") + to_string(fault.spec.kind) + " h" +
          std::to_string(fault.spec.host) + " nic" + std::to_string(fault.spec.nic));
    apply(fault, false);
  }
  close_trouble(index);
  ++over_;
  ended_at_ = cluster_.now();
}

// Pulls the cable for half of each turn.
void FaultScript::flap(size_t index, uint64_t left) {
  Active& fault = faults_[index];
  if (fault.ended_at != kNever || left == 0) return;
  const TimeNs half = fault.spec.duration / static_cast<TimeNs>(2 * fault.spec.amount);
  apply(fault, true);
  cluster_.fabric().at(cluster_.now() + half, [this, index] {
    if (faults_[index].ended_at == kNever) apply(faults_[index], false);
  });
  cluster_.fabric().at(cluster_.now() + 2 * half, [this, index, left] { flap(index, left - 1); });
}

void FaultScript::apply(Active& fault, bool on) {
  fault.in_force = on;
  const FaultSpec& spec = fault.spec;
  if (of_process(spec.kind)) set_process(spec, on);
  switch (spec.kind) {
    case FaultKind::reset:
    case FaultKind::cut:
      return break_connection(fault);
    case FaultKind::flip:
    case FaultKind::repeat:
    case FaultKind::add:
      return tamper(fault);
    case FaultKind::lost_chunk:
      return lose_chunk(fault);
    case FaultKind::failed_call:
      return cluster_.node(spec.host).host->fail_operation(spec.amount, EIO);
    case FaultKind::abort:
      return abort(spec.host);
    case FaultKind::call_mismatch:
      cluster_.node(spec.host).other_call = true;
      return;
    case FaultKind::drain:
      return drain(spec, on);
    case FaultKind::status:
      return ask(spec.host, "");
    case FaultKind::kill:
      if (ends_job_) ends_job_();
      return kill(spec.host);
    case FaultKind::partition:
    case FaultKind::sever:
      return refresh_severed();
    case FaultKind::readdress:
      if (!on && may_move(spec.host)) readdress(spec);
      break;
    default:
      break;
  }
  for (int host = 0; host < hosts_; ++host) refresh(host);
}

void FaultScript::abort(int rank) {
  SimRank& node = cluster_.node(rank);
  if (node.left() || node.failed() || killed(rank)) return;
  if (ends_job_) ends_job_();
  aborted_[static_cast<size_t>(rank)] = true;
  node.abort("its caller gave up");
}

bool FaultScript::any_aborted() const {
  return std::ranges::find(aborted_, true) != aborted_.end();
}

void FaultScript::drain(const FaultSpec& spec, bool on) {
  ask(spec.host, std::string("drain ") + (on ? "start" : "undo") + " nic" +
                     std::to_string(spec.nic) + " h" + std::to_string(spec.host) + "\n");
}

// Queues the question of an operator. As the rank's status server does, the rank asks for the
// answer in every turn.
void FaultScript::ask(int rank, std::string line) {
  SimRank& node = cluster_.node(rank);
  if (node.left() || killed(rank)) return;
  questions_.push_back({rank, ++operators_, std::move(line)});
  node.in_turn = [this, rank] { answer(rank); };
  node.wake();
}

// Answers one question at a time, because an operator waits for an answer before the next question.
void FaultScript::answer(int rank) {
  const auto first =
      std::ranges::find_if(questions_, [rank](const Question& each) { return each.rank == rank; });
  if (first == questions_.end()) return;
  RankStatus& status = cluster_.node(rank).runtime->status();
  const auto answered =
      first->line.empty() ? status.job_status() : status.drain_status(first->number, first->line);
  if (!answered) return;
  note_("rank " + std::to_string(rank) + " answers an operator");
  questions_.erase(first);
  cluster_.node(rank).wake();  // for its next question: a rank that is idle has no further turn
}

size_t FaultScript::unanswered() const {
  return static_cast<size_t>(std::ranges::count_if(questions_, [this](const Question& each) {
    return !killed(each.rank) && !cluster_.node(each.rank).left();
  }));
}

void FaultScript::set_process(const FaultSpec& spec, bool on) {
  int& holders = stopped_[static_cast<size_t>(spec.host)];
  holders += on ? 1 : -1;
  if (killed_[static_cast<size_t>(spec.host)]) return;
  const ActorId actor = cluster_.node(spec.host).actor;
  if (on && holders == 1) cluster_.world().stop(actor);
  if (!on && holders == 0) cluster_.world().resume(actor);
}

NicFaults FaultScript::combined(int host, int nic) const {
  NicFaults sum;
  for (const Active& fault : faults_) {
    if (fault.in_force && hits(fault.spec, host, nic)) add(sum, fault.spec);
  }
  return sum;
}

NicFaults FaultScript::management_faults(int host) const {
  NicFaults sum;
  for (const Active& fault : faults_) {
    const bool whole =
        fault.spec.kind == FaultKind::control || fault.spec.kind == FaultKind::suspend;
    if (!fault.in_force || !whole || fault.spec.host != host) continue;
    sum.hole_tx = true;
    sum.hole_rx = true;
  }
  return sum;
}

void FaultScript::refresh(int host) {
  Fabric& fabric = cluster_.fabric();
  for (int nic = 0; nic < nics_; ++nic) {
    const NicFaults wanted = combined(host, nic);
    SimNic& target = cluster_.nic(host, nic);
    if (target.faults != wanted) fabric.set_faults(target, wanted);
  }
  SimNic* management = cluster_.node(host).management;
  if (management == nullptr) return;
  const NicFaults wanted = management_faults(host);
  if (management->faults != wanted) fabric.set_faults(*management, wanted);
}

void FaultScript::refresh_severed() {
  Fabric& fabric = cluster_.fabric();
  fabric.heal_partition();
  for (const Active& fault : faults_) {
    const FaultSpec& spec = fault.spec;
    if (!fault.in_force) continue;
    if (spec.kind == FaultKind::sever) {
      fabric.sever(cluster_.nic(spec.host, spec.nic), cluster_.nic(spec.other_host, spec.nic));
    }
    if (spec.kind != FaultKind::partition) continue;
    std::vector<SimHost*> some;
    for (int host = 0; host < spec.host; ++host) some.push_back(cluster_.node(host).host);
    fabric.partition(some);
  }
}

std::vector<FlowInfo> FaultScript::connections(const FaultSpec& spec) {
  const SimNic& nic = cluster_.nic(spec.host, spec.nic);
  std::vector<FlowInfo> all;
  for (const FlowInfo& flow : cluster_.fabric().flows()) {
    if (flow.established && (flow.from == &nic || flow.to == &nic)) all.push_back(flow);
  }
  return all;
}

void FaultScript::add_other_end(const Active& fault, const FlowInfo& flow) {
  const FaultSpec& spec = fault.spec;
  const SimNic& nic = cluster_.nic(spec.host, spec.nic);
  const SimNic* other = flow.from == &nic ? flow.to : flow.from;
  for (int host = 0; host < hosts_; ++host) {
    if (&cluster_.nic(host, spec.nic) != other) continue;
    const auto index = static_cast<size_t>(&fault - faults_.data());
    troubles_.push_back({index, host, spec.nic, cluster_.now(), kNever});
  }
}

// Breaks one connection of the NIC. Neither end can tell which end is faulty, so both have trouble.
void FaultScript::break_connection(const Active& fault) {
  const FaultSpec& spec = fault.spec;
  const std::vector<FlowInfo> candidates = connections(spec);
  if (candidates.empty()) return;
  const FlowInfo& flow = candidates[random_.below(candidates.size())];
  add_other_end(fault, flow);
  if (spec.kind == FaultKind::reset) return cluster_.fabric().reset_flow(flow.id);
  const int side = static_cast<int>(random_.below(2));
  const uint64_t delivered = side == 0 ? flow.delivered_from : flow.delivered_to;
  cluster_.fabric().cut_flow(flow.id, side, delivered + random_.below(64 * 1024), CutKind::silent);
}

void FaultScript::tamper(const Active& fault) {
  const std::vector<FlowInfo> candidates = connections(fault.spec);
  if (candidates.empty()) return;
  const FlowInfo& flow = candidates[wire_random_.below(candidates.size())];
  add_other_end(fault, flow);
  Tamper tamper;
  if (fault.spec.kind == FaultKind::repeat) tamper.kind = Tamper::Kind::repeat;
  if (fault.spec.kind == FaultKind::add) tamper.kind = Tamper::Kind::add;
  tamper.bit = fault.spec.amount;
  cluster_.fabric().tamper(flow.id, static_cast<int>(wire_random_.below(2)), tamper);
}

// Changes a chunk into a probe as faulty memory of the sender would, so the tag fits the changed
// header.
void FaultScript::lose_chunk(const Active& fault) {
  const FaultSpec& spec = fault.spec;
  Tamper tamper{.kind = Tamper::Kind::rewrite, .control = false};
  tamper.rewrite = [this, rank = spec.host](std::span<std::byte, kDataHeaderBytes> header) {
    constexpr size_t kTypeAt = 5;
    const HeaderTag* tag = tag_of(rank, header);
    if (tag == nullptr || header[kTypeAt] != static_cast<std::byte>(FrameType::chunk)) return false;
    header[kTypeAt] = static_cast<std::byte>(FrameType::probe);
    tag->seal(header);
    return true;
  };
  const SimNic& nic = cluster_.nic(spec.host, spec.nic);
  for (const FlowInfo& flow : connections(spec)) {
    add_other_end(fault, flow);
    cluster_.fabric().tamper(flow.id, flow.from == &nic ? 0 : 1, tamper);
  }
}

// Returns the tag with which the rank has just sealed this header, or null.
const HeaderTag* FaultScript::tag_of(int rank,
                                     std::span<const std::byte, kDataHeaderBytes> header) {
  ProgressEngine* engine = engine_of(rank);
  for (int peer = 0; engine != nullptr && peer < hosts_; ++peer) {
    const Link* link = engine->link(Rank(peer));
    if (link == nullptr) continue;
    for (const auto& path : link->paths()) {
      const HeaderTag* tag = path->sent_tag();
      if (tag != nullptr && tag->fits(header)) return tag;
    }
  }
  return nullptr;
}

// Returns whether the host may get another address. Both ends of a link without a path must not
// move, because neither end would find the other. The host of a dead rank must not move either,
// because a rank that has not heard of the death pings the old address.
bool FaultScript::may_move(int host) {
  if (killed_[static_cast<size_t>(host)]) return false;
  const auto reaches = [this](int from, int to) {
    ProgressEngine* engine = engine_of(from);
    if (engine == nullptr) return true;  // the rank has left
    return std::ranges::any_of(engine->link(Rank(to))->paths(),
                               [](const auto& path) { return path->state.usable(); });
  };
  for (int other = 0; other < hosts_; ++other) {
    if (other == host || !moved_[static_cast<size_t>(other)]) continue;
    if (!reaches(host, other) || !reaches(other, host)) return false;
  }
  return true;
}

void FaultScript::readdress(const FaultSpec& spec) {
  moved_[static_cast<size_t>(spec.host)] = true;
  SimNic& nic = cluster_.nic(spec.host, spec.nic);
  Address address = nic.addresses.front();
  // The fabric uses the lower two bits of the third octet. The upper bits count the changes.
  address.bytes[2] = static_cast<uint8_t>((address.bytes[2] & 3) | (next_address_++ << 2));
  cluster_.fabric().set_addresses(nic, {address});
}

void FaultScript::open_trouble(size_t fault) {
  for (int host = 0; host < hosts_; ++host) {
    for (int nic = 0; nic < nics_; ++nic) {
      if (!hits(faults_[fault].spec, host, nic)) continue;
      troubles_.push_back({fault, host, nic, cluster_.now(), kNever});
    }
  }
}

void FaultScript::close_trouble(size_t fault) {
  const FaultKind kind = faults_[fault].spec.kind;
  const bool noticed_whenever = kind == FaultKind::cut || kind == FaultKind::add ||
                                kind == FaultKind::failed_call || of_bytes(kind);
  if (noticed_whenever) return;
  for (Trouble& trouble : troubles_) {
    if (trouble.fault == fault) trouble.to = cluster_.now() + kAftermath;
  }
}

std::vector<FaultScript::Span> FaultScript::spans() const {
  std::vector<Span> all;
  for (const Active& fault : faults_) all.push_back({fault.spec, fault.began_at, fault.ended_at});
  return all;
}

bool FaultScript::swallows_full_frames(int host, int nic, TimeNs at, TimeNs for_so_long) const {
  return std::ranges::any_of(troubles_, [&](const Trouble& trouble) {
    const bool this_one = trouble.host == host && trouble.nic == nic &&
                          faults_[trouble.fault].spec.kind == FaultKind::mtu_hole;
    const TimeNs ended = trouble.to == kNever ? kNever : trouble.to - kAftermath;
    return this_one && trouble.from <= at - for_so_long && at <= ended;
  });
}

}  // namespace r2ccl::sim
