#include "tools/admin/status_cells.h"

#include <cmath>
#include <cstdio>

#include "tools/admin/json_fields.h"
#include "tools/common/rank_report.h"

namespace r2ccl::tools {

using nlohmann::json;

namespace {

double paths_of(const json& nic) {
  return number_of(nic, "paths_up") + number_of(nic, "paths_drained") +
         number_of(nic, "paths_suspect") + number_of(nic, "paths_proving") +
         number_of(nic, "paths_down");
}

// The library may have to use one of the NIC's paths all the same.
std::string drained_state(const json& nic) {
  if (number_of(nic, "paths_up") > 0) return "drained, in use";
  return flag_of(nic, "up") ? "drained" : "drained, no link";
}

}  // namespace

std::string number_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string count_text(const json& object, const char* field) {
  return number_text(number_of(object, field), 0);
}

std::string duration_text(double ms) {
  if (ms < 1e3) return number_text(ms, 0) + " ms";
  if (ms < 60e3) return number_text(ms / 1e3, 1) + " s";
  const double minutes = std::floor(ms / 60e3);
  const double hours = std::floor(minutes / 60);
  if (hours < 1) {
    return number_text(minutes, 0) + " min " + number_text((ms - minutes * 60e3) / 1e3, 0) + " s";
  }
  return number_text(hours, 0) + " h " + number_text(minutes - hours * 60, 0) + " min";
}

std::string nic_state(const json& nic) {
  if (flag_of(nic, "drained")) return drained_state(nic);
  if (!flag_of(nic, "up")) return "DOWN";
  if (paths_of(nic) == 0) return "idle";
  const double drained = number_of(nic, "paths_drained");
  if (drained == paths_of(nic)) return "at rest";
  if (number_of(nic, "paths_up") == 0) return "CUT OFF";
  return number_of(nic, "paths_up") + drained < paths_of(nic) ? "impaired" : "up";
}

std::string rate_text(const json& nic, const char* field) {
  return nic.contains(field) ? number_text(number_of(nic, field), 1) : "-";
}

std::string loss_text(const json& object) {
  return object.contains("loss_percent") ? number_text(number_of(object, "loss_percent"), 2) : "-";
}

std::string paths_up_text(const json& object) {
  const double drained = number_of(object, "paths_drained");
  return count_text(object, "paths_up") + " of " + number_text(paths_of(object), 0) +
         (drained > 0 ? ", " + number_text(drained, 0) + " drained" : std::string());
}

TextRow nic_titles() {
  return {"NIC", "state", "tx MB/s", "rx MB/s", "delay ms", "loss %", "paths up"};
}

TextRow nic_cells(const json& nic) {
  const double delay = number_of(nic, "delay_ms");
  return {text_of(nic, "name"),
          nic_state(nic),
          rate_text(nic, "tx_MBps"),
          rate_text(nic, "rx_MBps"),
          delay > 0 ? number_text(delay, 2) : "-",
          loss_text(nic),
          paths_up_text(nic)};
}

std::string verdicts_text(const json& job, bool sound) {
  const json& verdicts = list_of(job, "verdicts");
  if (verdicts.empty() && sound) return "no faults so far\n";
  if (verdicts.empty()) {
    return "no NIC was found at fault so far; a loss of all NICs of a host at once is the fault of "
           "the host, its process or its network\n";
  }
  std::string text = "last " + std::to_string(verdicts.size()) + " of " +
                     count_text(job, "verdict_count") + " faults:\n";
  for (const json& verdict : verdicts) {
    if (!verdict.is_object()) continue;
    for (const std::string& line : verdict_lines({json{{"verdicts", {verdict}}}.dump()})) {
      text += text_of(verdict, "at") + "  " + printable(line) + "\n";
    }
  }
  return text;
}

}  // namespace r2ccl::tools
