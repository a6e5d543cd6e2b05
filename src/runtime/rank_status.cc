#include "runtime/rank_status.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "runtime/admin/ask_by_notice.h"
#include "runtime/admin/link_totals.h"
#include "runtime/link/notice.h"
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
      reactor_(rank.engine().reactor(), *this),
      query_(rank.options().self, rank.options().rank_count,
             [this](Rank asked, uint32_t number) { return ask(asked, number); }),
      server_(*this, reactor_, rank.clock()) {}

// The query first: its operators are answered in the same turn.
void RankStatus::progress(TimeNs now) {
  query_.progress(now);
  server_.progress(now);
}

TimeNs RankStatus::next_timeout() const {
  return std::min(query_.next_timeout(), server_.next_timeout());
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

Reachability RankStatus::ask(Rank rank, uint32_t number) {
  std::vector<std::byte> body;
  ByteWriter(body).put(number);
  return ask_by_notice(*rank_.members().link(rank),
                       rank_.members().make(NoticeKind::status_request, 0, body));
}

void RankStatus::on_request(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const auto number = in.get<uint32_t>();
  if (in.bad()) return;
  try {
    std::vector<std::byte> answer;
    ByteWriter out(answer);
    out.put(number);
    out.put_bytes(encode(summarize()));
    rank_.members().tell(peer, NoticeKind::status, answer);
  } catch (const std::bad_alloc&) {
    R2CCL_LOG(warn, "status: out of memory: rank %d gets no answer", peer.value());
  }
}

void RankStatus::on_answer(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const auto number = in.get<uint32_t>();
  if (in.bad() || !query_.expects(peer, number)) return;
  const auto summary = decode_rank_summary(in.get_bytes(in.remaining()));
  if (!summary.ok()) return;
  query_.on_answer(peer, number, member_text(peer, Reachability::answered, &summary.value()));
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
  const bool fresh = now - query_.ended_at() < limits::kStatusFreshness;
  if (!fresh && !query_.running()) {
    const RankSummary own = summarize();
    query_.start(now, member_text(rank_.options().self, Reachability::answered, &own));
  }
  if (query_.running()) return std::nullopt;
  JsonWriter out;
  out.begin_object();
  write_identity(out, rank_);
  out.key("members").begin_array();
  for (size_t i = 0; i < query_.members().size(); ++i) {
    const StatusQuery::Member& member = query_.members()[i];
    const Rank rank(static_cast<int32_t>(i));
    out.json(member.reachability == Reachability::answered
                 ? member.answer
                 : member_text(rank, member.reachability, nullptr));
  }
  out.end_array();
  out.field("verdict_count", uint64_t{verdicts_of(rank_).size()});
  write_verdicts(out, rank_, kVerdictsTold);
  out.end_object();
  return out.text();
}

}  // namespace r2ccl
