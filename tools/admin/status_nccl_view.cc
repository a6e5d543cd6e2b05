#include "tools/admin/status_nccl_view.h"

#include <algorithm>
#include <vector>

#include "tools/admin/json_fields.h"
#include "tools/admin/status_cells.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {

using nlohmann::json;

namespace {

// An answer has one member, the process itself.
const json& member_of(const json& process) {
  static const json kNone = json::object();
  const json& members = list_of(process, "members");
  return members.empty() ? kNone : members.front();
}

std::string counted(size_t count, const std::string& thing, const std::string& things) {
  return std::to_string(count) + " " + (count == 1 ? thing : things);
}

std::string title(const json& process) {
  std::string text = "NCCL process " + text_of(process, "comm") + ": pid " +
                     count_text(process, "pid") + " on host " + text_of(process, "host");
  if (number_of(process, "rank", -1) >= 0) {
    text += ", rank " + count_text(process, "rank") + " of " + count_text(process, "ranks");
  }
  text += ", linked with " + counted(list_of(process, "links").size(), "process", "processes") +
          ", up " + duration_text(number_of(process, "uptime_ms")) + ", r2ccl " +
          text_of(process, "version");
  if (!flag_of(process, "authenticated")) text += ", no secret: its start was open to strangers";
  return text + "\n";
}

std::string own_nics_text(const json& process) {
  std::vector<TextRow> rows = {nic_titles()};
  for (const json& nic : list_of(member_of(process), "nics")) rows.push_back(nic_cells(nic));
  return layout(rows);
}

std::string end_text(const json& link) {
  return count_text(link, "pid") + " on " + text_of(link, "host");
}

std::string links_text(const json& process) {
  if (list_of(process, "links").empty()) return "";
  std::vector<TextRow> rows = {
      {"process", "host", "connections", "paths up", "tx MB/s", "rx MB/s", "verdicts"}};
  for (const json& link : list_of(process, "links")) {
    rows.push_back({count_text(link, "pid"), text_of(link, "host"), count_text(link, "connections"),
                    paths_up_text(link), rate_text(link, "tx_MBps"), rate_text(link, "rx_MBps"),
                    count_text(link, "verdicts")});
    if (!flag_of(link, "usable")) rows.back().push_back("ends");
  }
  return layout(rows) + "\n";
}

std::string peer_text(const json& process, const json& trouble) {
  for (const json& link : list_of(process, "links")) {
    if (number_of(link, "peer", -1) == number_of(trouble, "peer", -2)) return end_text(link);
  }
  return "?";
}

std::string cause_text(const json& trouble) {
  if (text_of(trouble, "state") == "suspect") return "late";
  const std::string cause = text_of(trouble, "cause");
  if (cause == "none") return "never up yet";
  const std::string peer_cause = text_of(trouble, "peer_cause");
  const bool by_peer = cause == "peer_notice" && peer_cause != "none";
  return by_peer ? peer_cause + " (seen by the other end)" : cause;
}

std::string lost_text(const json& process) {
  const json& member = member_of(process);
  std::vector<TextRow> rows = {{"NIC", "to process", "NIC", "state", "for", "why", "next attempt"}};
  for (const json& trouble : list_of(member, "troubles")) {
    const std::string state = text_of(trouble, "state");
    const std::string next = state != "down" ? "under way"
                             : flag_of(trouble, "opens")
                                 ? "in " + duration_text(number_of(trouble, "next_attempt_ms"))
                                 : "by the other end";
    rows.push_back({text_of(trouble, "nic"), peer_text(process, trouble),
                    text_of(trouble, "peer_nic"), state,
                    duration_text(number_of(trouble, "since_ms")), cause_text(trouble), next});
  }
  if (rows.size() == 1) {
    const json& nics = list_of(member, "nics");
    const bool drained = std::any_of(nics.begin(), nics.end(), [](const json& nic) {
      return number_of(nic, "paths_drained") > 0;
    });
    return drained ? "all other paths are up\n" : "all paths are up\n";
  }
  std::string text = "paths that are not up:\n" + layout(rows);
  const double left_out = number_of(member, "troubles_left_out");
  return left_out > 0 ? text + "and " + number_text(left_out, 0) + " more\n" : text;
}

}  // namespace

bool is_nccl(const json& answer) {
  return text_of(answer, "kind") == "nccl";
}

std::string nccl_text(const json& process) {
  // A fault is told some seconds after its paths are lost.
  const bool sound = list_of(member_of(process), "troubles").empty();
  const bool waits = !sound && list_of(process, "verdicts").empty();
  return title(process) + "\n" + own_nics_text(process) + "\n" + links_text(process) +
         lost_text(process) + "\n" + (waits ? "no verdict so far\n" : verdicts_text(process, true));
}

}  // namespace r2ccl::tools
