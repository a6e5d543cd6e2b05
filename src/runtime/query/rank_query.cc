#include "runtime/query/rank_query.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

// Queries of a topic that are open at a time. A further one ends the oldest.
size_t open_max(QueryTopic topic) {
  if (asks_all(topic)) return 1;
  // Each rank has its own question about waits.
  return topic == QueryTopic::probe ? limits::kProbeQuestionsMax : SIZE_MAX;
}

}  // namespace

std::vector<std::byte> encode(const QueryMessage& message) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(message.topic));
  out.put(message.number);
  out.put_bytes(message.body);
  return bytes;
}

Result<QueryMessage> decode_query_message(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto topic = in.get<uint8_t>();
  QueryMessage message{static_cast<QueryTopic>(topic), in.get<uint32_t>(), {}};
  if (in.bad()) return Status(Code::remote, "a truncated question or answer");
  if (topic >= kQueryTopics) return Status(Code::remote, "a question of an unknown topic");
  message.body = in.get_bytes(in.remaining());
  return message;
}

uint64_t query_subject(QueryTopic topic, uint64_t slot) {
  constexpr int kSlotBits = 56;
  return uint64_t{static_cast<uint8_t>(topic)} << kSlotBits |
         (slot & ((uint64_t{1} << kSlotBits) - 1));
}

RankQuery::Query& RankQuery::begin(QueryTopic topic, uint32_t number) {
  const auto index = static_cast<size_t>(topic);
  Queries& queries = queries_[index];
  queries.erase(number);
  while (queries.size() >= open_max(topic)) queries.erase(queries.begin());
  newest_[index] = std::max(newest_[index], number);
  Query& query = queries[number];
  query.number = number;
  return query;
}

void RankQuery::ask_all(QueryTopic topic, const Bytes& body, std::string own_answer, TimeNs now,
                        uint64_t slot) {
  R2CCL_CHECK(asks_all(topic) && !running(topic));
  Query& query = begin(topic, newest_[static_cast<size_t>(topic)] + 1);
  query.slot = slot;
  query.body = encode({topic, query.number, body});
  query.members.resize(static_cast<size_t>(rank_count_));
  for (size_t i = 0; i < query.members.size(); ++i) {
    query.members[i].rank = Rank(static_cast<int32_t>(i));
  }
  Member& own = query.members[static_cast<size_t>(self_.value())];
  own = {self_, Reachability::answered, std::move(own_answer)};
  query.end_at = query.end_max = now + limits::kStatusQueryTimeMax;
  run(now);
}

void RankQuery::ask(QueryTopic topic, uint32_t number, std::vector<Rank> ranks, const Bytes& body,
                    uint64_t slot) {
  R2CCL_CHECK(!asks_all(topic));
  std::ranges::sort(ranks);
  Query& query = begin(topic, number);
  query.slot = slot;
  query.body = encode({topic, number, body});
  for (const Rank rank : ranks) query.members.push_back({rank, Reachability::no_answer, ""});
  ask_more(topic, query, 0);
  if (query.complete()) queries_[static_cast<size_t>(topic)].erase(number);
}

void RankQuery::answer(QueryTopic topic, Rank to, uint32_t number, const Bytes& body,
                       uint64_t slot) {
  callbacks_.answer(to, query_subject(topic, slot), encode({topic, number, body}));
}

const RankQuery::Handler* RankQuery::handler_of(QueryTopic topic) const {
  const Handler& handler = handlers_[static_cast<size_t>(topic)];
  return handler.question ? &handler : nullptr;
}

void RankQuery::refuse(Rank from, const std::string& why) {
  ++refused_;
  R2CCL_LOG(info, "from rank %d: %s", from.value(), why.c_str());
}

void RankQuery::on_question(Rank from, std::span<const std::byte> bytes) {
  const auto message = decode_query_message(bytes);
  if (!message.ok()) return refuse(from, message.status().message());
  const auto [topic, number, body] = message.value();
  const Handler* handler = handler_of(topic);
  if (handler == nullptr) return;
  const auto reply = handler->question(from, number, body);
  if (!reply.ok()) return refuse(from, reply.status().message());
  if (reply.value()) answer(topic, from, number, *reply.value());
}

RankQuery::Query* RankQuery::open(QueryTopic topic, uint32_t number) {
  Queries& queries = queries_[static_cast<size_t>(topic)];
  const auto found = queries.find(number);
  return found != queries.end() && found->second.running() ? &found->second : nullptr;
}

// Returns null for a rank that the query has not asked.
RankQuery::Member* RankQuery::asked(Query& query, Rank rank) {
  const auto end = query.members.begin() + static_cast<ptrdiff_t>(query.next);
  const auto found = std::ranges::lower_bound(query.members.begin(), end, rank, {}, &Member::rank);
  return found != end && found->rank == rank ? &*found : nullptr;
}

void RankQuery::on_answer(Rank from, std::span<const std::byte> bytes) {
  const auto message = decode_query_message(bytes);
  if (!message.ok()) return refuse(from, message.status().message());
  const auto [topic, number, body] = message.value();
  const Handler* handler = handler_of(topic);
  if (handler == nullptr) return;
  Query* query = open(topic, number);
  Member* member = query == nullptr ? nullptr : asked(*query, from);
  const bool awaited = member != nullptr && member->reachability == Reachability::no_answer;
  if (!awaited && !mutated(Mutant::query_any_answer)) {
    // The answer to a query that has ended was late.
    if (query != nullptr || number > newest_[static_cast<size_t>(topic)]) {
      refuse(from, "an answer to no question");
    }
    return;
  }
  auto kept = handler->answer(from, number, body);
  if (!kept.ok()) return refuse(from, kept.status().message());
  if (!awaited || topic == QueryTopic::wait) return;
  member->answer = std::move(kept).value();
  settle(topic, *query, *member, Reachability::answered);
}

// Nothing more is expected of this member.
void RankQuery::settle(QueryTopic topic, Query& query, Member& member, Reachability state) {
  const auto index = static_cast<size_t>(&member - query.members.data());
  member.reachability = state;
  --query.missing;
  std::erase_if(query.recent, [index](const Asked& asked) { return asked.member == index; });
  if (asks_all(topic)) {
    next_ = 0;  // the next ranks may be asked
  } else if (query.complete()) {
    queries_[static_cast<size_t>(topic)].erase(query.number);
  }
}

void RankQuery::on_end(Rank rank, Reachability end) {
  if (mutated(Mutant::query_no_end)) return;
  for (size_t topic = 0; topic < kQueryTopics; ++topic) {
    Queries& queries = queries_[topic];
    for (auto at = queries.begin(); at != queries.end();) {
      Query& query = (at++)->second;  // settle() may erase it
      Member* member = query.running() ? asked(query, rank) : nullptr;
      if (member == nullptr || member->reachability != Reachability::no_answer) continue;
      settle(static_cast<QueryTopic>(topic), query, *member, end);
    }
  }
}

void RankQuery::ask_more(QueryTopic topic, Query& query, TimeNs now) {
  const bool few = asks_all(topic);
  while (!query.recent.empty() && now - query.recent.front().at >= limits::kStatusQueryWait) {
    query.recent.pop_front();
  }
  for (; query.next < query.members.size(); ++query.next) {
    if (few && query.recent.size() >= limits::kStatusQueryAskedMax) return;
    Member& member = query.members[query.next];
    if (member.reachability == Reachability::answered) continue;  // this rank itself
    member.reachability =
        callbacks_.ask(member.rank, topic, query_subject(topic, query.slot), query.body);
    if (member.reachability != Reachability::no_answer) continue;
    ++query.missing;
    if (!few) continue;
    query.recent.push_back({query.next, now});
    query.end_at = std::min(now + limits::kStatusQueryAnswerTime, query.end_max);
  }
  query.body = {};
}

void RankQuery::run(TimeNs now) {
  next_ = kNever;
  for (const QueryTopic topic : {QueryTopic::status, QueryTopic::drain}) {
    if (!running(topic)) continue;
    Query& query = queries_[static_cast<size_t>(topic)].rbegin()->second;
    ask_more(topic, query, now);
    if (query.complete() || now >= query.end_at) {
      query.ended_at = now;
      continue;
    }
    const bool more = query.next < query.members.size() && !query.recent.empty();
    const TimeNs room_at = more ? query.recent.front().at + limits::kStatusQueryWait : kNever;
    next_ = std::min({next_, query.end_at, room_at});
  }
}

const RankQuery::Query* RankQuery::last(QueryTopic topic) const {
  const Queries& queries = queries_[static_cast<size_t>(topic)];
  return queries.empty() ? nullptr : &queries.rbegin()->second;
}

bool RankQuery::running(QueryTopic topic) const {
  const Query* query = last(topic);
  return query != nullptr && query->running();
}

TimeNs RankQuery::ended_at(QueryTopic topic) const {
  const Query* query = last(topic);
  return query == nullptr ? INT64_MIN / 2 : query->ended_at;
}

const std::vector<RankQuery::Member>& RankQuery::members(QueryTopic topic) const {
  const Query* query = last(topic);
  R2CCL_CHECK(query != nullptr);
  return query->members;
}

}  // namespace r2ccl
