#include "tools/bench/bench_result.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace r2ccl::tools {
namespace {

using json = nlohmann::ordered_json;

double ms(TimeNs time) {
  return static_cast<double>(time) / 1e6;
}

// The value below which a share `q` of the sorted values lies (nearest rank).
TimeNs percentile(const std::vector<TimeNs>& sorted, double q) {
  if (sorted.empty()) return 0;
  auto index = static_cast<size_t>(q * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

// A report that is not JSON (an older library, a rank without one) adds nothing.
std::vector<json> parse_reports(const std::vector<std::string>& reports) {
  std::vector<json> parsed;
  for (const std::string& text : reports) {
    json report = json::parse(text, nullptr, false);
    if (report.is_object()) parsed.push_back(std::move(report));
  }
  return parsed;
}

json array_of(const json& report, const char* field) {
  auto found = report.find(field);
  return found != report.end() && found->is_array() ? *found : json::array();
}

std::string text_of(const json& object, const char* field) {
  auto found = object.find(field);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

uint64_t number_of(const json& object, const char* field) {
  auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<uint64_t>() : 0;
}

// {"h0": {"nic0": {"tx": ..., "rx": ...}}}: the ranks of one host add up.
json nic_bytes(const std::vector<json>& reports) {
  json hosts = json::object();
  for (const json& report : reports) {
    for (const json& nic : array_of(report, "nics")) {
      json& entry = hosts[text_of(report, "host")][text_of(nic, "name")];
      entry = {{"tx", number_of(entry.is_object() ? entry : json::object(), "tx") +
                          number_of(nic, "tx_bytes")},
               {"rx", number_of(entry.is_object() ? entry : json::object(), "rx") +
                          number_of(nic, "rx_bytes")}};
    }
  }
  return hosts;
}

// Every rank's report may hold every verdict; equal ones are one.
json merged_verdicts(const std::vector<json>& reports) {
  constexpr const char* kFields[] = {"rank",        "scope",        "host",           "nic",
                                     "peer_host",   "peer_nic",     "process",        "kind",
                                     "detected_ms", "loss_percent", "replayed_bytes", "stall_ms",
                                     "at"};
  json merged = json::array();
  for (const json& report : reports) {
    for (const json& verdict : array_of(report, "verdicts")) {
      json entry = json::object();
      for (const char* field : kFields) entry[field] = verdict.value(field, json());
      if (std::find(merged.begin(), merged.end(), entry) == merged.end()) merged.push_back(entry);
    }
  }
  return merged;
}

uint64_t sum_of(const std::vector<json>& objects, const char* field) {
  uint64_t sum = 0;
  for (const json& object : objects) sum += number_of(object, field);
  return sum;
}

uint64_t suspicions(const std::vector<json>& reports) {
  uint64_t sum = 0;
  for (const json& report : reports) sum += sum_of(array_of(report, "paths"), "suspicions");
  return sum;
}

// Null where nothing was looked at: a zero would say that all was right.
json if_checked(const BenchOptions& options, uint64_t elements) {
  return options.check ? json(elements) : json();
}

// Two placements of one size give one entry: out of place, as it stands first in the table.
json results(const BenchOptions& options, int ranks, const std::vector<BenchRun>& runs) {
  json list = json::array();
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
    list.push_back(
        {{"bytes", run.bytes},
         {"count", run.count},
         {"type", options.type_name},
         {"redop",
          options.collective == Collective::all_reduce ? json(options.redop_name) : json()},
         {"time_us", run.time_us()},
         {"algbw_MBps", rate.algorithm / 1e6},
         {"busbw_MBps", rate.bus / 1e6},
         {"wrong", if_checked(options, run.wrong_elements)}});
  }
  return list;
}

}  // namespace

double BenchRun::time_us() const {
  TimeNs sum = 0;
  for (const TimedOperation& operation : operations) sum += operation.duration;
  return operations.empty()
             ? 0
             : static_cast<double>(sum) / 1e3 / static_cast<double>(operations.size());
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
  return {ms(percentile(durations, 0.5)), ms(percentile(durations, 0.99)),
          durations.empty() ? 0 : ms(durations.back())};
}

double max_gap_ms(const std::vector<BenchRun>& runs) {
  TimeNs longest = 0;
  for (const BenchRun& run : runs) {
    for (const TimedOperation& operation : run.operations) {
      longest = std::max(longest, operation.gap);
    }
  }
  return ms(longest);
}

std::string result_json(const BenchOptions& options, int ranks, const std::vector<BenchRun>& runs,
                        const std::vector<std::string>& reports) {
  std::vector<json> parsed = parse_reports(reports);
  json bytes = nic_bytes(parsed);
  size_t nics = 0;
  for (const json& host : bytes) nics = std::max(nics, host.size());
  uint64_t operations = 0, checked = 0, wrong = 0;
  for (const BenchRun& run : runs) {
    operations += run.operations.size();
    checked += run.checked_elements;
    wrong += run.wrong_elements;
  }
  OperationTimes times = operation_times(runs);
  json document = {{"collective", options.collective_name},
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

namespace {

// "host h1 nic nic0", and what stands in its place in coarser verdicts.
std::string subject_of(const json& verdict) {
  const std::string scope = text_of(verdict, "scope");
  const std::string host = "host " + text_of(verdict, "host");
  const std::string nic = text_of(verdict, "nic");
  if (scope == "rail") return "rail of all hosts' nic " + nic;
  if (scope == "process") return host + " process of rank " + text_of(verdict, "process");
  return host + (nic.empty() ? " all nics" : " nic " + nic);
}

}  // namespace

std::vector<std::string> verdict_lines(const std::vector<std::string>& reports) {
  std::vector<std::string> lines;
  for (const json& verdict : merged_verdicts(parse_reports(reports))) {
    std::string line = subject_of(verdict) + ": " + text_of(verdict, "kind");
    std::string peer = text_of(verdict, "peer_host");
    if (!peer.empty()) line += " (towards " + peer + ")";
    const std::string loss = text_of(verdict, "loss_percent");
    if (!loss.empty()) line += ", " + loss + " % of its packets lost";
    // Not known when nothing was under way.
    const std::string detected = text_of(verdict, "detected_ms");
    if (!detected.empty()) line += ", detected in " + detected + " ms";
    line += ", stall " + text_of(verdict, "stall_ms") + " ms, " +
            text_of(verdict, "replayed_bytes") + " bytes replayed";
    lines.push_back(line);
  }
  return lines;
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
