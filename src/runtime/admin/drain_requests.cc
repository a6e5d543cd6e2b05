#include "runtime/admin/drain_requests.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "base/json_writer.h"
#include "base/limits.h"

namespace r2ccl {
namespace {

std::optional<DrainVerb> verb_of(std::string_view word) {
  if (word == "check") return DrainVerb::check;
  if (word == "start") return DrainVerb::drain;
  if (word == "undo") return DrainVerb::undo;
  if (word == "back") return DrainVerb::take_back;
  return std::nullopt;
}

// Returns the ticket; none unless `digits` are a valid one.
std::optional<uint64_t> ticket_of(std::string_view digits) {
  uint64_t ticket = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), ticket, 16);
  const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return whole && ticket != 0 ? std::optional(ticket) : std::nullopt;
}

// Parses the verb and its ticket. The request has no NIC yet.
std::optional<DrainRequest> parse_verb(std::string_view word) {
  const size_t colon = word.find(':');
  const auto verb = verb_of(word.substr(0, colon));
  if (!verb) return std::nullopt;
  DrainRequest request;
  request.verb = *verb;
  if (colon == std::string_view::npos) {
    return *verb == DrainVerb::take_back ? std::nullopt : std::optional(request);
  }
  const auto ticket = ticket_of(word.substr(colon + 1));
  const bool may_have_one = *verb == DrainVerb::drain || *verb == DrainVerb::take_back;
  if (!may_have_one || !ticket) return std::nullopt;
  request.ticket = *ticket;
  return request;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The lowest rank of the host, or the reason why there is none.
struct FoundHost {
  std::optional<Rank> rank;
  std::string unknown;  // "" where several hosts have the name
  std::string problem;
};

FoundHost find_host(const std::vector<RankInfo>& rank_table, const DrainRequest& request) {
  const RankInfo* host = nullptr;
  std::vector<std::string> hosts;
  std::vector<std::string> nics;
  for (const RankInfo& info : rank_table) {
    add_once(hosts, info.host_name);
    if (info.host_name != request.host) continue;
    if (host != nullptr && host->host != info.host) {
      return {std::nullopt, "",
              "several hosts of this job are called " + request.host +
                  "; R2CCL_HOST_ID gives them names of their own"};
    }
    if (host == nullptr) host = &info;
    for (const NicInfo& nic : info.nics) add_once(nics, nic.name);
  }
  const bool has_namesakes = std::ranges::any_of(
      hosts, [&](const std::string& name) { return name.starts_with(request.host + "@"); });
  if (host == nullptr && has_namesakes) {
    return {std::nullopt, "",
            "several hosts of this job are called " + request.host + ": name one of " +
                list_text(hosts) + "; R2CCL_HOST_ID gives them names of their own"};
  }
  if (host == nullptr) {
    return {
        std::nullopt, "host",
        "no host of this job is called " + request.host + "; its hosts are " + list_text(hosts)};
  }
  if (std::ranges::find(nics, request.nic) == nics.end()) {
    return {
        std::nullopt, "nic",
        request.host + " has no NIC " + request.nic + " in this job; it has " + list_text(nics)};
  }
  return {host->rank, "", ""};
}

// The next question replaces one that changes nothing. Only an equal command replaces a command:
// the rank must receive each of them, in their order.
uint64_t slot_of(const DrainQuestion& question) {
  if (question.verb == DrainVerb::check) return 0;
  uint64_t slot = 1;
  for (const std::byte byte : encode(question)) {
    slot = hash_of({slot, std::to_integer<uint64_t>(byte)});
  }
  return slot;
}

std::string tally_text(const DrainTally& tally) {
  JsonWriter out;
  out.begin_object()
      .field("paths", uint64_t{tally.paths})
      .field("up", uint64_t{tally.up})
      .field("marked", uint64_t{tally.marked})
      .field("in_use", uint64_t{tally.in_use})
      .field("busy", uint64_t{tally.busy})
      .field("stranded", uint64_t{tally.stranded})
      .field("peer", tally.peer.value())
      .field("stranded_peer", tally.stranded_peer.value())
      .end_object();
  return out.text();
}

}  // namespace

std::string drain_problem_text(const std::string& unknown, const std::string& problem) {
  JsonWriter out;
  out.begin_object().field("problem", problem).field("unknown", unknown).end_object();
  return out.text();
}

void write_drain_answer(JsonWriter& out, const RankQuery::Member& member) {
  out.field("presence", to_string(member.reachability));
  if (member.reachability == Reachability::answered) out.key("tally").json(member.answer);
}

std::optional<DrainRequest> parse_drain_request(std::string_view line) {
  constexpr std::string_view kFirst = "drain ";
  if (!line.starts_with(kFirst) || !line.ends_with('\n')) return std::nullopt;
  line.remove_prefix(kFirst.size());
  line.remove_suffix(1);
  const size_t verb_end = line.find(' ');
  if (verb_end == std::string_view::npos) return std::nullopt;
  auto request = parse_verb(line.substr(0, verb_end));
  line.remove_prefix(verb_end + 1);
  // The host's name comes last, because only a host's name may have spaces.
  const size_t nic_end = line.find(' ');
  if (!request || nic_end == std::string_view::npos) return std::nullopt;
  request->nic = line.substr(0, nic_end);
  request->host = line.substr(nic_end + 1);
  const bool whole = !request->nic.empty() && request->nic.size() <= kDrainNicBytesMax &&
                     !request->host.empty() && request->host.find('\n') == std::string::npos;
  return whole ? request : std::nullopt;
}

DrainRequests::DrainRequests(RankQuery& query, size_t rank_count, Act act)
    : query_(query), rank_count_(rank_count), act_(std::move(act)) {
  query_.serve(QueryTopic::drain, handler());
}

RankQuery::Handler DrainRequests::handler() {
  RankQuery::Handler handler;
  handler.question = [this](Rank, uint32_t,
                            std::span<const std::byte> body) -> Result<RankQuery::Reply> {
    const auto question = decode_drain_question(body);
    if (!question.ok()) return question.status();
    const Rank host = question.value().host;
    if (host.value() < 0 || static_cast<size_t>(host.value()) >= rank_count_) {
      return Status(Code::remote, "a question about a NIC of an unknown rank");
    }
    return RankQuery::Reply(encode(act_(question.value())));
  };
  handler.answer = [](Rank, uint32_t, std::span<const std::byte> body) -> Result<std::string> {
    const auto tally = decode_drain_tally(body);
    if (!tally.ok()) return tally.status();
    return tally_text(tally.value());
  };
  return handler;
}

std::optional<std::string> DrainRequests::answer(uint64_t client, std::string_view line,
                                                 const std::vector<RankInfo>& rank_table,
                                                 TimeNs now) {
  const std::optional<DrainReply> made = reply(client, line, rank_table, now);
  if (!made) return std::nullopt;
  if (!made->problem.empty()) return drain_problem_text(made->unknown, made->problem);
  JsonWriter out;
  out.begin_object().field("host", request_.host).field("nic", request_.nic);
  out.key("ranks").begin_array();
  for (size_t i = 0; i < made->ranks.size(); ++i) {
    out.begin_object().field("rank", static_cast<int>(i)).field("host", rank_table[i].host_name);
    write_drain_answer(out, made->ranks[i]);
    out.end_object();
  }
  out.end_array().end_object();
  return out.text();
}

std::optional<DrainReply> DrainRequests::reply(uint64_t client, std::string_view line,
                                               const std::vector<RankInfo>& rank_table,
                                               TimeNs now) {
  newest_ = std::max(newest_, client);
  if (asking()) return std::nullopt;
  if (client_ == client) {
    client_.reset();
    turn_over_ = true;
    return answers();
  }
  const auto request = parse_drain_request(line);
  if (client_ || turn_over_) {
    return shares(client, request) ? std::optional(answers()) : std::nullopt;
  }
  if (!request) return DrainReply{"not a request that is known", "", {}};
  const FoundHost host = find_host(rank_table, *request);
  if (!host.rank) return DrainReply{host.problem, host.unknown, {}};
  request_ = *request;
  const DrainQuestion question{
      .verb = request->verb, .host = *host.rank, .nic = request->nic, .ticket = request->ticket};
  newest_at_start_ = newest_;
  query_.ask_all(QueryTopic::drain, encode(question), tally_text(act_(question)), now,
                 slot_of(question));
  if (!asking()) return answers();
  client_ = client;
  return std::nullopt;
}

// A stopped rank makes each question last a second or more, and a client that waits for its slot
// gives up after some time. For a check, the state after another command is a valid answer.
bool DrainRequests::shares(uint64_t client, const std::optional<DrainRequest>& request) const {
  return request && request->verb == DrainVerb::check && client <= newest_at_start_ &&
         request->nic == request_.nic && request->host == request_.host;
}

// A client that has not fetched its answer by now has gone, so the next one gets the slot.
void DrainRequests::progress(TimeNs now) {
  turn_over_ = false;
  if (asking() || now - query_.ended_at(QueryTopic::drain) < limits::kStatusFreshness) return;
  client_.reset();
}

TimeNs DrainRequests::next_timeout() const {
  if (asking()) return kNever;  // the query wakes this rank
  if (client_) return query_.ended_at(QueryTopic::drain) + limits::kStatusFreshness;
  return turn_over_ ? 0 : kNever;
}

}  // namespace r2ccl
