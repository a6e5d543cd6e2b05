#include "tools/common/rank_report.h"

#include <algorithm>

namespace r2ccl::tools {
namespace {

std::string end_of(const std::string& host, const std::string& nic) {
  return "host " + host + (nic.empty() ? " all nics" : " nic " + nic);
}

// Returns the faulty component as text: "host h1 nic nic0", or a coarser scope.
std::string subject_of(const Json& verdict) {
  const std::string scope = report_text(verdict, "scope");
  const std::string host = "host " + report_text(verdict, "host");
  const std::string nic = report_text(verdict, "nic");
  if (scope == "rail") return "rail of all hosts' nic " + nic;
  const std::string pid = report_text(verdict, "pid");  // of an NCCL process
  if (scope == "process" && !pid.empty()) return host + " process " + pid;
  if (scope == "process") return host + " process of rank " + report_text(verdict, "process");
  const std::string end = end_of(report_text(verdict, "host"), nic);
  if (scope != "pair") return end;
  return "between " + end + " and " +
         end_of(report_text(verdict, "peer_host"), report_text(verdict, "peer_nic"));
}

}  // namespace

std::vector<Json> parse_reports(const std::vector<std::string>& reports) {
  std::vector<Json> parsed;
  for (const std::string& text : reports) {
    Json report = Json::parse(text, nullptr, false);
    if (report.is_object()) parsed.push_back(std::move(report));
  }
  return parsed;
}

Json report_array(const Json& report, const char* field) {
  auto found = report.find(field);
  return found != report.end() && found->is_array() ? *found : Json::array();
}

std::string report_text(const Json& object, const char* field) {
  auto found = object.find(field);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

uint64_t report_number(const Json& object, const char* field) {
  auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<uint64_t>() : 0;
}

Json merged_verdicts(const std::vector<Json>& reports) {
  constexpr const char* kFields[] = {"rank",        "scope",        "host",           "nic",
                                     "peer_host",   "peer_nic",     "process",        "kind",
                                     "detected_ms", "loss_percent", "replayed_bytes", "stall_ms",
                                     "at"};
  constexpr const char* kNcclFields[] = {"missed_by", "pid", "repaired_at"};
  Json merged = Json::array();
  for (const Json& report : reports) {
    for (const Json& verdict : report_array(report, "verdicts")) {
      Json entry = Json::object();
      for (const char* field : kFields) entry[field] = verdict.value(field, Json());
      for (const char* field : kNcclFields) {
        if (verdict.contains(field)) entry[field] = verdict[field];
      }
      if (std::find(merged.begin(), merged.end(), entry) == merged.end()) merged.push_back(entry);
    }
  }
  return merged;
}

std::vector<std::string> verdict_lines(const std::vector<std::string>& reports) {
  std::vector<std::string> lines;
  for (const Json& verdict : merged_verdicts(parse_reports(reports))) {
    std::string line = subject_of(verdict) + ": " + report_text(verdict, "kind");
    const std::string loss = report_text(verdict, "loss_percent");
    if (!loss.empty()) line += ", " + loss + " % of its packets lost";
    // Absent if no transfer was outstanding.
    const std::string detected = report_text(verdict, "detected_ms");
    if (!detected.empty()) line += ", detected in " + detected + " ms";
    line += ", stall " + report_text(verdict, "stall_ms") + " ms, " +
            report_text(verdict, "replayed_bytes") + " bytes replayed";
    const uint64_t missed_by = report_number(verdict, "missed_by");
    if (missed_by > 0) line += ", missed by " + std::to_string(missed_by) + " hosts";
    const std::string repaired = report_text(verdict, "repaired_at");
    if (!repaired.empty()) line += ", works again since " + repaired;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace r2ccl::tools
