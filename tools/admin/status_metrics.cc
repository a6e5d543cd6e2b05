#include "tools/admin/status_metrics.h"

#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "tools/admin/json_fields.h"
#include "tools/admin/status_nccl_view.h"
#include "tools/common/metrics_text.h"
#include "tools/common/parse.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

constexpr MetricFamily kFamilies[] = {
    {"r2ccl_ranks", "Ranks of running jobs on this host."},
    {"r2ccl_rank_up",
     "1: the rank answered. 0: its process runs and gives no answer: it is stopped or very busy."},
    {"r2ccl_rank_info", "Always 1; the labels describe the rank."},
    {"r2ccl_rank_failed", "1: an error has ended the communicator."},
    {"r2ccl_rank_uptime_seconds", "Time since the communicator was begun."},
    {"r2ccl_view_version", "Changes of the bandwidth that the rank's plans follow."},
    {"r2ccl_operations_total", "Operations that ended well on this rank.", true},
    {"r2ccl_call_wait_seconds",
     "How long the rank has waited in the call that it waits in for longest; 0: less than 1 s."},
    {"r2ccl_hedged_bytes_total", "Payload sent once more while its path was overdue.", true},
    {"r2ccl_retransmitted_bytes_total", "Payload sent again because its path went down.", true},
    {"r2ccl_log_lines_dropped_total",
     "Lines of the log that were lost: its reader was slow or gone, or the disk full.", true},
    {"r2ccl_verdicts", "Faults that the job has agreed on, by the faulty component."},
    {"r2ccl_verdict_timestamp_seconds", "Time since 1970 of the last of these faults."},
    {"r2ccl_nic_up", "1: the NIC is up and has carrier."},
    {"r2ccl_nic_drained", "1: an operator took the NIC out of service."},
    {"r2ccl_nic_speed_bytes_per_second", "The NIC's speed, as the kernel says."},
    {"r2ccl_nic_transmit_bytes_total", "Sent over data connections of the NIC.", true},
    {"r2ccl_nic_receive_bytes_total", "Received over data connections of the NIC.", true},
    {"r2ccl_nccl_connections", "Connections of NCCL with the process, host:pid."},
    {"r2ccl_path_state", "Always 1; the label state has the path's present state."},
    {"r2ccl_path_state_seconds", "Time since the path's state began."},
    {"r2ccl_path_rate_bytes_per_second", "The path's measured delivery rate."},
    {"r2ccl_path_round_trip_seconds", "Smoothed round trip of the path's control stream."},
    {"r2ccl_path_one_way_excess_seconds",
     "The path's one-way delay less that of the quickest path to this peer."},
    {"r2ccl_path_loss_ratio", "Share of lost packets among those sent in the last 4 s."},
    {"r2ccl_path_transmit_bytes_total", "Sent over the path's data connection.", true},
    {"r2ccl_path_receive_bytes_total", "Received over the path's data connection.", true},
    {"r2ccl_path_retransmitted_bytes_total", "Payload sent again because this path went down.",
     true},
    {"r2ccl_path_packets_sent_total", "Packets sent on the path, by the kernel's count.", true},
    {"r2ccl_path_packets_lost_total", "Packets lost on the path, by the kernel's count.", true},
    {"r2ccl_path_suspicions_total", "How often the path was suspect.", true},
    {"r2ccl_path_downs_total", "How often the path went down after it had been up.", true},
    {"r2ccl_path_returns_total", "How often the path was up again.", true},
    {"r2ccl_path_corruptions_total",
     "Connections of the path that ended by bytes that were changed on the way.", true},
};

// A field of a report as a metric: the value times `factor`.
struct Measure {
  const char* family;
  const char* field;
  double factor = 1;
  bool zero_is_unknown = false;
};

constexpr Measure kRankMeasures[] = {
    {"r2ccl_rank_uptime_seconds", "uptime_ms", 1e-3},
    {"r2ccl_view_version", "view_version"},
    {"r2ccl_operations_total", "operations"},
    {"r2ccl_hedged_bytes_total", "mirrored_bytes"},
    {"r2ccl_retransmitted_bytes_total", "replayed_bytes"},
    {"r2ccl_log_lines_dropped_total", "log_lines_dropped"},
};
constexpr Measure kNicMeasures[] = {
    {"r2ccl_nic_up", "up"},
    {"r2ccl_nic_drained", "drained"},
    {"r2ccl_nic_speed_bytes_per_second", "speed_mbps", 1e6 / 8, true},
    {"r2ccl_nic_transmit_bytes_total", "tx_bytes"},
    {"r2ccl_nic_receive_bytes_total", "rx_bytes"},
};
constexpr Measure kPathMeasures[] = {
    {"r2ccl_path_state_seconds", "state_ms", 1e-3},
    {"r2ccl_path_round_trip_seconds", "lane_rtt_ms", 1e-3, true},
    {"r2ccl_path_one_way_excess_seconds", "one_way_excess_ms", 1e-3},
    {"r2ccl_path_loss_ratio", "loss_percent", 1e-2},
    {"r2ccl_path_transmit_bytes_total", "tx_bytes"},
    {"r2ccl_path_receive_bytes_total", "rx_bytes"},
    {"r2ccl_path_retransmitted_bytes_total", "replayed_bytes"},
    {"r2ccl_path_packets_sent_total", "packets_sent"},
    {"r2ccl_path_packets_lost_total", "packets_lost"},
    {"r2ccl_path_suspicions_total", "suspicions"},
    {"r2ccl_path_downs_total", "downs"},
    {"r2ccl_path_returns_total", "returns"},
    {"r2ccl_path_corruptions_total", "corruptions"},
};

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// Returns the number, or 0 or 1 for a truth value; NaN, which gives no sample, for anything else.
double value_of(const json& object, const char* field) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  if (found != object.end() && found->is_boolean()) return found->get<bool>() ? 1 : 0;
  return number_of(object, field, kNoValue);
}

std::string integer_text(const json& object, const char* field) {
  const double value = number_of(object, field, kNoValue);
  return std::fabs(value) < 1e15 ? std::to_string(static_cast<int64_t>(value)) : "";
}

// Returns the seconds since 1970 of "2026-01-02T03:04:05.678Z"; NaN for another text.
double seconds_of(const std::string& utc) {
  tm parts{};
  const char* rest = strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string fraction_text = rest == nullptr ? "" : "0" + std::string(rest);
  if (!fraction_text.ends_with('Z')) return kNoValue;
  fraction_text.pop_back();
  const std::optional<double> fraction = parse_number(fraction_text);
  return fraction ? static_cast<double>(timegm(&parts)) + *fraction : kNoValue;
}

void add_measures(MetricsText& out, std::span<const Measure> measures, const MetricLabels& labels,
                  const json& object) {
  for (const Measure& each : measures) {
    const double value = value_of(object, each.field);
    if (each.zero_is_unknown && value == 0) continue;
    out.add(each.family, labels, value * each.factor);
  }
}

MetricLabels with(MetricLabels labels, const MetricLabels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

void add_path(MetricsText& out, const MetricLabels& rank, const json& path) {
  // An NCCL process numbers its links anew for each answer.
  const std::string process = text_of(path, "peer_host") + ":" + integer_text(path, "peer_pid");
  const bool of_nccl = path.is_object() && path.contains("peer_pid");
  const MetricLabels labels = with(rank, {{"nic", text_of(path, "nic")},
                                          {"peer", of_nccl ? process : integer_text(path, "peer")},
                                          {"peer_nic", text_of(path, "peer_nic")}});
  out.add("r2ccl_path_state", with(labels, {{"state", text_of(path, "state")}}), 1);
  if (value_of(path, "rate_measured") == 1) {
    out.add("r2ccl_path_rate_bytes_per_second", labels, value_of(path, "rate_MBps") * 1e6);
  }
  add_measures(out, kPathMeasures, labels, path);
}

// All ranks of a job have the same verdicts. The rank that is asked first gives those of the job.
void add_verdicts(MetricsText& out, const MetricLabels& job, const json& report) {
  struct Seen {
    double count = 0;
    double last = kNoValue;
  };
  std::map<MetricLabels, Seen> faults;
  for (const json& verdict : list_of(report, "verdicts")) {
    MetricLabels labels = job;
    for (const char* field : {"scope", "kind", "host", "nic", "peer_host", "peer_nic"}) {
      labels.emplace_back(field, text_of(verdict, field));
    }
    Seen& seen = faults[labels];
    ++seen.count;
    seen.last = std::fmax(seen.last, seconds_of(text_of(verdict, "at")));
  }
  for (const auto& [labels, seen] : faults) {
    out.add("r2ccl_verdicts", labels, seen.count);
    out.add("r2ccl_verdict_timestamp_seconds", labels, seen.last);
  }
}

void add_report(MetricsText& out, const MetricLabels& job, const MetricLabels& rank,
                const json& report) {
  MetricLabels labels = with(rank, {{"host", text_of(report, "host")},
                                    {"pid", integer_text(report, "pid")},
                                    {"name", text_of(report, "name")},
                                    {"version", text_of(report, "version")}});
  if (is_nccl(report)) labels.emplace_back("kind", "nccl");
  out.add("r2ccl_rank_info", labels, 1);
  out.add("r2ccl_rank_failed", rank, text_of(report, "error").empty() ? 0 : 1);
  add_measures(out, kRankMeasures, rank, report);
  double waits_ms = 0;
  for (const json& call : list_of(report, "in_flight")) {
    waits_ms = std::fmax(waits_ms, value_of(call, "ms"));
  }
  if (!is_nccl(report)) out.add("r2ccl_call_wait_seconds", rank, waits_ms / 1e3);
  for (const json& nic : list_of(report, "nics")) {
    add_measures(out, kNicMeasures, with(rank, {{"nic", text_of(nic, "name")}}), nic);
  }
  for (const json& path : list_of(report, "paths")) add_path(out, rank, path);
  for (const json& link : list_of(report, "links")) {
    const std::string peer = text_of(link, "host") + ":" + integer_text(link, "pid");
    out.add("r2ccl_nccl_connections", with(rank, {{"peer", peer}}), value_of(link, "connections"));
  }
  add_verdicts(out, job, report);
}

}  // namespace

std::string metrics_of(std::span<const RankAnswer> answers) {
  MetricsText out(kFamilies);
  out.add("r2ccl_ranks", {}, static_cast<double>(answers.size()));
  for (const RankAnswer& answer : answers) {
    // The socket's name identifies the rank; its answer is no proof.
    const StatusSocketFile& file = answer.file;
    const MetricLabels job = {{"comm", comm_text(file.name.comm)},
                              {"uid", std::to_string(file.owner)}};
    const int32_t number = file.name.rank.value();
    const std::string known = number < 0 ? "" : std::to_string(number);
    const MetricLabels rank = with(job, {{"rank", known}});
    out.add("r2ccl_rank_up", rank, answer.report.is_object() ? 1 : 0);
    if (answer.report.is_object()) add_report(out, job, rank, answer.report);
  }
  return out.text();
}

}  // namespace r2ccl::tools
