#include "runtime/rank_report.h"

#include <algorithm>

#include "base/log.h"
#include "runtime/admin/link_health.h"
#include "runtime/admin/status_path.h"
#include "runtime/rank_health.h"
#include "schema/nic.h"

namespace r2ccl {
namespace {

ShownNic shown_nic(ProgressEngine& engine, NicId id) {
  const Nic& nic = engine.nics().all()[id.value()];
  ShownNic shown{nic.name, nic.alive(), engine.nics().drained().contains(id), nic.mtu,
                 nic.speed_mbps};
  for (size_t peer = 0; peer < engine.rank_count(); ++peer) {
    const Link* link = engine.link(Rank(static_cast<int32_t>(peer)));
    if (link == nullptr) continue;
    for (const auto& path : link->paths()) {
      if (path->spec.local_nic != id || path->spec.control_only) continue;
      shown.sent += path->total_bytes_sent();
      shown.received += path->total_bytes_received();
    }
  }
  return shown;
}

std::vector<ShownNic> shown_nics(ProgressEngine& engine) {
  std::vector<ShownNic> shown;
  for (size_t i = 0; i < engine.nics().all().size(); ++i) {
    shown.push_back(shown_nic(engine, NicId(static_cast<uint16_t>(i))));
  }
  return shown;
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
  std::vector<VerdictInfo> verdicts;
  for (size_t i = count - std::min(count, count_max); i < count; ++i) {
    verdicts.push_back(verdict_info(rank, places[i]));
  }
  schema::write_list(out, "verdicts", verdicts, schema::kVerdictFields);
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
    const HostNics& nics = rank.views()->nics();
    for (size_t nic = 0; nic < nics.names(host).size(); ++nic) {
      const NicRate& rate = rates[nics.rails(host)[nic]];
      out.begin_object().field("nic", nics.names(host)[nic]);
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
  schema::write_list(out, "nics", shown_nics(rank.engine()), schema::kNicFields);
  schema::write_list(out, "paths", path_infos(rank), schema::kPathFields);
  uint64_t hedged = 0;
  uint64_t retransmitted = 0;
  for (int32_t peer = 0; peer < rank.options().rank_count; ++peer) {
    const Link* link = rank.members().link(Rank(peer));
    if (link == nullptr) continue;
    hedged += link->hedged_bytes();
    retransmitted += link->retransmitted_bytes();
  }
  out.field("mirrored_bytes", hedged).field("replayed_bytes", retransmitted);
  out.field("log_lines_dropped", log_lines_dropped());
  write_in_flight(out, rank.waits());
  write_verdicts(out, rank, SIZE_MAX);
  out.end_object();
  return out.text();
}

}  // namespace r2ccl
