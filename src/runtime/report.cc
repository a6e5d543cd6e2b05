// The text of r2cclCommReport; docs/report.md describes the fields.
#include <algorithm>
#include <ctime>

#include "runtime/communicator.h"
#include "runtime/json_writer.h"

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

const char* to_string(PathPhase phase) {
  switch (phase) {
    case PathPhase::down:
      return "down";
    case PathPhase::proving:
      return "proving";
    case PathPhase::up:
      return "up";
    case PathPhase::suspect:
      return "suspect";
  }
  return "unknown";
}

double milliseconds(uint64_t us) {
  return static_cast<double>(us) / 1e3;
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
      if (path->spec.local_nic != nic || path->spec.lane_only) continue;
      sum.sent += path->total_bytes_sent();
      sum.received += path->total_bytes_received();
    }
  }
  return sum;
}

void write_nics(JsonWriter& out, ProgressEngine& engine) {
  out.key("nics").begin_array();
  for (size_t i = 0; i < engine.data_nics().size(); ++i) {
    const Nic& nic = engine.data_nics()[i];
    const NicTotals sum = totals(engine, NicId(static_cast<uint16_t>(i)));
    out.begin_object()
        .field("name", nic.name)
        .field("up", nic.up && nic.carrier)
        .field("mtu", uint64_t{nic.mtu})
        .field("speed_mbps", nic.speed_mbps)
        .field("tx_bytes", sum.sent)
        .field("rx_bytes", sum.received)
        .end_object();
  }
  out.end_array();
}

void write_path(JsonWriter& out, Rank peer, const Path& path) {
  out.begin_object()
      .field("peer", peer.value())
      .field("nic", path.spec.local_name)
      .field("remote", to_string(path.spec.remote))
      .field("state", to_string(path.state.phase()))
      .field("incarnation", uint64_t{path.state.incarnation().value()})
      .field("rate_MBps", path.model.bytes_per_ns() * 1e3)
      .field("base_delay_ms", static_cast<double>(path.model.base_delay()) / 1e6)
      .field("window_bytes", path.model.window())
      .field("lane_rtt_ms", static_cast<double>(path.health.round_trip) / 1e6)
      .field("tx_bytes", path.total_bytes_sent())
      .field("rx_bytes", path.total_bytes_received())
      .end_object();
}

void write_verdicts(JsonWriter& out, const Incidents& incidents) {
  const auto host_of = [&](const NicName& nic) { return incidents.hosts()[nic.host]; };
  out.key("verdicts").begin_array();
  for (const Verdict& verdict : incidents.verdicts()) {
    out.begin_object()
        .field("rank", verdict.rank.value())
        .field("scope", to_string(verdict.scope))
        .field("host", verdict.scope == Scope::rail ? std::string() : host_of(verdict.culprit))
        .field("nic", verdict.culprit.nic)
        .field("peer_host", verdict.scope == Scope::pair ? host_of(verdict.other) : std::string())
        .field("kind", to_string(verdict.kind))
        .field("detected_ms", milliseconds(verdict.detected_us))
        .field("replayed_bytes", verdict.replayed_bytes)
        .field("stall_ms", milliseconds(verdict.stall_us))
        .field("at", iso_time(verdict.wall))
        .end_object();
  }
  out.end_array();
}

}  // namespace

void Communicator::write_report(JsonWriter& out) {
  out.begin_object();
  out.field("rank", options_.self.value()).field("ranks", options_.rank_count);
  out.field("host", incidents_->hosts()[incidents_->host_of(options_.self)]);
  out.key("hosts").begin_array();
  for (const std::string& host : incidents_->hosts()) out.value(host);
  out.end_array();
  out.field("authenticated", options_.job.authenticated);
  out.field("error", failure().message());
  write_nics(out, *engine_);
  uint64_t mirrored = 0;
  uint64_t replayed = 0;
  out.key("paths").begin_array();
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_->link(Rank(peer));
    if (link == nullptr) continue;
    mirrored += link->mirrored_bytes();
    replayed += link->replayed_bytes();
    for (const auto& path : link->paths()) write_path(out, Rank(peer), *path);
  }
  out.end_array();
  out.field("mirrored_bytes", mirrored).field("replayed_bytes", replayed);
  write_verdicts(out, *incidents_);
  out.end_object();
}

std::string Communicator::report() {
  JsonWriter out;
  call([&] { write_report(out); });
  return out.text();
}

}  // namespace r2ccl
