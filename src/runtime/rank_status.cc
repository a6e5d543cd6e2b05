#include "runtime/rank_status.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/admin/link_totals.h"
#include "runtime/rank_report.h"

namespace r2ccl {
namespace {

constexpr size_t kVerdictsTold = 10;

uint32_t bounded_count(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
}

// Returns a rank whose NIC has the address; kNoRank: none has.
Rank rank_at(const std::vector<RankInfo>& rank_table, const Address& address) {
  for (const RankInfo& info : rank_table) {
    for (const NicInfo& nic : info.nics) {
      const auto same = [&](const Address& each) {
        return each.family == address.family && each.bytes == address.bytes;
      };
      if (std::ranges::any_of(nic.addresses, same)) return info.rank;
    }
  }
  return kNoRank;
}

RankSummary::Relay relay_of(const ProgressEngine& engine, const Members& members, Rank peer,
                            const Path& path) {
  const Link& link = *members.link(peer);
  RankSummary::Relay relay;
  relay.peer = peer;
  relay.dials = link.opens_paths();
  const Rank via =
      relay.dials ? link.relayed_by() : rank_at(engine.job().ranks(), path.spec.remote.address);
  relay.via = via == kNoRank ? via : members.rank_of(via);
  relay.standby = path.stands_by();
  relay.phase = path.state.phase();
  relay.sent = path.total_bytes_sent();
  relay.received = path.total_bytes_received();
  return relay;
}

}  // namespace

RankStatus::RankStatus(RankRuntime& rank)
    : rank_(rank),
      query_(rank.query()),
      reactor_(rank.engine().reactor(), *this),
      server_(*this, reactor_, rank.clock()) {
  query_.serve(QueryTopic::status, handler());
}

RankSummary RankStatus::summarize() {
  RankSummary summary;
  const TimeNs uptime = rank_.clock().now() - rank_.started_at();
  summary.uptime_ms = static_cast<uint64_t>(uptime / kMillisecond);
  summary.operations = rank_.operations().completed();
  summary.verdicts = static_cast<uint32_t>(verdicts_of(rank_).size());
  summary.error = rank_.failure().message();
  summary.log_lines_dropped = bounded_count(log_lines_dropped());
  add_waits(summary);
  add_links(summary);
  return summary;
}

void RankStatus::add_waits(RankSummary& summary) {
  const std::vector<RankWaits::Waiting> calls = rank_.waits().calls();
  if (calls.empty()) return;
  const auto longest = std::ranges::max_element(calls, {}, &RankWaits::Waiting::waited);
  summary.call = describe(longest->call);
  summary.call_ms = bounded_ms(longest->waited);
  summary.blocker = longest->blocker;
}

void RankStatus::add_links(RankSummary& summary) {
  const TimeNs now = rank_.clock().now();
  ProgressEngine& engine = rank_.engine();
  LinkTotals totals(engine.nics());
  for (int32_t peer = 0; peer < rank_.options().rank_count; ++peer) {
    const Link* link = rank_.members().link(Rank(peer));
    if (link == nullptr) continue;
    totals.add(Rank(peer), *link, rank_.started_at(), now);
    for (const auto& path : link->paths()) {
      if (path->spec.relay && path->state.connected()) {
        summary.relays.push_back(relay_of(engine, rank_.members(), Rank(peer), *path));
      }
    }
  }
  totals.put_into(summary);
  if (!rank_.knows_idle_nics(now)) return;
  for (const IdleNic& idle : find_idle_nics(engine)) {
    summary.nics[idle.nic.value()].idle = idle.cause;
  }
}

std::string RankStatus::member_text(Rank rank, Reachability reachability,
                                    const RankSummary* summary) {
  const Members& members = rank_.members();
  return member_json(members.infos(), rank, members.host_name(members.map().host_of(rank)),
                     reachability, summary);
}

RankQuery::Handler RankStatus::handler() {
  RankQuery::Handler handler;
  handler.question = [this](Rank from, uint32_t number, std::span<const std::byte>) {
    answer(from, number);
    return RankQuery::Reply();
  };
  handler.answer = [this](Rank from, uint32_t, std::span<const std::byte> body) {
    return on_answer(from, body);
  };
  return handler;
}

void RankStatus::answer(Rank peer, uint32_t number) {
  try {
    query_.answer(QueryTopic::status, peer, number, encode(summarize()));
  } catch (const std::bad_alloc&) {
    R2CCL_LOG(warn, "status: out of memory: rank %d gets no answer", peer.value());
  }
}

Result<std::string> RankStatus::on_answer(Rank peer, std::span<const std::byte> body) {
  const auto summary = decode_rank_summary(body);
  if (!summary.ok()) return summary.status();
  return member_text(peer, Reachability::answered, &summary.value());
}

std::string RankStatus::status_report() {
  return report_text(rank_);
}

std::optional<std::string> RankStatus::drain_status(uint64_t client, std::string_view line) {
  return rank_.drains().answer(client, line);
}

std::optional<std::string> RankStatus::job_status() {
  const TimeNs now = rank_.clock().now();
  // The result of a query that no client fetched in time is out of date.
  constexpr QueryTopic kTopic = QueryTopic::status;
  const bool fresh = now - query_.ended_at(kTopic) < limits::kStatusFreshness;
  if (!fresh && !query_.running(kTopic)) {
    const RankSummary own = summarize();
    query_.ask_all(kTopic, {}, member_text(rank_.options().self, Reachability::answered, &own),
                   now);
  }
  if (query_.running(kTopic)) return std::nullopt;
  JsonWriter out;
  out.begin_object();
  write_identity(out, rank_);
  out.key("members").begin_array();
  for (const RankQuery::Member& member : query_.members(kTopic)) {
    out.json(member.reachability == Reachability::answered
                 ? member.answer
                 : member_text(member.rank, member.reachability, nullptr));
  }
  out.end_array();
  out.field("verdict_count", uint64_t{verdicts_of(rank_).size()});
  write_verdicts(out, rank_, kVerdictsTold);
  out.end_object();
  return out.text();
}

}  // namespace r2ccl
