#include "tools/admin/status_metrics_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tools/admin/status_metrics.h"
#include "tools/admin/status_query.h"
#include "tools/common/command.h"
#include "tools/common/output_file.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

// How long a rank has to answer. The ranks of other users cost root no more than this in all.
constexpr TimeNs kOwnRankLimit = 5 * kSecond;
constexpr TimeNs kForeignRankLimit = 1 * kSecond;

std::vector<StatusSocketFile> find_ranks(const MetricsOptions& options) {
  const StatusSockets found = find_status_sockets(status_places(
      [](const char* name) { return static_cast<const char*>(std::getenv(name)); }, geteuid()));
  for (const std::string& problem : found.problems) {
    std::fprintf(stderr, "r2ccl status: %s\n", printable(problem).c_str());
  }
  std::vector<StatusSocketFile> ranks;
  for (const LocalJob& job : choose_jobs(found, options.pid, options.comm)) {
    ranks.insert(ranks.end(), job.files.begin(), job.files.end());
  }
  // If two ranks claim one series, the first one has it.
  std::stable_partition(ranks.begin(), ranks.end(),
                        [](const auto& rank) { return !is_foreign(rank.owner); });
  return ranks;
}

// Asks each rank by itself, so that each one shows whether it answers.
std::vector<RankAnswer> ask_ranks(const std::vector<StatusSocketFile>& ranks, const Clock& clock) {
  std::vector<JobQuery> queries;
  for (const StatusSocketFile& rank : ranks) {
    const TimeNs limit = is_foreign(rank.owner) ? kForeignRankLimit : kOwnRankLimit;
    queries.push_back({{rank.name.comm, rank.owner, {rank}}, "report\n", limit, limit, true});
  }
  std::vector<JobReply> replies = ask_jobs(queries, clock);
  std::vector<RankAnswer> answers;
  for (size_t i = 0; i < ranks.size(); ++i) {
    JobReply& reply = replies[i];
    const bool ended = reply.answer.is_null() && reply.silent.empty();
    if (!ended) answers.push_back({ranks[i], std::move(reply.answer)});
  }
  return answers;
}

}  // namespace

int run_metrics(const MetricsOptions& options) {
  const SystemClock clock;
  std::string told;  // the last problem, which is told once
  while (true) {
    const std::string text = metrics_of(ask_ranks(find_ranks(options), clock));
    if (options.output.empty()) {
      const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
      return written ? 0 : report_error("status", {Code::system, "cannot write the metrics"});
    }
    const Status replaced = replace_file(options.output, text);
    if (!options.repeating) return replaced.ok() ? 0 : report_error("status", replaced);
    if (std::exchange(told, replaced.message()) != replaced.message()) {
      if (replaced.ok()) {
        std::fprintf(stderr, "r2ccl status: %s is written again\n", options.output.c_str());
      } else {
        report_error("status", replaced);
      }
    }
    pause_for(options.interval_s);
  }
}

}  // namespace r2ccl::tools
