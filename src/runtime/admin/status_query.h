// A status query: asks every other rank for its status, a few at a time, and collects the answers
// until a time limit. One query runs at a time; a caller that wants one meanwhile shares it. Pure:
// progress() takes the time, and a callback sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace r2ccl {

// The state of a rank when its answer is wanted.
enum class Reachability : uint8_t {
  answered,
  no_answer,  // not within the time limit
  left,       // said goodbye
  dead,
  cut_off,
};
const char* to_string(Reachability reachability);

class StatusQuery {
 public:
  // Sends question `number` to a rank and returns `no_answer`. Returns the rank's state instead if
  // the question is pointless.
  using Ask = std::function<Reachability(Rank rank, uint32_t number)>;

  StatusQuery(Rank self, int32_t rank_count, Ask ask)
      : self_(self), members_(static_cast<size_t>(rank_count)), ask_(std::move(ask)) {}

  struct Member {
    Reachability reachability = Reachability::no_answer;
    std::string answer;  // as passed to on_answer
  };

  bool running() const { return running_; }
  // Requires that no query is running.
  void start(TimeNs now, std::string own_answer);
  // Returns whether the answer belongs to the running query.
  bool expects(Rank from, uint32_t number) const;
  void on_answer(Rank from, uint32_t number, std::string answer);
  void progress(TimeNs now);
  TimeNs next_timeout() const;
  TimeNs ended_at() const { return ended_at_; }  // end of the last query
  // Returns the members of the last query, by rank.
  const std::vector<Member>& members() const { return members_; }

 private:
  struct Asked {
    size_t rank = 0;
    TimeNs at = 0;
  };
  void ask_more(TimeNs now);

  const Rank self_;
  std::vector<Member> members_;
  const Ask ask_;
  bool running_ = false;
  uint32_t number_ = 0;
  size_t next_ = 0;           // the first rank that has not been asked
  size_t missing_ = 0;        // number of ranks asked whose answers are expected
  std::deque<Asked> recent_;  // asked ranks for which the next ones wait, oldest first
  TimeNs end_at_ = kNever;
  TimeNs end_max_ = kNever;
  TimeNs ended_at_ = INT64_MIN / 2;  // long ago
};

}  // namespace r2ccl
