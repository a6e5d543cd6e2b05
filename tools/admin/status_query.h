// Asks the ranks of many jobs at once through their status sockets. No socket delays the answer of
// another one, and no user's sockets use up the descriptors that the others need.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/admin/status_client.h"

namespace r2ccl::tools {

struct JobQuery {
  LocalJob job;
  std::string request;  // one line
  // After this time without an answer the query asks more ranks of the job: one, then two, then
  // four.
  TimeNs patience = 0;
  TimeNs limit = 0;  // for the whole job
  // An answer with `problem` counts as none, so the query asks the next rank.
  bool refuse_problems = false;
};

struct SilentRank {
  StatusSocketFile file;
  std::string why;
};

struct JobReply {
  nlohmann::json answer;     // an object, or null
  StatusSocketFile speaker;  // the socket that sent it
  // Sockets without an answer, except sockets of processes that ended.
  std::vector<SilentRank> silent;
};

// Returns the replies in the order of the queries, once each query has its answer, has asked all of
// its sockets or has reached its limit.
std::vector<JobReply> ask_jobs(const std::vector<JobQuery>& queries, const Clock& clock);

// Returns the JSON object in `text`; null if it is none, or is nested deeper than any rank's
// answer.
nlohmann::json parse_status_answer(const std::string& text);

}  // namespace r2ccl::tools
