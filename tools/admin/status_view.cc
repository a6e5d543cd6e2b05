#include "tools/admin/status_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tools/admin/json_fields.h"
#include "tools/admin/status_cells.h"
#include "tools/admin/status_nccl_view.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {

using nlohmann::json;

namespace {

// The number of healthy ranks that the view of a large job shows.
constexpr int kHealthyShown = 32;

bool answered(const json& member) {
  return text_of(member, "presence") == "answered";
}

bool healthy(const json& member) {
  const json& nics = list_of(member, "nics");
  return answered(member) && text_of(member, "error").empty() &&
         list_of(member, "troubles").empty() &&
         std::all_of(nics.begin(), nics.end(),
                     [](const json& nic) { return flag_of(nic, "up") || flag_of(nic, "drained"); });
}

bool has_drained_nic(const json& member) {
  const json& nics = list_of(member, "nics");
  return std::any_of(nics.begin(), nics.end(),
                     [](const json& nic) { return flag_of(nic, "drained"); });
}

// Returns the reason why there are no numbers.
std::string absence(const json& member) {
  const std::string presence = text_of(member, "presence");
  if (presence == "no answer") return "NO ANSWER: stopped, very busy, or not to be reached now";
  if (presence == "left") return "left: it finalized its communicator";
  if (presence == "dead") return "DEAD: its process is gone";
  if (presence == "cut off") return "CUT OFF: nothing reaches its host";
  return presence;
}

void add_member(const json& member, std::vector<TextRow>* rows) {
  const TextRow head = {count_text(member, "rank"), text_of(member, "host"),
                        count_text(member, "pid")};
  if (!answered(member)) {
    rows->push_back(head);
    rows->back().push_back(absence(member));
    return;
  }
  bool first = true;
  for (const json& nic : list_of(member, "nics")) {
    TextRow row = first ? head : TextRow{"", "", ""};
    row.push_back(first ? count_text(member, "operations") : "");
    first = false;
    const TextRow cells = nic_cells(nic);
    row.insert(row.end(), cells.begin(), cells.end());
    rows->push_back(row);
  }
}

std::string members_text(const json& job, bool whole) {
  std::vector<TextRow> rows = {{"rank", "host", "pid", "operations"}};
  const TextRow titles = nic_titles();
  rows.front().insert(rows.front().end(), titles.begin(), titles.end());
  int shown = 0;
  int hidden = 0;
  for (const json& member : list_of(job, "members")) {
    if (healthy(member) && !has_drained_nic(member) && !whole && ++shown > kHealthyShown) {
      ++hidden;
      continue;
    }
    add_member(member, &rows);
  }
  std::string text = layout(rows);
  if (hidden > 0) {
    text += "and " + std::to_string(hidden) +
            " more ranks with nothing wrong: --paths shows them too\n";
  }
  return text;
}

// Every working job has shorter calls outstanding. A rank asks the others after this time.
constexpr double kCallShownMs = 250;

// Returns the calls that ranks wait in, and the ranks that they wait for; ranks with the same text
// share a row. Empty if no call has lasted long.
std::string calls_text(const json& job) {
  struct Row {
    std::string ranks;
    double ms = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> calls;
  for (const json& member : list_of(job, "members")) {
    const double ms = number_of(member, "in_ms");
    const std::string call = text_of(member, "in");
    if (!answered(member) || call.empty() || ms < kCallShownMs) continue;
    Row& row = calls[{call, text_of(member, "waits_for")}];
    row.ranks += (row.ranks.empty() ? "" : ", ") + count_text(member, "rank");
    row.ms = std::max(row.ms, ms);
  }
  if (calls.empty()) return "";
  std::vector<TextRow> rows = {{"rank", "in", "for", "waits for"}};
  for (const auto& [key, row] : calls) {
    rows.push_back(
        {row.ranks, key.first, duration_text(row.ms), key.second.empty() ? "-" : key.second});
  }
  return "calls that wait:\n" + layout(rows) + "\n";
}

// A path as both of its ends know it.
using PathKey = std::vector<std::string>;

PathKey key_of(const json& member, const json& trouble, bool reverse) {
  PathKey near = {count_text(member, "rank"), text_of(trouble, "nic")};
  PathKey far = {count_text(trouble, "peer"), text_of(trouble, "peer_nic")};
  if (reverse) std::swap(near, far);
  near.insert(near.end(), far.begin(), far.end());
  return near;
}

std::string cause_text(const json& member, const json& trouble) {
  // A suspect path still exists: its last failure, if any, is not the reason for the suspicion.
  if (text_of(trouble, "state") == "suspect") {
    return "late (seen by rank " + count_text(member, "rank") + ")";
  }
  const std::string cause = text_of(trouble, "cause");
  if (cause == "none") return "never up yet";
  const std::string peer_cause = text_of(trouble, "peer_cause");
  if (cause != "peer_notice" || peer_cause == "none") {
    return cause + " (seen by rank " + count_text(member, "rank") + ")";
  }
  return peer_cause + " (seen by rank " + count_text(trouble, "peer") + ")";
}

const json* find_member(const json& job, const json& rank) {
  for (const json& member : list_of(job, "members")) {
    if (member.is_object() && member.value("rank", json()) == rank) return &member;
  }
  return nullptr;
}

// Returns whether the other end of the relay path tells of it too, and opens it.
bool opened_by_peer(const json& job, const json& member, const json& relay) {
  const json* peer = find_member(job, relay.is_object() ? relay.value("peer", json()) : json());
  if (peer == nullptr) return false;
  const json& theirs = list_of(*peer, "relays");
  return std::any_of(theirs.begin(), theirs.end(), [&](const json& each) {
    return flag_of(each, "opens") && count_text(each, "peer") == count_text(member, "rank");
  });
}

// Only the end that opens the path knows the rank, not just its host.
std::string via_text(const json& relay) {
  const std::string host = text_of(relay, "via_host");
  if (host.empty()) return "?";
  if (number_of(relay, "via", -1) < 0) return "host " + host;
  return "rank " + count_text(relay, "via") + " (host " + host + ")";
}

// Both ends report such a path; the end that opens it knows the rank that relays.
std::string relays_text(const json& job) {
  std::vector<TextRow> rows = {{"rank", "to rank", "through", "state", "tx MB/s", "rx MB/s"}};
  double left_out = 0;
  for (const json& member : list_of(job, "members")) {
    left_out += number_of(member, "relays_left_out");
    for (const json& relay : list_of(member, "relays")) {
      if (!flag_of(relay, "opens") && opened_by_peer(job, member, relay)) continue;
      rows.push_back({count_text(member, "rank"), count_text(relay, "peer"), via_text(relay),
                      text_of(relay, "state"), rate_text(relay, "tx_MBps"),
                      rate_text(relay, "rx_MBps")});
    }
  }
  if (rows.size() == 1 && left_out == 0) return "";
  std::string text = "paths through a third host:\n" + layout(rows);
  if (left_out > 0) text += "and " + number_text(left_out, 0) + " more\n";
  return text + "\n";
}

bool drained_any(const json& job) {
  for (const json& member : list_of(job, "members")) {
    for (const json& nic : list_of(member, "nics")) {
      if (number_of(nic, "paths_drained") > 0) return true;
    }
  }
  return false;
}

// Both ends report a path; the end that opens it knows the time of the next try.
std::string troubles_text(const json& job) {
  std::set<PathKey> told;
  for (const json& member : list_of(job, "members")) {
    for (const json& trouble : list_of(member, "troubles")) {
      if (flag_of(trouble, "opens")) told.insert(key_of(member, trouble, false));
    }
  }
  std::vector<TextRow> rows = {{"rank", "NIC", "to rank", "NIC", "state", "for", "why",
                                "next attempt", "penalty", "returns"}};
  double left_out = 0;
  for (const json& member : list_of(job, "members")) {
    left_out += number_of(member, "troubles_left_out");
    for (const json& trouble : list_of(member, "troubles")) {
      const bool opens = flag_of(trouble, "opens");
      if (!opens && told.count(key_of(member, trouble, true)) > 0) continue;
      TextRow row = key_of(member, trouble, false);
      const std::string state = text_of(trouble, "state");
      const std::string next = state != "down" ? "under way"
                               : opens
                                   ? "in " + duration_text(number_of(trouble, "next_attempt_ms"))
                                   : "by rank " + count_text(trouble, "peer");
      for (const std::string& cell :
           {state, duration_text(number_of(trouble, "since_ms")), cause_text(member, trouble), next,
            number_text(number_of(trouble, "penalty"), 1), count_text(trouble, "returns")}) {
        row.push_back(cell);
      }
      rows.push_back(row);
    }
  }
  if (rows.size() == 1) return drained_any(job) ? "all other paths are up\n" : "all paths are up\n";
  std::string text = "paths that are not up:\n" + layout(rows);
  if (left_out > 0) text += "and " + number_text(left_out, 0) + " more\n";
  return text;
}

// NICs that have not served since the start, a line each.
std::string idle_text(const json& job) {
  std::string text;
  for (const json& member : list_of(job, "members")) {
    for (const json& nic : list_of(member, "nics")) {
      const std::string idle = text_of(nic, "idle");
      if (idle.empty()) continue;
      text += text_of(nic, "name") + " of rank " + count_text(member, "rank") + " (" +
              text_of(member, "host") + ") has not served since the start: " + idle + "\n";
    }
  }
  return text;
}

// Returns a line for each rank whose connections were tampered with, or whose log loses lines.
std::string counts_text(const json& job) {
  std::string text;
  for (const json& member : list_of(job, "members")) {
    const std::string rank = "rank " + count_text(member, "rank") + ": ";
    if (number_of(member, "corruptions") > 0) {
      text += rank + count_text(member, "corruptions") +
              " connections ended by bytes that were changed on the way\n";
    }
    if (number_of(member, "log_lines_dropped") > 0) {
      text += rank + count_text(member, "log_lines_dropped") +
              " lines of its log were dropped: its reader was slow or gone, or the disk full\n";
    }
  }
  return text.empty() ? text : text + "\n";
}

// Returns whether the job has no fault at all, of a NIC or otherwise.
bool sound(const json& job) {
  const json& members = list_of(job, "members");
  return text_of(job, "error").empty() &&
         std::all_of(members.begin(), members.end(), [](const json& member) {
           return healthy(member) || text_of(member, "presence") == "left";
         });
}

// Sets the rates of a NIC or a relay path from its bytes and those of `ms` before.
void add_rate(const json& before, double ms, json* entry) {
  (*entry)["tx_MBps"] = (number_of(*entry, "tx_bytes") - number_of(before, "tx_bytes")) / ms / 1e3;
  (*entry)["rx_MBps"] = (number_of(*entry, "rx_bytes") - number_of(before, "rx_bytes")) / ms / 1e3;
}

// Does so for each entry of the list. `key` is the field that tells its entries apart.
void add_list_rates(const json& before, double ms, const char* list, const char* key,
                    json* member) {
  if (list_of(*member, list).empty()) return;
  for (json& entry : (*member)[list]) {
    if (!entry.is_object()) continue;
    for (const json& old : list_of(before, list)) {
      if (!old.is_object() || old.value(key, json()) != entry.value(key, json())) continue;
      add_rate(old, ms, &entry);
      break;
    }
  }
}

}  // namespace

void add_rates(const json& before, json* job) {
  if (!job->is_object() || !job->contains("members") || !(*job)["members"].is_array()) return;
  for (json& member : (*job)["members"]) {
    if (!answered(member)) continue;
    const json* earlier = find_member(before, member.value("rank", json()));
    if (earlier == nullptr || !answered(*earlier)) continue;
    const double ms = number_of(member, "uptime_ms") - number_of(*earlier, "uptime_ms");
    if (ms <= 0) continue;
    add_list_rates(*earlier, ms, "nics", "name", &member);
    add_list_rates(*earlier, ms, "relays", "peer", &member);
    // An NCCL process is the only member of its answer.
    add_list_rates(before, ms, "links", "link", job);
  }
}

std::string job_text(const json& job, bool whole) {
  if (is_nccl(job)) return nccl_text(job);
  const auto several = [](double count, const std::string& thing) {
    return number_text(count, 0) + " " + thing + (count == 1 ? "" : "s");
  };
  std::string text =
      "job " + text_of(job, "comm") +
      (text_of(job, "name").empty() ? "" : " \"" + text_of(job, "name") + "\"") + ": " +
      several(number_of(job, "ranks"), "rank") + " on " +
      several(static_cast<double>(list_of(job, "hosts").size()), "host") + ", up " +
      duration_text(number_of(job, "uptime_ms")) + ", r2ccl " + text_of(job, "version") +
      (flag_of(job, "authenticated") ? "" : ", no secret: its start was open to strangers") + "\n";
  const std::string error = text_of(job, "error");
  if (!error.empty()) text += "FAILED: " + error + "\n";
  const auto found = job.find("view");
  const json view = found == job.end() ? json() : *found;
  if (!list_of(view, "rates").empty()) text += "plans follow: " + text_of(view, "words") + "\n";
  return text + "\n" + members_text(job, whole) + "\n" + calls_text(job) + relays_text(job) +
         troubles_text(job) + idle_text(job) + "\n" + counts_text(job) +
         verdicts_text(job, sound(job));
}

std::string paths_text(const json& report) {
  const bool nccl = is_nccl(report);
  std::vector<TextRow> rows = {{nccl ? "to process" : "to rank", "NIC", "remote", "state", "for",
                                "rate MB/s", "delay ms", "loss %", "control ms", "tx MB", "rx MB",
                                "downs", "last one", "why", "last attempt"}};
  for (const json& path : list_of(report, "paths")) {
    rows.push_back({nccl ? count_text(path, "peer_pid") + " on " + text_of(path, "peer_host")
                         : count_text(path, "peer"),
                    text_of(path, "nic"), text_of(path, "remote"), text_of(path, "state"),
                    duration_text(number_of(path, "state_ms")),
                    number_text(number_of(path, "rate_MBps"), 1),
                    number_text(number_of(path, "base_delay_ms"), 2), loss_text(path),
                    number_text(number_of(path, "lane_rtt_ms"), 2),
                    number_text(number_of(path, "tx_bytes") / 1e6, 1),
                    number_text(number_of(path, "rx_bytes") / 1e6, 1), count_text(path, "downs"),
                    text_of(path, "down_at"), text_of(path, "down_why"), text_of(path, "attempt")});
  }
  const std::string who = nccl ? "this process" : "rank " + count_text(report, "rank");
  return "paths of " + who + " (" + text_of(report, "host") + ", pid " + count_text(report, "pid") +
         "):\n" + layout(rows);
}

// dump() throws on a text that is not UTF-8, unless an error handler is given.
std::string json_line(const nlohmann::json& value) {
  constexpr bool kAsciiOnly = true;
  return value.dump(-1, ' ', kAsciiOnly, nlohmann::json::error_handler_t::replace);
}

}  // namespace r2ccl::tools
