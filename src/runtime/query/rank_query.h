// One rank's questions to others and their answers, and the questions that others ask it. A query
// asks some ranks one question, under a number that each answer repeats. An answer counts only if
// it comes from a rank that this query has asked, and while the query is open. The handler of a
// topic reads the bodies and refuses questions; this class knows ranks, numbers and times.
//
// A query of all ranks (status, drain) asks a few of them at a time and ends after a time limit.
// The others (probe, wait) ask at once and have no time limit, because their handlers ask again.
//
// Pure: the caller passes the time, and callbacks send.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "runtime/query/reachability.h"

namespace r2ccl {

enum class QueryTopic : uint8_t {
  status = 0,
  drain = 1,
  probe = 2,
  wait = 3,  // the rank asked answers again when its answer changes
};
inline constexpr size_t kQueryTopics = 4;
// A query of every rank, with a time limit.
inline constexpr bool asks_all(QueryTopic topic) {
  return topic == QueryTopic::status || topic == QueryTopic::drain;
}

// The body of a notice of kind `question` or `answer`.
struct QueryMessage {
  QueryTopic topic{};
  uint32_t number = 0;
  std::span<const std::byte> body;
};
std::vector<std::byte> encode(const QueryMessage& message);
Result<QueryMessage> decode_query_message(std::span<const std::byte> bytes);

// The subject of its notice: a newer notice with the same `slot` replaces an unread one.
uint64_t query_subject(QueryTopic topic, uint64_t slot);

class RankQuery {
 public:
  using Bytes = std::vector<std::byte>;
  // Send the body of a notice.
  struct Callbacks {
    // Returns `no_answer`; or the rank's state, if asking is pointless.
    std::function<Reachability(Rank to, QueryTopic topic, uint64_t subject, const Bytes& body)> ask;
    std::function<void(Rank to, uint64_t subject, const Bytes& body)> answer;
  };
  // The answer to a question; none: it follows by answer(), or there is none.
  using Reply = std::optional<Bytes>;
  // An error is a body that no correct rank sends.
  struct Handler {
    std::function<Result<Reply>(Rank from, uint32_t number, std::span<const std::byte>)> question;
    // Handles an answer that counts. Returns the part that the query keeps.
    std::function<Result<std::string>(Rank from, uint32_t number, std::span<const std::byte>)>
        answer;
  };

  RankQuery(Rank self, int32_t rank_count, Callbacks callbacks)
      : self_(self), rank_count_(rank_count), callbacks_(std::move(callbacks)) {}
  RankQuery(const RankQuery&) = delete;
  RankQuery& operator=(const RankQuery&) = delete;

  // Questions and answers of a topic without a handler are for another object, and ignored here.
  void serve(QueryTopic topic, Handler handler) {
    handlers_[static_cast<size_t>(topic)] = std::move(handler);
  }

  struct Member {
    Rank rank;
    Reachability reachability = Reachability::no_answer;
    std::string answer;  // as the handler has returned it
  };

  // Asks all ranks; this one has answered. Requires that no query of the topic runs.
  void ask_all(QueryTopic topic, const Bytes& body, std::string own_answer, TimeNs now,
               uint64_t slot = 0);
  // Asks these other ranks. A query of the same number ends.
  void ask(QueryTopic topic, uint32_t number, std::vector<Rank> ranks, const Bytes& body,
           uint64_t slot = 0);
  // Answers question `number` of a rank.
  void answer(QueryTopic topic, Rank to, uint32_t number, const Bytes& body, uint64_t slot = 0);

  // Handle the body of a notice.
  void on_question(Rank from, std::span<const std::byte> bytes);
  void on_answer(Rank from, std::span<const std::byte> bytes);
  // No answer comes from this rank any more.
  void on_end(Rank rank, Reachability end);
  void progress(TimeNs now) {
    if (now >= next_) run(now);
  }
  TimeNs next_timeout() const { return next_; }

  // These three tell of the last query of all ranks.
  bool running(QueryTopic topic) const;
  TimeNs ended_at(QueryTopic topic) const;                     // long ago: there was none
  const std::vector<Member>& members(QueryTopic topic) const;  // by rank

  // Returns how many messages were refused because no correct rank sends them.
  uint64_t refused() const { return refused_; }

 private:
  struct Asked {
    size_t member = 0;
    TimeNs at = 0;
  };
  struct Query {
    uint32_t number = 0;
    uint64_t slot = 0;
    Bytes body;  // empty once all have been asked
    std::vector<Member> members;
    size_t next = 0;           // the first member that has not been asked
    size_t missing = 0;        // number of members asked whose answers are expected
    std::deque<Asked> recent;  // asked members for which the next ones wait, oldest first
    TimeNs end_at = kNever;
    TimeNs end_max = kNever;
    TimeNs ended_at = kNever;
    bool running() const { return ended_at == kNever; }
    bool complete() const { return next == members.size() && missing == 0; }
  };
  // The open queries of a topic, by number. The last query of all ranks stays after its end.
  using Queries = std::map<uint32_t, Query>;

  const Handler* handler_of(QueryTopic topic) const;
  const Query* last(QueryTopic topic) const;
  Query& begin(QueryTopic topic, uint32_t number);
  Query* open(QueryTopic topic, uint32_t number);
  static Member* asked(Query& query, Rank rank);
  void ask_more(QueryTopic topic, Query& query, TimeNs now);
  void run(TimeNs now);
  void settle(QueryTopic topic, Query& query, Member& member, Reachability state);
  void refuse(Rank from, const std::string& why);

  const Rank self_;
  const int32_t rank_count_;
  const Callbacks callbacks_;
  std::array<Handler, kQueryTopics> handlers_;
  std::array<Queries, kQueryTopics> queries_;
  std::array<uint32_t, kQueryTopics> newest_{};  // the largest number of each topic so far
  TimeNs next_ = kNever;
  uint64_t refused_ = 0;
};

}  // namespace r2ccl
