// The text of r2cclCommReport; docs/report.md describes the fields.
#include <algorithm>
#include <ctime>

#include "base/json_writer.h"
#include "runtime/communicator.h"

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
        .field("drained", engine.drained().contains(NicId(static_cast<uint16_t>(i))))
        .field("mtu", uint64_t{nic.mtu})
        .field("speed_mbps", nic.speed_mbps)
        .field("tx_bytes", sum.sent)
        .field("rx_bytes", sum.received)
        .end_object();
  }
  out.end_array();
}

double milliseconds(TimeNs duration) {
  return static_cast<double>(duration) / 1e6;
}

double percent(uint32_t ppm) {
  return static_cast<double>(ppm) / 1e4;
}

// How often it failed and returned, and what keeps it from returning now.
void write_history(JsonWriter& out, const Link& link, const Path& path, const Clock& clock,
                   TimeNs started_at) {
  const Path::History& history = path.history;
  const TimeNs now = clock.now();
  const TimeNs wait = path.state.connected() ? 0 : path.returns.next_attempt() - now;
  out.field("state_ms", milliseconds(now - std::max(path.state.since(), started_at)))
      .field("suspicions", history.suspicions)
      .field("downs", history.downs)
      .field("returns", history.returns)
      .field("down_at",
             history.downs == 0 ? std::string() : iso_time(clock.wall() - (now - history.down_at)))
      .field("down_cause", to_string(history.cause))
      .field("down_peer_cause", to_string(history.peer_cause))
      .field("down_why", history.why)
      .field("penalty", path.returns.penalty_at(now))
      .field("opens", link.opens_paths())
      .field("next_attempt_ms", milliseconds(std::max<TimeNs>(wait, 0)))
      .field("attempt", history.attempt);
}

void write_path(JsonWriter& out, const Link& link, const Path& path, const Clock& clock,
                TimeNs started_at) {
  out.begin_object()
      .field("peer", link.peer().value())
      .field("nic", path.spec.local_name)
      .field("remote", to_string(path.spec.remote))
      .field("state", path.at_rest() ? "drained" : to_string(path.state.phase()))
      .field("drained", path.drained)
      .field("incarnation", uint64_t{path.state.incarnation().value()})
      .field("rate_MBps", path.model.bytes_per_ns() * 1e3)
      .field("base_delay_ms", milliseconds(path.model.base_delay()))
      .field("window_bytes", path.model.window())
      .field("lane_rtt_ms", milliseconds(path.health.round_trip))
      .field("loss_percent", percent(path.losses().count(clock.now()).ppm()))
      .field("packets_sent", path.losses().sent())
      .field("packets_lost", path.losses().lost())
      .field("tx_bytes", path.total_bytes_sent())
      .field("rx_bytes", path.total_bytes_received());
  write_history(out, link, path, clock, started_at);
  out.end_object();
}

}  // namespace

void Communicator::write_verdicts(JsonWriter& out, size_t count_max) const {
  const std::vector<Verdict>& all = incidents_->verdicts();
  const auto host_of = [&](const NicName& nic) { return incidents_->hosts()[nic.host]; };
  out.key("verdicts").begin_array();
  for (size_t i = all.size() - std::min(all.size(), count_max); i < all.size(); ++i) {
    const Verdict& verdict = all[i];
    out.begin_object()
        .field("rank", verdict.rank.value())
        .field("scope", to_string(verdict.scope))
        .field("host", verdict.scope == Scope::rail ? std::string() : host_of(verdict.culprit))
        .field("nic", verdict.culprit.nic)
        .field("peer_host", verdict.scope == Scope::pair ? host_of(verdict.other) : std::string())
        .field("peer_nic", verdict.other.nic)
        .key("process");
    if (verdict.scope == Scope::process) {
      out.value(verdict.process.value());
    } else {
      out.json("null");
    }
    out.field("kind", to_string(verdict.kind)).key("detected_ms");
    // Without an unacknowledged frame there is nothing to count from.
    if (verdict.detected_us == 0) {
      out.json("null");
    } else {
      out.value(static_cast<double>(verdict.detected_us) / 1e3);
    }
    out.key("loss_percent");
    if (verdict.kind == DownCause::lossy) {
      out.value(percent(verdict.loss_ppm));
    } else {
      out.json("null");
    }
    out.field("replayed_bytes", verdict.replayed_bytes)
        .field("stall_ms", static_cast<double>(verdict.stall_us) / 1e3)
        .field("at", iso_time(verdict.wall))
        .end_object();
  }
  out.end_array();
}

void Communicator::write_identity(JsonWriter& out) {
  const uint32_t version = options_.library_version;
  out.field("comm", comm_text(comm_id_))
      .field("rank", options_.self.value())
      .field("ranks", options_.rank_count)
      .field("pid", uint64_t{engine_->cards()[static_cast<size_t>(options_.self.value())].pid})
      .field("host", incidents_->hosts()[incidents_->host_of(options_.self)]);
  out.key("hosts").begin_array();
  for (const std::string& host : incidents_->hosts()) out.value(host);
  out.end_array();
  out.field("version", std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                           "." + std::to_string(version % 100))
      .field("uptime_ms", static_cast<uint64_t>((clock_.now() - started_at_) / kMillisecond))
      .field("operations", operations_)
      .field("authenticated", options_.job.authenticated())
      .field("error", failure().message());
}

void Communicator::write_report(JsonWriter& out) {
  out.begin_object();
  write_identity(out);
  write_nics(out, *engine_);
  uint64_t mirrored = 0;
  uint64_t replayed = 0;
  out.key("paths").begin_array();
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_->link(Rank(peer));
    if (link == nullptr) continue;
    mirrored += link->mirrored_bytes();
    replayed += link->replayed_bytes();
    for (const auto& path : link->paths()) write_path(out, *link, *path, clock_, started_at_);
  }
  out.end_array();
  out.field("mirrored_bytes", mirrored).field("replayed_bytes", replayed);
  write_in_flight(out);
  write_verdicts(out, SIZE_MAX);
  out.end_object();
}

std::string Communicator::report() {
  JsonWriter out;
  call([&] { write_report(out); });
  return out.text();
}

}  // namespace r2ccl
