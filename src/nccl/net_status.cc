#include "nccl/net_status.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/log.h"
#include "runtime/admin/link_health.h"
#include "runtime/admin/link_totals.h"
#include "runtime/admin/status_path.h"
#include "runtime/admin/status_socket.h"
#include "runtime/admin/summary_fields.h"
#include "schema/nic.h"

namespace r2ccl::nccl {
namespace {

constexpr size_t kFaultsTold = 10;
constexpr size_t kTroublesMax = 64;

std::string name_in(const std::vector<NicInfo>& nics, NicId nic) {
  if (nic == kNoNic) return "lo";
  if (nic == kShmNic) return "shm";
  return nic.value() < nics.size() ? nics[nic.value()].name : "?";
}

void add_line(RankSummary::Line& sum, const RankSummary::Line& line) {
  sum.sent += line.sent;
  sum.received += line.received;
  sum.paths_up += line.paths_up;
  sum.paths_suspect += line.paths_suspect;
  sum.paths_validating += line.paths_validating;
  sum.paths_down += line.paths_down;
  sum.paths_drained += line.paths_drained;
  sum.loss_ppm = std::max(sum.loss_ppm, line.loss_ppm);
  if (line.delay_us > 0 && (sum.delay_us == 0 || line.delay_us < sum.delay_us)) {
    sum.delay_us = line.delay_us;
  }
}

RankSummary summary_of(Peer& peer, int32_t number, TimeNs now) {
  LinkTotals totals(peer.job().engine().nics());
  totals.add(Rank(number), link_of(peer), peer.started_at(), now);
  RankSummary summary;
  totals.put_into(summary);
  return summary;
}

// Adds a link to all links of the process: links number their NICs each for itself.
void add(RankSummary& all, Peer& peer, RankSummary one) {
  const auto& own = peer.job().engine().own_info().nics;
  const auto& theirs = their_info(peer).nics;
  for (RankSummary::Line& line : one.nics) {
    line.name = name_in(own, line.nic);
    const auto known = std::ranges::find(all.nics, line.name, &RankSummary::Line::name);
    if (known == all.nics.end()) {
      all.nics.push_back(line);
    } else {
      add_line(*known, line);
    }
  }
  for (RankSummary::Trouble& trouble : one.troubles) {
    trouble.nic_name = name_in(own, trouble.nic);
    trouble.peer_nic_name = name_in(theirs, trouble.peer_nic);
    all.troubles.push_back(trouble);
  }
  all.hedged += one.hedged;
  all.retransmitted += one.retransmitted;
  all.corruptions += one.corruptions;
}

// Returns an empty line for a NIC that no link uses.
RankSummary::Line line_of(const RankSummary& all, const std::string& nic) {
  const auto known = std::ranges::find(all.nics, nic, &RankSummary::Line::name);
  return known == all.nics.end() ? RankSummary::Line() : *known;
}

bool is_no_nic(NicId nic) {
  return nic == kNoNic || nic == kShmNic;
}

int32_t number_of(size_t place) {
  return static_cast<int32_t>(place) + 1;
}

// Returns the sums over all links. The paths that are down come first.
RankSummary sum_up(const std::vector<Peer*>& peers, TimeNs now) {
  RankSummary all;
  for (size_t i = 0; i < peers.size(); ++i) {
    add(all, *peers[i], summary_of(*peers[i], number_of(i), now));
  }
  std::ranges::stable_sort(all.troubles, {}, [](const RankSummary::Trouble& trouble) {
    return trouble.phase != PathPhase::down;
  });
  const size_t shown = std::min(all.troubles.size(), kTroublesMax);
  all.troubles_left_out = static_cast<uint32_t>(all.troubles.size() - shown);
  all.troubles.resize(shown);
  return all;
}

// Returns whether all data paths that the verdict is on are up.
bool is_over(const Link& link, const std::string& nic, const std::string& peer_nic,
             const RankInfo& theirs) {
  return std::ranges::all_of(link.paths(), [&](const Path* path) {
    if (path->spec.control_only || path->spec.relay) return true;
    const bool concerned = (nic.empty() || path->spec.local_name == nic) &&
                           (peer_nic.empty() || peer_nic_of(theirs, *path) == peer_nic);
    return !concerned || path->state.phase() == PathPhase::up;
  });
}

// A want of memory here must not end the links.
template <typename Work>
void without_memory_go_on(const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    R2CCL_LOG(warn, "out of memory: a fault of the network is not told");
  }
}

}  // namespace

NetStatus::NetStatus(NetIdentity identity, ProcessEngine& engine, DrainRegistry& drains,
                     std::vector<std::string> nics, std::function<std::vector<Peer*>()> peers)
    : identity_(std::move(identity)),
      engine_(engine),
      nics_(std::move(nics)),
      peers_(std::move(peers)),
      started_at_(engine.clock().now()),
      faults_(identity_.info.host_name, [this](const std::string& nic) { return reach(nic); }),
      drains_(identity_.info, nics_, drains, engine.clock()),
      reactor_(engine.reactor(), static_cast<HandlerOwner&>(*this)) {}

Rank NetStatus::self() const {
  return identity_.rank ? identity_.rank->rank : kNoRank;
}

void NetStatus::open(const std::string& runtime_dir) {
  const StatusName name{identity_.info.pid, identity_.id, self()};
  auto socket = StatusSocket::open(status_directory(runtime_dir, geteuid()), name);
  server_.emplace(static_cast<StatusSource&>(*this), reactor_, engine_.clock());
  const Status opened = socket.ok() ? server_->open(std::move(socket).value()) : socket.status();
  if (opened.ok()) return;
  server_.reset();
  R2CCL_LOG(warn,
            "`r2ccl status` will not find this process, which runs on: %s; R2CCL_STATUS=0 says not "
            "to try",
            opened.message().c_str());
}

void NetStatus::progress(TimeNs now) {
  drains_.progress(now);
  if (server_) server_->progress(now);
  without_memory_go_on([&] {
    for (const Fault& fault : faults_.progress(now)) {
      R2CCL_LOG(warn, "%s", (fault.repaired_at ? repair_text(fault) : fault_text(fault)).c_str());
    }
  });
}

TimeNs NetStatus::next_timeout() const {
  const TimeNs served = server_ ? server_->next_timeout() : kNever;
  return std::min({served, drains_.next_timeout(), faults_.next_timeout()});
}

// Hosts with the same name have longer names in a link's table.
std::string NetStatus::host_of(Peer& peer) const {
  return within_host(peer) ? identity_.info.host_name : their_info(peer).host_name;
}

// For readers: by host and process.
std::vector<Peer*> NetStatus::sorted_peers() const {
  std::vector<Peer*> peers = peers_();
  std::ranges::stable_sort(
      peers, {}, [this](Peer* peer) { return std::pair(host_of(*peer), their_info(*peer).pid); });
  return peers;
}

NicReach NetStatus::reach(const std::string& nic) const {
  NicReach reach;
  std::set<std::string> hosts;
  for (Peer* peer : peers_()) {
    const Link& link = link_of(*peer);
    if (within_host(*peer) || link.peer_ended() || link.peer_said_goodbye()) continue;
    for (const Path* path : link.paths()) {
      const PathSpec& spec = path->spec;
      const bool concerned = spec.local_nic != kNoNic && !spec.control_only && !spec.relay &&
                             (nic.empty() || spec.local_name == nic) && !path->at_rest();
      if (!concerned) continue;
      hosts.insert(host_of(*peer));
      reach.connected = reach.connected || path->state.phase() != PathPhase::down;
    }
  }
  reach.hosts = hosts.size();
  return reach;
}

// Paths that carry nothing would notice the fault late.
void NetStatus::ping(const std::string& nic, const Peer& but_for) const {
  for (Peer* peer : peers_()) {
    const ProgressEngine& engine = peer->job().engine();
    if (peer == &but_for || within_host(*peer) || engine.halted()) continue;
    const auto local = engine.own_nic(engine.self(), nic);
    if (local && !link_of(*peer).peer_ended()) (void)link_of(*peer).ping(*local);
  }
}

void NetStatus::hear(Peer& peer, const Verdict& verdict) {
  const JobMap& job = peer.job().engine().job();
  const uint32_t own = job.host_of(job.self());
  LinkVerdict heard;
  heard.link = peer.link_number();
  heard.peer_host = host_of(peer);
  VerdictInfo& info = heard.verdict = verdict_info(job, verdict);
  info.rank = info.process = kNoRank;
  if (verdict.faulty.host == own) info.host = identity_.info.host_name;
  const bool pair = verdict.scope == Scope::pair;
  if (pair && verdict.other.host == own) info.peer_host = identity_.info.host_name;
  if (verdict.scope == Scope::process) heard.process = job.info(verdict.process).pid;
  const bool own_first = verdict.faulty.host == own;
  const std::string& first = info.nic;
  const std::string second = pair ? info.peer_nic : "";
  const std::string& nic = own_first ? first : second;
  heard.over = is_over(link_of(peer), nic, own_first ? second : first, their_info(peer));
  faults_.on_verdict(heard, engine_.clock().now());
  if (pair && !nic.empty()) ping(nic, peer);
}

void NetStatus::on_verdict(Peer& peer, const Verdict& verdict) {
  without_memory_go_on([&] { hear(peer, verdict); });
}

void NetStatus::on_path_up(Peer& peer, const PathEvent& event) {
  const Path* path = link_of(peer).find_path(event.path);
  if (path == nullptr) return;
  faults_.on_path_up(peer.link_number(), path->spec.local_name,
                     peer_nic_of(their_info(peer), *path));
}

void NetStatus::write_identity(JsonWriter& out, const std::vector<Peer*>& peers) const {
  const RankInfo& info = identity_.info;
  out.field("comm", comm_text(identity_.id)).field("kind", "nccl").field("name", "");
  if (identity_.rank) {
    out.field("rank", identity_.rank->rank.value()).field("ranks", identity_.rank->rank_count);
  } else {
    out.key("rank").json("null").key("ranks").json("null");
  }
  out.field("pid", uint64_t{info.pid}).field("host", info.host_name);
  std::vector<std::string> hosts = {info.host_name};
  for (Peer* peer : peers) {
    const std::string host = host_of(*peer);
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  out.key("hosts").begin_array();
  for (const std::string& host : hosts) out.value(host);
  const TimeNs uptime = engine_.clock().now() - started_at_;
  out.end_array()
      .field("version", version_text(info.library_version))
      .field("uptime_ms", static_cast<uint64_t>(uptime / kMillisecond))
      .field("authenticated", identity_.authenticated)
      .field("error", "");
}

// Links know their NICs, but there may be no link.
std::vector<Nic> NetStatus::own_nics() const {
  const auto all = engine_.transport().nics();
  std::vector<Nic> own;
  for (const Nic& nic : all.ok() ? all.value() : std::vector<Nic>()) {
    if (std::ranges::find(nics_, nic.name) != nics_.end()) own.push_back(nic);
  }
  return own;
}

void NetStatus::write_links(JsonWriter& out, const std::vector<Peer*>& peers) const {
  const TimeNs now = engine_.clock().now();
  out.key("links").begin_array();
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer& peer = *peers[i];
    RankSummary::Line sum;
    for (const RankSummary::Line& line : summary_of(peer, number_of(i), now).nics) {
      add_line(sum, line);
    }
    out.begin_object()
        .field("peer", number_of(i))
        .field("link", comm_text(peer.link_number()))
        .field("host", host_of(peer))
        .field("pid", uint64_t{their_info(peer).pid})
        .field("connections", uint64_t{peer.connections()})
        .field("usable", peer.usable())
        .field("paths_up", uint64_t{sum.paths_up})
        .field("paths_suspect", uint64_t{sum.paths_suspect})
        .field("paths_proving", uint64_t{sum.paths_validating})
        .field("paths_down", uint64_t{sum.paths_down})
        .field("paths_drained", uint64_t{sum.paths_drained})
        .field("verdicts", uint64_t{peer.job().fault_reporter().verdicts().size()})
        .field("tx_bytes", sum.sent)
        .field("rx_bytes", sum.received)
        .end_object();
  }
  out.end_array();
}

void NetStatus::write_faults(JsonWriter& out, size_t count_max) const {
  const auto& faults = faults_.faults();
  const Clock& clock = engine_.clock();
  out.key("verdicts").begin_array();
  for (size_t i = faults.size() - std::min(faults.size(), count_max); i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    out.begin_object();
    schema::write_fields(out, fault.verdict, schema::kVerdictFields);
    out.field("missed_by", uint64_t{fault.missed_by}).key("pid");
    if (fault.verdict.scope == Scope::process) {
      out.value(uint64_t{fault.process});
    } else {
      out.json("null");
    }
    out.field("repaired_at",
              fault.repaired_at
                  ? schema::utc_text(clock.wall() - (clock.now() - *fault.repaired_at))
                  : std::string());
    out.end_object();
  }
  out.end_array();
}

std::optional<std::string> NetStatus::job_status() {
  const std::vector<Peer*> peers = sorted_peers();
  const RankSummary totals = sum_up(peers, engine_.clock().now());
  const TimeNs uptime = engine_.clock().now() - started_at_;
  JsonWriter out;
  out.begin_object();
  write_identity(out, peers);
  out.key("members").begin_array().begin_object().key("rank");
  if (identity_.rank) {
    out.value(identity_.rank->rank.value());
  } else {
    out.json("null");
  }
  out.field("host", identity_.info.host_name)
      .field("pid", uint64_t{identity_.info.pid})
      .field("presence", to_string(Reachability::answered))
      .field("uptime_ms", static_cast<uint64_t>(uptime / kMillisecond))
      .field("mirrored_bytes", totals.hedged)
      .field("replayed_bytes", totals.retransmitted)
      .field("verdicts", faults_.count())
      .field("corruptions", uint64_t{totals.corruptions})
      .field("log_lines_dropped", log_lines_dropped())
      .field("error", "");
  std::vector<RankSummary::Line> lines;
  for (const Nic& nic : own_nics()) {
    RankSummary::Line& line = lines.emplace_back(line_of(totals, nic.name));
    line.name = nic.name;
    line.up = nic.alive();
    line.drained = line.drained || drains_.drained(nic.name);
  }
  std::ranges::copy_if(totals.nics, std::back_inserter(lines), is_no_nic, &RankSummary::Line::nic);
  schema::write_list(out, "nics", lines, schema::kLineFields);
  schema::write_list(out, "troubles", totals.troubles, schema::kTroubleFields);
  out.field("troubles_left_out", uint64_t{totals.troubles_left_out});
  out.end_object().end_array();
  write_links(out, peers);
  out.field("verdict_count", faults_.count());
  write_faults(out, kFaultsTold);
  out.end_object();
  return out.text();
}

std::string NetStatus::status_report() {
  const std::vector<Peer*> peers = sorted_peers();
  const Clock& clock = engine_.clock();
  const RankSummary totals = sum_up(peers, clock.now());
  JsonWriter out;
  out.begin_object();
  write_identity(out, peers);
  std::vector<ShownNic> nics;
  for (const Nic& nic : own_nics()) {
    const RankSummary::Line line = line_of(totals, nic.name);
    nics.push_back({nic.name, nic.alive(), line.drained || drains_.drained(nic.name), nic.mtu,
                    nic.speed_mbps, line.sent, line.received});
  }
  schema::write_list(out, "nics", nics, schema::kNicFields);
  out.key("paths").begin_array();
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer& peer = *peers[i];
    const RankInfo& theirs = their_info(peer);
    const TimeNs shortest = shortest_one_way(link_of(peer));
    for (const Path* path : link_of(peer).paths()) {
      PathInfo info = path_info(theirs, link_of(peer), *path, shortest, peer.started_at(), clock);
      info.peer = Rank(number_of(i));
      out.begin_object();
      schema::write_fields(out, info, schema::kPathFields);
      out.field("peer_host", host_of(peer)).field("peer_pid", uint64_t{theirs.pid}).end_object();
    }
  }
  out.end_array()
      .field("mirrored_bytes", totals.hedged)
      .field("replayed_bytes", totals.retransmitted)
      .field("log_lines_dropped", log_lines_dropped());
  write_links(out, peers);
  write_faults(out, SIZE_MAX);
  out.end_object();
  return out.text();
}

}  // namespace r2ccl::nccl
