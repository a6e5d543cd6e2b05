#include "tools/simulate/sim_json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

const char* group_of(TrialSpan::What what) {
  switch (what) {
    case TrialSpan::What::operation:
      return "operations";
    case TrialSpan::What::fault:
      return "faults";
    case TrialSpan::What::suspect:
      return "suspect";
    case TrialSpan::What::down:
      return "down";
  }
  return "";
}

}  // namespace

std::string trial_json(const TrialResult& result) {
  char trace[17];
  std::snprintf(trace, sizeof trace, "%016llx", static_cast<unsigned long long>(result.trace_hash));
  json document = {{"violations", result.violations},
                   {"trace", trace},
                   {"simulated_ms", to_ms(result.simulated)},
                   {"checked_elements", result.elements},
                   {"chunks", result.seen.chunks},
                   {"sent_again", result.seen.resent},
                   {"duplicates", result.seen.duplicates},
                   {"operations", json::array()},
                   {"faults", json::array()},
                   {"suspect", json::array()},
                   {"down", json::array()},
                   {"notes", json::array()}};
  for (const TrialSpan& span : result.spans) {
    json entry = {{"host", span.host},
                  {"from_ms", to_ms(span.from)},
                  {"to_ms", to_ms(span.to)},
                  {"what", span.text}};
    if (span.nic >= 0) entry["nic"] = span.nic;
    document[group_of(span.what)].push_back(std::move(entry));
  }
  for (const TrialNote& note : result.notes) {
    json entry = {{"at_ms", to_ms(note.at)}, {"what", note.text}};
    if (note.rank >= 0) entry["rank"] = note.rank;
    document["notes"].push_back(std::move(entry));
  }
  return document.dump(1) + "\n";
}

}  // namespace r2ccl::tools
