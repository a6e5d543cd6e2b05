#include "runtime/query/query_links.h"

#include "base/limits.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

constexpr auto kQuestion = static_cast<uint8_t>(NoticeKind::question);

// Returns `no_answer` if the rank may answer.
Reachability state_of(const Link& link, QueryTopic topic) {
  if (const auto end = link.peer_end()) return reachability_of(*end);
  // It makes no more calls, but its NICs and the calls before that still matter.
  if (asks_all(topic) && link.peer_said_goodbye()) return Reachability::left;
  return Reachability::no_answer;
}

// Returns whether the rank has left so many questions unread that it gets no further one. The other
// topics have few slots, or questions that soon become useless.
bool reads_nothing(const Link& link, QueryTopic topic) {
  if (!asks_all(topic)) return false;
  const size_t unread =
      link.notices_pending(kQuestion, query_subject(topic, 0), query_subject(topic, UINT64_MAX));
  return unread >= limits::kStatusQueryNoticesAhead;
}

}  // namespace

RankQuery::Callbacks query_links(Members& members) {
  RankQuery::Callbacks callbacks;
  callbacks.ask = [&members](Rank to, QueryTopic topic, uint64_t subject,
                             const RankQuery::Bytes& body) {
    const Link& link = *members.link(to);
    const Reachability state = state_of(link, topic);
    if (state == Reachability::no_answer && !reads_nothing(link, topic)) {
      members.tell(to, NoticeKind::question, subject, body);
    }
    return state;
  };
  callbacks.answer = [&members](Rank to, uint64_t subject, const RankQuery::Bytes& body) {
    members.tell(to, NoticeKind::answer, subject, body);
  };
  return callbacks;
}

}  // namespace r2ccl
