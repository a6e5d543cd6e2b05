#include "runtime/admin/link_report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

namespace r2ccl {
namespace {

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
             history.downs == 0 ? std::string() : utc_text(clock.wall() - (now - history.down_at)))
      .field("down_cause", to_string(history.cause))
      .field("down_peer_cause", to_string(history.peer_cause))
      .field("down_why", history.why)
      .field("penalty", path.backoff.penalty_at(now))
      .field("opens", link.opens_paths())
      .field("next_attempt_ms", to_ms(std::max<TimeNs>(wait, 0)))
      .field("attempt", history.attempt);
}

}  // namespace

std::string utc_text(TimeNs wall) {
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

void write_nic(JsonWriter& out, const Nic& nic, bool drained, uint64_t sent, uint64_t received) {
  out.begin_object()
      .field("name", nic.name)
      .field("up", nic.alive())
      .field("drained", drained)
      .field("mtu", uint64_t{nic.mtu})
      .field("speed_mbps", nic.speed_mbps)
      .field("tx_bytes", sent)
      .field("rx_bytes", received)
      .end_object();
}

void write_path(JsonWriter& out, const PathInfo& info, const Link& link, const Path& path,
                const Clock& clock) {
  out.field("peer", info.peer.value())
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
}

void write_verdict(JsonWriter& out, const VerdictInfo& verdict) {
  out.field("rank", verdict.rank.value())
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
      .field("at", utc_text(verdict.wall));
}

}  // namespace r2ccl
