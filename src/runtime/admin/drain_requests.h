// Handles the requests of `r2ccl drain`: reads a request, asks every rank, and returns the answers
// in JSON. Answers the questions of other ranks, too. It handles one request at a time, and acts on
// each exactly once. Other clients wait in the order of their calls until that answer has been
// fetched. Only a check shares a question that was sent to the ranks after the check arrived. Pure:
// the query sends, and a callback acts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "protocol/admin/drain.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/query/rank_query.h"

namespace r2ccl {

struct DrainRequest {
  DrainVerb verb = DrainVerb::check;
  std::string nic;
  std::string host;     // the host's name
  uint64_t ticket = 0;  // protocol/admin/drain.h
  friend bool operator==(const DrainRequest&, const DrainRequest&) = default;
};
// Parses "drain VERB NIC HOST" with its end of line. VERB is check, start, undo, or with a ticket
// in hexadecimal digits start:TICKET or back:TICKET. Returns none for any other line.
std::optional<DrainRequest> parse_drain_request(std::string_view line);

// The answer to a request. Its JSON is `{"problem", "unknown"}`, or has the fields host, nic and
// ranks.
struct DrainReply {
  std::string problem;  // why there are no answers; empty: there are
  std::string unknown;  // "host" or "nic" where the problem is that the job has none of this name
  std::vector<RankQuery::Member> ranks;  // an answer is a tally in JSON
};
std::string drain_problem_text(const std::string& unknown, const std::string& problem);
// Writes the fields `presence` and `tally` into an object that has begun.
void write_drain_answer(JsonWriter& out, const RankQuery::Member& member);

class DrainRequests {
 public:
  // Carries the question out on this rank's own NIC, and returns the tally of its paths.
  using Act = std::function<DrainTally(const DrainQuestion& question)>;

  // `query` must outlive this.
  DrainRequests(RankQuery& query, size_t rank_count, Act act);
  DrainRequests(const DrainRequests&) = delete;
  DrainRequests& operator=(const DrainRequests&) = delete;

  // Returns the answer, once every rank has answered or the time is over. The caller repeats the
  // call until then. `client` is the client's number, larger than those of all earlier requests.
  std::optional<std::string> answer(uint64_t client, std::string_view line,
                                    const std::vector<RankInfo>& rank_table, TimeNs now);
  // The same, and not in JSON.
  std::optional<DrainReply> reply(uint64_t client, std::string_view line,
                                  const std::vector<RankInfo>& rank_table, TimeNs now);
  // After the query's.
  void progress(TimeNs now);
  TimeNs next_timeout() const;

 private:
  bool shares(uint64_t client, const std::optional<DrainRequest>& request) const;
  bool asking() const { return query_.running(QueryTopic::drain); }
  DrainReply answers() const { return {"", "", query_.members(QueryTopic::drain)}; }
  RankQuery::Handler handler();

  RankQuery& query_;
  const size_t rank_count_;
  const Act act_;
  std::optional<uint64_t> client_;  // the client that asked; none: its answer has been fetched
  bool turn_over_ = false;          // the next client gets the slot with the next progress()
  uint64_t newest_ = 0;             // the latest client so far
  uint64_t newest_at_start_ = 0;    // the latest client when the query began
  DrainRequest request_;
};

}  // namespace r2ccl
