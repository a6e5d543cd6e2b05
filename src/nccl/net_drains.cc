#include "nccl/net_drains.h"

#include <algorithm>
#include <utility>

#include "base/json_writer.h"

namespace r2ccl::nccl {
namespace {

// The jobs of the links answer in passes of their own.
constexpr TimeNs kLook = 2 * kMillisecond;
// A client that has not asked for so long has gone.
constexpr TimeNs kGone = 1 * kSecond;

// Returns the request with another name of the host.
std::string line_for(std::string_view line, const DrainRequest& request, const std::string& host) {
  line.remove_suffix(request.host.size() + 1);
  return std::string(line) + host + "\n";
}

const std::string& own_name_in(Peer& peer) {
  return peer.job().engine().own_info().host_name;
}

void write_end(JsonWriter& out, const RankInfo& end, const std::string& host, const RankInfo& other,
               const RankQuery::Member& member, int number) {
  out.begin_object()
      .field("rank", number)
      .field("host", host)
      .field("pid", uint64_t{end.pid})
      .field("peer_host", other.host_name)
      .field("peer_pid", uint64_t{other.pid});
  write_drain_answer(out, member);
  out.end_object();
}

}  // namespace

NetDrains::NetDrains(RankInfo own, std::vector<std::string> nics, DrainRegistry& registry,
                     const Clock& clock)
    : own_(std::move(own)), nics_(std::move(nics)), registry_(registry), clock_(clock) {}

// Returns why this process cannot act, as the answer; empty: it can.
std::string NetDrains::refusal(const DrainRequest& request) const {
  if (request.host != own_.host_name) {
    return drain_problem_text("host", "an NCCL process takes only NICs of its own host, " +
                                          own_.host_name + ", out of service: run this on " +
                                          request.host);
  }
  if (std::ranges::find(nics_, request.nic) != nics_.end()) return "";
  std::string names;
  for (const std::string& nic : nics_) names += (names.empty() ? "" : ", ") + nic;
  return drain_problem_text("nic", own_.host_name + " has no NIC " + request.nic +
                                       " in this NCCL process; it has " + names);
}

// As Drains does for a job.
void NetDrains::hold(const DrainRequest& request) {
  const auto held = held_.find(request.nic);
  const bool ends = request.verb == DrainVerb::undo ||
                    (request.verb == DrainVerb::take_back && held != held_.end() &&
                     request.ticket != 0 && request.ticket == held->second);
  if (ends) {
    held_.erase(request.nic);
    registry_.strike(this, own_.host, request.nic);
  } else if (request.verb == DrainVerb::drain) {
    const bool other = held != held_.end() && held->second != request.ticket;
    const uint64_t ticket = other ? 0 : request.ticket;
    registry_.enter(this, own_.host, {request.nic, ticket});
    held_[request.nic] = ticket;
  }
}

std::optional<std::string> NetDrains::answer(uint64_t client, std::string_view line,
                                             const std::vector<Peer*>& peers) {
  const auto request = parse_drain_request(line);
  if (!request) return drain_problem_text("", "not a request that is known");
  const auto [place, is_new] = courses_.try_emplace(client);
  Course& course = place->second;
  course.asked_at = clock_.now();
  if (is_new) {
    std::string refused = refusal(*request);
    if (!refused.empty()) {
      courses_.erase(place);
      return refused;
    }
    hold(*request);
  }
  if (!ask_all(course, client, line, *request, peers)) {
    look_at_ = course.asked_at + kLook;
    return std::nullopt;
  }
  std::string text = text_of(course, *request, peers);
  courses_.erase(place);
  return text;
}

// Returns whether all have answered.
bool NetDrains::ask_all(Course& course, uint64_t client, std::string_view line,
                        const DrainRequest& request, const std::vector<Peer*>& peers) const {
  bool all = true;
  for (Peer* peer : peers) {
    if (course.replies.contains(peer->link_number())) continue;
    auto reply = peer->job().drains().reply(client, line_for(line, request, own_name_in(*peer)));
    if (reply) course.replies[peer->link_number()] = std::move(*reply);
    all = all && reply.has_value();
  }
  return all;
}

std::string NetDrains::text_of(const Course& course, const DrainRequest& request,
                               const std::vector<Peer*>& peers) const {
  JsonWriter out;
  out.begin_object().field("host", request.host).field("nic", request.nic);
  out.key("ranks").begin_array();
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer& peer = *peers[i];
    const DrainReply& reply = course.replies.at(peer.link_number());
    // A link that began without this NIC has no path of it.
    if (!reply.problem.empty()) continue;
    const auto self = static_cast<size_t>(peer.job().self().value());
    const RankInfo& theirs = their_info(peer);
    const std::string& host = within_host(peer) ? own_.host_name : theirs.host_name;
    write_end(out, own_, own_.host_name, theirs, reply.ranks[self], 0);
    write_end(out, theirs, host, own_, reply.ranks[1 - self], static_cast<int>(i) + 1);
  }
  out.end_array().end_object();
  return out.text();
}

void NetDrains::progress(TimeNs now) {
  if (courses_.empty()) {
    look_at_ = kNever;
    return;
  }
  std::erase_if(courses_, [now](const auto& each) { return now - each.second.asked_at > kGone; });
  if (now >= look_at_) look_at_ = now + kLook;
}

}  // namespace r2ccl::nccl
