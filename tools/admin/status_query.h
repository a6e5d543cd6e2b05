// Asks the ranks of many jobs at once through their status sockets, so that no socket delays the
// answer of another one, and no user's sockets use up what the others need.
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
  // After this time without an answer more ranks of the job are asked: one, then two, then four.
  TimeNs patience = 0;
  TimeNs limit = 0;              // for the whole job
  bool refuse_problems = false;  // an answer with `problem` counts as none, so the next is asked
};

struct SilentRank {
  StatusSocketFile file;
  std::string why;
};

struct JobReply {
  nlohmann::json answer;     // an object, or null
  StatusSocketFile speaker;  // the socket that gave it
  std::vector<SilentRank>
      silent;  // sockets that gave none; those of processes that ended are left out
};

// The replies in the order of the queries. Returns when each query has its answer, has asked all of
// its sockets or has reached its limit.
std::vector<JobReply> ask_jobs(const std::vector<JobQuery>& queries, const Clock& clock);

// The JSON object in `text`; null when it is none, or is nested deeper than ranks ever answer.
nlohmann::json parse_status_answer(const std::string& text);

}  // namespace r2ccl::tools
