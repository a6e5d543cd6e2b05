#include "tools/admin/drain_answer.h"

#include <cmath>

#include "tools/admin/json_fields.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {

using nlohmann::json;

namespace {

std::string whole_text(double count) {
  return std::to_string(static_cast<long long>(std::llround(count)));
}

const json& ranks_of(const json& answer) {
  static const json kNone = json::array();
  const auto found = answer.is_object() ? answer.find("ranks") : answer.end();
  return found != answer.end() && found->is_array() ? *found : kNone;
}

json tally_of(const json& rank) {
  return rank.is_object() ? rank.value("tally", json::object()) : json::object();
}

// An NCCL process has no rank here. `before`: of the fields that name it.
std::string process_text(const json& rank, const std::string& before = "") {
  return "process " + whole_text(number_of(rank, (before + "pid").c_str())) + " (" +
         text_of(rank, (before + "host").c_str()) + ")";
}

std::string who(const json& rank) {
  if (rank.is_object() && rank.contains("pid")) return process_text(rank);
  return "rank " + whole_text(number_of(rank, "rank")) + " (" + text_of(rank, "host") + ")";
}

std::string peer_text(const json& tally) {
  const double peer = number_of(tally, "peer", -1);
  return peer < 0 ? "" : ", one of them to rank " + whole_text(peer);
}

std::string no_answer_text(const json& rank) {
  return who(rank) +
         " gives no answer: stopped, very busy, not to be reached now, or of a version that knows "
         "no drain";
}

bool gone(const std::string& presence) {
  return presence == "left" || presence == "dead" || presence == "cut off";
}

double unmarked(const json& tally) {
  return number_of(tally, "paths") - number_of(tally, "marked");
}

std::string drain_obstacle(const json& tally) {
  if (unmarked(tally) > 0) {
    return "has not taken " + whole_text(unmarked(tally)) + " paths out of service yet" +
           peer_text(tally);
  }
  if (number_of(tally, "in_use") > 0) {
    return "uses " + whole_text(number_of(tally, "in_use")) +
           " paths all the same, because nothing else that is in service is up" + peer_text(tally);
  }
  if (number_of(tally, "busy") > 0) {
    return "has chunks under way on " + whole_text(number_of(tally, "busy")) + " paths" +
           peer_text(tally);
  }
  return "";
}

std::string undo_obstacle(const json& tally) {
  const double marked = number_of(tally, "marked");
  return marked > 0 ? "still rests " + whole_text(marked) + " paths" : "";
}

}  // namespace

DrainProblem drain_problem(const json& answer) {
  if (answer.is_object() && answer.contains("ranks")) return {};
  const std::string why = text_of(answer, "problem");
  return {why.empty() ? "it gives no answer that could be understood" : why,
          text_of(answer, "unknown")};
}

DrainSums drain_sums(const json& answer) {
  DrainSums sums;
  for (const json& rank : ranks_of(answer)) {
    const json tally = tally_of(rank);
    if (number_of(tally, "paths") > 0) ++sums.ranks;
    // Both ends of a path count it.
    sums.paths += number_of(tally, "paths") / 2;
    sums.up += number_of(tally, "up") / 2;
  }
  return sums;
}

std::vector<std::string> drain_obstacles(const json& answer, bool undo) {
  std::vector<std::string> lines;
  for (const json& rank : ranks_of(answer)) {
    const std::string presence = text_of(rank, "presence");
    if (gone(presence)) continue;
    if (presence != "answered") {
      lines.push_back(no_answer_text(rank));
      continue;
    }
    json tally = tally_of(rank);
    // The ends of a link of NCCL processes number each other for themselves.
    if (rank.contains("pid") && tally.is_object()) tally.erase("peer");
    const std::string why = undo ? undo_obstacle(tally) : drain_obstacle(tally);
    if (!why.empty()) lines.push_back(who(rank) + " " + why);
  }
  return lines;
}

std::vector<std::string> drain_stranded(const json& answer) {
  std::vector<std::string> lines;
  for (const json& rank : ranks_of(answer)) {
    const json tally = tally_of(rank);
    const double stranded = number_of(tally, "stranded");
    if (stranded <= 0 || unmarked(tally) <= 0) continue;
    lines.push_back(who(rank) + " would have no other path in service to " +
                    (rank.contains("peer_pid") ? process_text(rank, "peer_")
                     : stranded == 1 ? "rank " + whole_text(number_of(tally, "stranded_peer"))
                                     : whole_text(stranded) + " ranks"));
  }
  return lines;
}

// Answers from ranks of other hosts come too early: they learn of the change from the ranks of this
// host.
std::vector<std::string> drain_kept(const json& answer) {
  std::vector<std::string> lines;
  for (const json& rank : ranks_of(answer)) {
    const std::string presence = text_of(rank, "presence");
    if (gone(presence) || text_of(rank, "host") != text_of(answer, "host")) continue;
    if (presence != "answered") {
      lines.push_back(no_answer_text(rank));
    } else if (number_of(tally_of(rank), "marked") > 0) {
      lines.push_back(who(rank) +
                      " has it out of service, because it was so before or somebody "
                      "else asked for it too");
    }
  }
  return lines;
}

}  // namespace r2ccl::tools
