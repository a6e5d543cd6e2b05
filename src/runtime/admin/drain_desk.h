// Where a request of `r2ccl drain` is taken in: reads it, asks every rank, and says in JSON what
// each has answered. One question at a time, and each is acted on once: whoever asks meanwhile
// waits until its answer has been fetched, in the order in which they are called. Only who wants to
// know how things are shares what is put to the ranks after it came. Pure: callbacks send and act.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/admin/drain.h"
#include "runtime/admin/job_survey.h"
#include "runtime/bootstrap/rank_card.h"

namespace r2ccl {

struct DrainRequest {
  DrainVerb verb = DrainVerb::check;
  std::string nic;
  std::string host;     // by its name
  uint64_t ticket = 0;  // protocol/drain.h
  friend bool operator==(const DrainRequest&, const DrainRequest&) = default;
};
// "drain VERB NIC HOST", with its end; VERB is check, start, undo, or with a ticket in hexadecimal
// digits start:TICKET or back:TICKET. None: it is nothing of ours.
std::optional<DrainRequest> parse_drain_request(std::string_view line);

class DrainDesk {
 public:
  // Sends the question to a rank; as JobSurvey::Ask.
  using Ask = std::function<Presence(Rank rank, const DrainQuestion& question)>;
  // Does to this rank's own NIC what the question says, and tells of its paths.
  using Act = std::function<DrainTally(const DrainQuestion& question)>;

  DrainDesk(Rank self, int32_t rank_count, Ask ask, Act act);
  DrainDesk(const DrainDesk&) = delete;
  DrainDesk& operator=(const DrainDesk&) = delete;

  // The answer, once every rank has given its own or its time is up; to be called until then, with
  // a number of `asker` that is larger than those of all earlier requests.
  std::optional<std::string> answer(uint64_t asker, std::string_view line,
                                    const std::vector<RankCard>& cards, TimeNs now);
  void on_answer(Rank from, const DrainAnswer& answer);
  void progress(TimeNs now);
  TimeNs next_timeout() const;

 private:
  bool shares(uint64_t asker, const std::optional<DrainRequest>& request) const;
  std::string answer_text(const std::vector<RankCard>& cards) const;

  const Ask ask_;
  const Act act_;
  JobSurvey survey_;
  std::optional<uint64_t> asker_;  // whose question it is; none: its answer has been fetched
  bool turn_over_ = false;         // and the next one begins with the next progress()
  uint64_t newest_ = 0;            // of all askers so far
  uint64_t newest_at_start_ = 0;   // of those that had come when the survey began
  DrainRequest request_;
  DrainQuestion question_;
};

}  // namespace r2ccl
