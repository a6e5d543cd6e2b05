#include "tools/bench/bench_result.h"

#include <algorithm>
#include <cstdio>

#include "tools/common/rank_report.h"

namespace r2ccl::tools {
namespace {

// Returns the value below which a share `q` of the sorted values lies (nearest rank).
TimeNs percentile(const std::vector<TimeNs>& sorted, double q) {
  if (sorted.empty()) return 0;
  auto index = static_cast<size_t>(q * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

// Returns {"h0": {"nic0": {"tx": ..., "rx": ...}}}: the sums over the ranks of each host.
Json nic_bytes(const std::vector<Json>& reports) {
  Json hosts = Json::object();
  for (const Json& report : reports) {
    for (const Json& nic : report_array(report, "nics")) {
      Json& entry = hosts[report_text(report, "host")][report_text(nic, "name")];
      entry = {{"tx", report_number(entry.is_object() ? entry : Json::object(), "tx") +
                          report_number(nic, "tx_bytes")},
               {"rx", report_number(entry.is_object() ? entry : Json::object(), "rx") +
                          report_number(nic, "rx_bytes")}};
    }
  }
  return hosts;
}

uint64_t sum_of(const std::vector<Json>& objects, const char* field) {
  uint64_t sum = 0;
  for (const Json& object : objects) sum += report_number(object, field);
  return sum;
}

uint64_t suspicions(const std::vector<Json>& reports) {
  uint64_t sum = 0;
  for (const Json& report : reports) sum += sum_of(report_array(report, "paths"), "suspicions");
  return sum;
}

// Returns null if the bench checked nothing: a zero would say that all was right.
Json if_checked(const BenchOptions& options, uint64_t elements) {
  return options.check ? json(elements) : json();
}

// Merges two placements of one size into one entry, out of place first, as in the table.
Json results(const BenchOptions& options, int ranks, const std::vector<BenchRun>& runs) {
  Json list = Json::array();
  for (const BenchRun& run : runs) {
    bool again = !list.empty() && list.back().at("bytes") == run.bytes && run.in_place &&
                 !options.in_place_only;
    if (again) {
      if (options.check) {
        list.back()["wrong"] = list.back().at("wrong").get<uint64_t>() + run.wrong_elements;
      }
      continue;
    }
    Bandwidth rate = bandwidth(options, ranks, run);
    list.push_back({{"bytes", run.bytes},
                    {"count", run.count},
                    {"type", options.type_name},
                    {"redop", reduces(options.collective) ? json(options.redop_name) : json()},
                    {"time_us", run.time_us()},
                    {"algbw_MBps", rate.algorithm / 1e6},
                    {"busbw_MBps", rate.bus / 1e6},
                    {"wrong", if_checked(options, run.wrong_elements)}});
  }
  return list;
}

}  // namespace

double BenchRun::time_us() const {
  if (operations.empty()) return 0;
  return static_cast<double>(total) / 1e3 / static_cast<double>(operations.size());
}

Bandwidth bandwidth(const BenchOptions& options, int ranks, const BenchRun& run) {
  double us = run.time_us();
  if (us <= 0) return {};
  double algorithm = static_cast<double>(run.bytes) / us * 1e6;
  return {algorithm, algorithm * bus_factor(options.collective, ranks)};
}

OperationTimes operation_times(const std::vector<BenchRun>& runs) {
  std::vector<TimeNs> durations;
  for (const BenchRun& run : runs) {
    for (const TimedOperation& operation : run.operations) durations.push_back(operation.duration);
  }
  std::sort(durations.begin(), durations.end());
  return {to_ms(percentile(durations, 0.5)), to_ms(percentile(durations, 0.99)),
          durations.empty() ? 0 : to_ms(durations.back())};
}

double max_gap_ms(const std::vector<BenchRun>& runs) {
  TimeNs longest = 0;
  for (const BenchRun& run : runs) {
    for (const TimedOperation& operation : run.operations) {
      longest = std::max(longest, operation.gap);
    }
  }
  return to_ms(longest);
}

std::string needed_part(const std::string& report) {
  const std::vector<Json> parsed = parse_reports({report});
  if (parsed.empty()) return "";
  Json needed = Json::object();
  for (const char* field : {"host", "nics", "mirrored_bytes", "replayed_bytes", "verdicts"}) {
    if (parsed.front().contains(field)) needed[field] = parsed.front()[field];
  }
  Json& paths = needed["paths"] = Json::array();
  for (const Json& path : report_array(parsed.front(), "paths")) {
    const uint64_t suspected = report_number(path, "suspicions");
    if (suspected > 0) paths.push_back({{"suspicions", suspected}});
  }
  return needed.dump();
}

std::string result_json(const BenchOptions& options, int ranks, const std::vector<BenchRun>& runs,
                        const std::vector<std::string>& reports) {
  std::vector<Json> parsed = parse_reports(reports);
  Json bytes = nic_bytes(parsed);
  size_t nics = 0;
  for (const Json& host : bytes) nics = std::max(nics, host.size());
  uint64_t operations = 0, checked = 0, wrong = 0;
  for (const BenchRun& run : runs) {
    operations += run.operations.size();
    checked += run.checked_elements;
    wrong += run.wrong_elements;
  }
  OperationTimes times = operation_times(runs);
  Json document = {{"collective", options.collective_name},
                   {"ranks", ranks},
                   {"hosts", bytes.size()},
                   {"nics", nics},
                   {"results", results(options, ranks, runs)},
                   {"operations", operations},
                   {"checked_elements", if_checked(options, checked)},
                   {"wrong_elements", if_checked(options, wrong)},
                   {"max_gap_ms", max_gap_ms(runs)},
                   {"op_ms", {{"p50", times.p50_ms}, {"p99", times.p99_ms}, {"max", times.max_ms}}},
                   {"nic_bytes", bytes},
                   {"suspicions", suspicions(parsed)},
                   {"mirrored_bytes", sum_of(parsed, "mirrored_bytes")},
                   {"replayed_bytes", sum_of(parsed, "replayed_bytes")},
                   {"verdicts", merged_verdicts(parsed)}};
  return document.dump(1) + "\n";
}

std::string operation_log(const std::vector<BenchRun>& runs) {
  std::string text = "# number bytes monotonic_s since_start_s duration_us gap_us\n";
  TimeNs first = 0;
  size_t number = 0;
  for (const BenchRun& run : runs) {
    for (const TimedOperation& operation : run.operations) {
      if (number == 0) first = operation.start;
      char line[160];
      std::snprintf(
          line, sizeof line, "%zu %llu %.6f %.6f %.1f %.1f\n", number++,
          static_cast<unsigned long long>(run.bytes), static_cast<double>(operation.start) / 1e9,
          static_cast<double>(operation.start - first) / 1e9,
          static_cast<double>(operation.duration) / 1e3, static_cast<double>(operation.gap) / 1e3);
      text += line;
    }
  }
  return text;
}

}  // namespace r2ccl::tools
