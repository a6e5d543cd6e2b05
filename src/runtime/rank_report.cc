#include "runtime/rank_report.h"

#include <algorithm>
#include <ctime>

#include "base/log.h"
#include "runtime/admin/status_path.h"
#include "runtime/rank_health.h"

namespace r2ccl {
namespace {

std::string iso_time(TimeNs wall) {
  const time_t seconds = wall / kSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", date,
                static_cast<int>(wall % kSecond / kMillisecond));
  return text;
}

struct NicTotals {
  uint64_t sent = 0;
  uint64_t received = 0;
};

NicTotals totals(ProgressEngine& engine, NicId nic) {
  NicTotals sum;
  for (size_t peer = 0; peer < engine.rank_count(); ++peer) {
    const Link* link = engine.link(Rank(static_cast<int32_t>(peer)));
    if (link == nullptr) continue;
    for (const auto& path : link->paths()) {
      if (path->spec.local_nic != nic || path->spec.control_only) continue;
      sum.sent += path->total_bytes_sent();
      sum.received += path->total_bytes_received();
    }
  }
  return sum;
}

void write_nics(JsonWriter& out, ProgressEngine& engine) {
  out.key("nics").begin_array();
  for (size_t i = 0; i < engine.nics().all().size(); ++i) {
    const Nic& nic = engine.nics().all()[i];
    const NicTotals sum = totals(engine, NicId(static_cast<uint16_t>(i)));
    out.begin_object()
        .field("name", nic.name)
        .field("up", nic.up && nic.carrier)
        .field("drained", engine.nics().drained().contains(NicId(static_cast<uint16_t>(i))))
        .field("mtu", uint64_t{nic.mtu})
        .field("speed_mbps", nic.speed_mbps)
        .field("tx_bytes", sum.sent)
        .field("rx_bytes", sum.received)
        .end_object();
  }
  out.end_array();
}

double percent(uint32_t ppm) {
  return static_cast<double>(ppm) / 1e4;
}

// Writes how often the path failed and returned, and why it has not returned yet.
void write_history(JsonWriter& out, const PathInfo& info, const Link& link, const Path& path,
                   const Clock& clock) {
  const Path::History& history = path.history;
  const TimeNs now = clock.now();
  const TimeNs wait = path.state.connected() ? 0 : path.backoff.next_attempt() - now;
  out.field("state_ms", to_ms(info.state_age))
      .field("suspicions", info.suspicions)
      .field("downs", info.downs)
      .field("returns", info.returns)
      .field("corruptions", history.corruptions)
      .field("down_at",
             history.downs == 0 ? std::string() : iso_time(clock.wall() - (now - history.down_at)))
      .field("down_cause", to_string(history.cause))
      .field("down_peer_cause", to_string(history.peer_cause))
      .field("down_why", history.why)
      .field("penalty", path.backoff.penalty_at(now))
      .field("opens", link.opens_paths())
      .field("next_attempt_ms", to_ms(std::max<TimeNs>(wait, 0)))
      .field("attempt", history.attempt);
}

void write_path(JsonWriter& out, const PathInfo& info, const Link& link, const Path& path,
                const Clock& clock) {
  out.begin_object()
      .field("peer", info.peer.value())
      .field("nic", info.nic)
      .field("peer_nic", info.peer_nic)
      .field("remote", info.remote)
      .field("state", to_string(info.state))
      .field("drained", info.drained)
      .field("incarnation", info.incarnation)
      .field("rate_MBps", path.model.bytes_per_ns() * 1e3)
      .field("rate_measured", info.bytes_per_second > 0)
      .field("base_delay_ms", to_ms(path.model.base_delay()))
      .key("one_way_excess_ms");
  if (info.one_way_excess < 0) {
    out.json("null");
  } else {
    out.value(to_ms(info.one_way_excess));
  }
  out.field("window_bytes", path.model.window())
      .field("lane_rtt_ms", to_ms(info.round_trip))
      .field("loss_percent", percent(info.loss_ppm))
      .field("packets_sent", info.packets_sent)
      .field("packets_lost", info.packets_lost)
      .field("tx_bytes", info.sent)
      .field("rx_bytes", info.received)
      .field("replayed_bytes", info.retransmitted);
  write_history(out, info, link, path, clock);
  out.end_object();
}

void write_in_flight(JsonWriter& out, const RankWaits& waits) {
  out.key("in_flight").begin_array();
  for (const RankWaits::Waiting& each : waits.calls()) {
    const TimeNs waited = std::clamp<TimeNs>(each.waited / kMillisecond, 0, UINT32_MAX);
    out.begin_object()
        .field("call", describe(each.call))
        .field("ms", static_cast<uint64_t>(waited))
        .field("waits_for", waits.words_for(each.blocker))
        .field("waits_for_rank", each.blocker.rank.value())
        .end_object();
  }
  out.end_array();
}

}  // namespace

void write_verdicts(JsonWriter& out, RankRuntime& rank, size_t count_max) {
  const std::vector<size_t> places = verdicts_of(rank);
  const size_t count = places.size();
  out.key("verdicts").begin_array();
  for (size_t i = count - std::min(count, count_max); i < count; ++i) {
    const VerdictInfo verdict = verdict_info(rank, places[i]);
    out.begin_object()
        .field("rank", verdict.rank.value())
        .field("scope", to_string(verdict.scope))
        .field("host", verdict.host)
        .field("nic", verdict.nic)
        .field("peer_host", verdict.peer_host)
        .field("peer_nic", verdict.peer_nic)
        .key("process");
    if (verdict.scope == Scope::process) {
      out.value(verdict.process.value());
    } else {
      out.json("null");
    }
    out.field("kind", to_string(verdict.kind)).key("detected_ms");
    if (verdict.detected < 0) {
      out.json("null");
    } else {
      out.value(to_ms(verdict.detected));
    }
    out.key("loss_percent");
    if (verdict.kind == DownCause::lossy) {
      out.value(percent(verdict.loss_ppm));
    } else {
      out.json("null");
    }
    out.field("replayed_bytes", verdict.retransmitted)
        .field("stall_ms", to_ms(verdict.stall))
        .field("at", iso_time(verdict.wall))
        .end_object();
  }
  out.end_array();
}

namespace {

// The view of the next collective's plan. `rates` is empty where all hosts are equal.
void write_view(JsonWriter& out, RankRuntime& rank) {
  const ViewRecord& record = rank.views()->agreement().latest();
  out.field("view_version", record.version);
  out.key("view").begin_object().field("from_collective", record.start);
  out.field("words", rank.views()->describe(record.view));
  out.field("refused_messages", rank.views()->refused());
  out.key("rates").begin_array();
  for (size_t host = 0; !record.view.empty() && host < record.view.hosts().size(); ++host) {
    const RankInfo& info = rank.members().info(rank.views()->leader(host));
    out.begin_object().field("host", info.host_name).key("nics").begin_array();
    const HostRates& rates = record.view.hosts()[host];
    const std::vector<uint16_t>& rails = rank.views()->rails(host);
    for (size_t nic = 0; nic < rails.size(); ++nic) {
      const NicRate& rate = rates[rails[nic]];
      out.begin_object().field("nic", info.nics[nic].name);
      out.field("send", uint64_t{rate.send}).field("receive", uint64_t{rate.receive});
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().end_object();
}

}  // namespace

void write_identity(JsonWriter& out, RankRuntime& rank) {
  const RankOptions& options = rank.options();
  const Members& members = rank.members();
  const TimeNs uptime = rank.clock().now() - rank.started_at();
  out.field("comm", comm_text(rank.comm_id()))
      .field("name", options.name)
      .field("rank", options.self.value())
      .field("ranks", options.rank_count)
      .field("pid", uint64_t{members.info(options.self).pid})
      .field("host", members.host_name(members.map().host_of(options.self)));
  out.key("hosts").begin_array();
  for (size_t host = 0; host < members.map().hosts(); ++host) out.value(members.host_name(host));
  out.end_array();
  out.field("version", version_text(options.library_version))
      .field("uptime_ms", static_cast<uint64_t>(uptime / kMillisecond))
      .field("operations", rank.operations().completed())
      .field("authenticated", options.job.authenticated())
      .field("error", rank.failure().message());
  if (rank.views() != nullptr) write_view(out, rank);
}

std::string report_text(RankRuntime& rank) {
  JsonWriter out;
  out.begin_object();
  write_identity(out, rank);
  write_nics(out, rank.engine());
  uint64_t hedged = 0;
  uint64_t retransmitted = 0;
  const std::vector<PathInfo> infos = path_infos(rank);
  auto info = infos.begin();
  out.key("paths").begin_array();
  for (int32_t peer = 0; peer < rank.options().rank_count; ++peer) {
    const Link* link = rank.members().link(Rank(peer));
    if (link == nullptr) continue;
    hedged += link->hedged_bytes();
    retransmitted += link->retransmitted_bytes();
    for (const auto& path : link->paths()) {
      write_path(out, *info++, *link, *path, rank.clock());
    }
  }
  out.end_array();
  out.field("mirrored_bytes", hedged).field("replayed_bytes", retransmitted);
  out.field("log_lines_dropped", log_lines_dropped());
  write_in_flight(out, rank.waits());
  write_verdicts(out, rank, SIZE_MAX);
  out.end_object();
  return out.text();
}

}  // namespace r2ccl
