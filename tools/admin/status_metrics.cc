#include "tools/admin/status_metrics.h"

#include <cmath>
#include <ctime>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/admin/summary_fields.h"
#include "schema/nic.h"
#include "schema/path.h"
#include "tools/admin/json_fields.h"
#include "tools/admin/status_nccl_view.h"
#include "tools/common/parse.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

// The metrics that are no field of a report.
constexpr MetricFamily kOwnFamilies[] = {
    {"r2ccl_ranks", "Ranks of running jobs on this host."},
    {"r2ccl_rank_up",
     "1: the rank answered. 0: its process runs and gives no answer: it is stopped or very busy."},
    {"r2ccl_rank_info", "Always 1; the labels describe the rank."},
    {"r2ccl_rank_failed", "1: an error has ended the communicator."},
    {"r2ccl_call_wait_seconds",
     "How long the rank has waited in the call that it waits in for longest; 0: less than 1 s."},
    {"r2ccl_verdicts", "Faults that the job has agreed on, by the faulty component."},
    {"r2ccl_verdict_timestamp_seconds", "Time since 1970 of the last of these faults."},
    {"r2ccl_nccl_connections", "Connections of NCCL with the process, host:pid."},
    {"r2ccl_view_version", "Changes of the bandwidth that the rank's plans follow."},
};
constexpr auto kRankRows = schema::rows_of(schema::kMemberFields);
constexpr auto kNicRows = schema::rows_of(schema::kNicFields);
constexpr auto kPathRows = schema::rows_of(schema::kPathFields);

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
  add_fields(out, kPathRows, labels, path);
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
  out.add("r2ccl_view_version", rank, value_of(report, "view_version"));
  add_fields(out, kRankRows, rank, report);
  double waits_ms = 0;
  for (const json& call : list_of(report, "in_flight")) {
    waits_ms = std::fmax(waits_ms, value_of(call, "ms"));
  }
  if (!is_nccl(report)) out.add("r2ccl_call_wait_seconds", rank, waits_ms / 1e3);
  for (const json& nic : list_of(report, "nics")) {
    add_fields(out, kNicRows, with(rank, {{"nic", text_of(nic, "name")}}), nic);
  }
  for (const json& path : list_of(report, "paths")) add_path(out, rank, path);
  for (const json& link : list_of(report, "links")) {
    const std::string peer = text_of(link, "host") + ":" + integer_text(link, "pid");
    out.add("r2ccl_nccl_connections", with(rank, {{"peer", peer}}), value_of(link, "connections"));
  }
  add_verdicts(out, job, report);
}

}  // namespace

std::vector<MetricFamily> families_of(std::span<const schema::Row> rows) {
  std::vector<MetricFamily> families;
  for (const schema::Row& row : rows) {
    if (*row.metric.name != '\0') families.push_back({row.metric.name, row.metric.help});
  }
  return families;
}

std::span<const MetricFamily> metric_families() {
  static const std::vector<MetricFamily> kFamilies = [] {
    std::vector<MetricFamily> all(std::begin(kOwnFamilies), std::end(kOwnFamilies));
    for (const auto& some :
         {families_of(kRankRows), families_of(kNicRows), families_of(kPathRows)}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return kFamilies;
}

void add_fields(MetricsText& out, std::span<const schema::Row> rows, const MetricLabels& labels,
                const json& object) {
  for (const schema::Row& row : rows) {
    const schema::Metric& metric = row.metric;
    if (*metric.name == '\0') continue;
    if (metric.factor == 0) {
      out.add(metric.name, with(labels, {{row.name, text_of(object, row.name)}}), 1);
      continue;
    }
    const double value = value_of(object, row.name);
    if (*metric.known_by != '\0' && !(value_of(object, metric.known_by) > 0)) continue;
    out.add(metric.name, labels, value * metric.factor);
  }
}

std::string metrics_of(std::span<const RankAnswer> answers) {
  MetricsText out(metric_families());
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
