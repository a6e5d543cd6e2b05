#include "runtime/admin/rank_summary.h"

#include <algorithm>
#include <tuple>

#include "base/printable.h"
#include "protocol/wire/byte_fields.h"
#include "runtime/admin/summary_fields.h"

namespace r2ccl {
namespace {

constexpr uint8_t kSummaryVersion = 2;
// The bytes of each struct in their order. Later versions append lists, and change none.
using Line = RankSummary::Line;
using Trouble = RankSummary::Trouble;
using Relay = RankSummary::Relay;
constexpr std::tuple kHead{&RankSummary::uptime_ms, &RankSummary::operations, &RankSummary::hedged,
                           &RankSummary::retransmitted, &RankSummary::verdicts};
constexpr std::tuple kBlocker{&Blocker::kind, &Blocker::rank, &Blocker::number, &Blocker::towards,
                              &Blocker::waits_for};
constexpr std::tuple kLine{
    &Line::nic,        &Line::up,       &Line::sent,          &Line::received,
    &Line::delay_us,   &Line::paths_up, &Line::paths_suspect, &Line::paths_validating,
    &Line::paths_down, &Line::loss_ppm};
constexpr std::tuple kTrouble{
    &Trouble::peer,          &Trouble::nic,      &Trouble::peer_nic,
    &Trouble::phase,         &Trouble::cause,    &Trouble::peer_cause,
    &Trouble::dials,         &Trouble::since_ms, &Trouble::next_attempt_ms,
    &Trouble::penalty_milli, &Trouble::returns};
constexpr std::tuple kRelayEnds{&Relay::peer, &Relay::via};
constexpr std::tuple kRelayState{&Relay::phase, &Relay::sent, &Relay::received};
constexpr std::tuple kCounts{&RankSummary::corruptions, &RankSummary::log_lines_dropped};

constexpr size_t kLineBytes = bytes_of(kLine);
constexpr size_t kLineDrainBytes = 1 + 4;
constexpr size_t kTroubleBytes = bytes_of(kTrouble);
constexpr size_t kFixedBytes = 1 + bytes_of(kHead) + 1 + 1 + 1 + 4;
constexpr size_t kCallBytes = 1 + kSummaryCallBytesMax + 4 + bytes_of(kBlocker);
constexpr size_t kRelayBytes = bytes_of(kRelayEnds) + 1 + bytes_of(kRelayState);
constexpr size_t kRelaysFixedBytes = 1 + 4;
constexpr size_t kCountsBytes = 4 + 4;
// Before the summary stand the notice's kind, context and subject, and the answer's topic and
// number.
constexpr size_t kPrefixBytes = 1 + 8 + 8 + 1 + 4;

static_assert(kPrefixBytes + kFixedBytes + kCallBytes + kRelaysFixedBytes + kCountsBytes +
                  kSummaryErrorBytesMax + kSummaryLinesMax * (kLineBytes + kLineDrainBytes) +
                  kSummaryTroublesMax * kTroubleBytes <=
              limits::kNoticeBytesMax);

// Appended at the end, because a rank of an earlier version stops reading there.
void put_drain(ByteWriter& out, const Line& line) {
  const auto idle = static_cast<unsigned>(line.idle);
  out.put(static_cast<uint8_t>((line.drained ? 1U : 0U) | idle << 1));
  out.put(line.paths_drained);
}

void get_drain(ByteReader& in, Line& line) {
  const auto flags = in.get<uint8_t>();
  line.drained = (flags & 1) != 0;
  line.idle = static_cast<IdleCause>(flags >> 1);  // perhaps one that a later version knows
  line.paths_drained = in.get<uint32_t>();
}

// Requires lists and texts within their bounds. Returns the number of relays that fit behind them.
size_t relays_max(const RankSummary& summary) {
  const size_t before = kPrefixBytes + kFixedBytes + kCallBytes - kSummaryCallBytesMax +
                        summary.call.size() + summary.error.size() +
                        summary.nics.size() * (kLineBytes + kLineDrainBytes) +
                        summary.troubles.size() * kTroubleBytes + kRelaysFixedBytes + kCountsBytes;
  return std::min<size_t>((limits::kNoticeBytesMax - before) / kRelayBytes, UINT8_MAX);
}

// Appended, as the drains are.
void put_relays(ByteWriter& out, const RankSummary& summary) {
  out.put(static_cast<uint8_t>(summary.relays.size()));
  out.put(summary.relays_left_out);
  for (const Relay& relay : summary.relays) {
    put_members(out, relay, kRelayEnds);
    out.put(static_cast<uint8_t>((relay.dials ? 1 : 0) | (relay.standby ? 2 : 0)));
    put_members(out, relay, kRelayState);
  }
}

// Returns false when there are more than fit.
bool get_relays(ByteReader& in, RankSummary& summary) {
  const size_t count = in.get<uint8_t>();
  summary.relays_left_out = in.get<uint32_t>();
  if (count > relays_max(summary)) return false;
  for (size_t i = 0; i < count && !in.bad(); ++i) {
    Relay& relay = summary.relays.emplace_back();
    get_members(in, relay, kRelayEnds);
    const auto flags = in.get<uint8_t>();
    relay.dials = (flags & 1) != 0;
    relay.standby = (flags & 2) != 0;
    get_members(in, relay, kRelayState);
  }
  return true;
}

void put_call(ByteWriter& out, const RankSummary& summary) {
  out.put(static_cast<uint8_t>(summary.call.size()));
  out.put_bytes(std::as_bytes(std::span(summary.call)));
  out.put(summary.call_ms);
  put_members(out, summary.blocker, kBlocker);
}

// Returns false when the bytes are invalid.
bool get_call(ByteReader& in, RankSummary& summary) {
  const size_t bytes = in.get<uint8_t>();
  if (bytes > kSummaryCallBytesMax) return false;
  summary.call = printable_text(in.get_bytes(bytes), kSummaryCallBytesMax);
  summary.call_ms = in.get<uint32_t>();
  get_members(in, summary.blocker, kBlocker);
  return summary.blocker.kind <= Blocker::kLastKind;
}

std::string rank_name(RankTable rank_table, Rank rank) {
  const auto index = static_cast<size_t>(rank.value());
  return rank.value() >= 0 && index < rank_table.size() ? describe(rank, *rank_table[index])
                                                        : "an unknown rank";
}

std::string nic_name(RankTable rank_table, Rank rank, NicId nic) {
  if (nic == kNoNic) return "lo";
  if (nic == kShmNic) return "shm";
  const auto index = static_cast<size_t>(rank.value());
  if (rank.value() < 0 || index >= rank_table.size() ||
      nic.value() >= rank_table[index]->nics.size()) {
    return "?";
  }
  return rank_table[index]->nics[nic.value()].name;
}

// Fills in the names. The end that does not open a relay path knows the host that relays, and not
// the rank.
void fill_in_names(RankTable rank_table, Rank rank, RankSummary& summary) {
  for (Line& line : summary.nics) line.name = nic_name(rank_table, rank, line.nic);
  for (Trouble& trouble : summary.troubles) {
    trouble.nic_name = nic_name(rank_table, rank, trouble.nic);
    trouble.peer_nic_name = nic_name(rank_table, trouble.peer, trouble.peer_nic);
  }
  for (Relay& relay : summary.relays) {
    const auto index = static_cast<size_t>(relay.via.value());
    const bool known = relay.via.value() >= 0 && index < rank_table.size();
    if (known) relay.via_host = rank_table[index]->host_name;
    if (!known || !relay.dials) relay.via = kNoRank;
  }
  summary.waits_for =
      describe(summary.blocker, [&](Rank each) { return rank_name(rank_table, each); });
}

}  // namespace

std::vector<std::byte> encode(RankSummary summary) {
  std::ranges::stable_sort(summary.troubles, {},
                           [](const Trouble& trouble) { return trouble.phase != PathPhase::down; });
  if (summary.troubles.size() > kSummaryTroublesMax) {
    summary.troubles_left_out +=
        static_cast<uint32_t>(summary.troubles.size() - kSummaryTroublesMax);
    summary.troubles.resize(kSummaryTroublesMax);
  }
  summary.nics.resize(std::min(summary.nics.size(), kSummaryLinesMax));
  summary.error = printable_text(summary.error, kSummaryErrorBytesMax);
  summary.call = printable_text(summary.call, kSummaryCallBytesMax);
  if (const size_t fit = relays_max(summary); summary.relays.size() > fit) {
    summary.relays_left_out += static_cast<uint32_t>(summary.relays.size() - fit);
    summary.relays.resize(fit);
  }
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(kSummaryVersion);
  put_members(out, summary, kHead);
  out.put(static_cast<uint8_t>(summary.error.size()));
  out.put_bytes(std::as_bytes(std::span(summary.error)));
  put_call(out, summary);
  out.put(static_cast<uint8_t>(summary.nics.size()));
  for (const Line& line : summary.nics) put_members(out, line, kLine);
  out.put(static_cast<uint8_t>(summary.troubles.size()));
  for (const Trouble& trouble : summary.troubles) put_members(out, trouble, kTrouble);
  out.put(summary.troubles_left_out);
  for (const Line& line : summary.nics) put_drain(out, line);
  put_relays(out, summary);
  put_members(out, summary, kCounts);
  return bytes;
}

Result<RankSummary> decode_rank_summary(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const Status malformed(Code::remote, "malformed summary of a rank");
  if (in.get<uint8_t>() != kSummaryVersion) return malformed;
  RankSummary summary;
  get_members(in, summary, kHead);
  const size_t error_bytes = in.get<uint8_t>();
  if (error_bytes > kSummaryErrorBytesMax) return malformed;
  summary.error = printable_text(in.get_bytes(error_bytes), kSummaryErrorBytesMax);
  if (!get_call(in, summary)) return malformed;
  const size_t lines = in.get<uint8_t>();
  if (lines > kSummaryLinesMax) return malformed;
  summary.nics.resize(lines);
  for (Line& line : summary.nics) get_members(in, line, kLine);
  const size_t troubles = in.get<uint8_t>();
  if (troubles > kSummaryTroublesMax) return malformed;
  summary.troubles.resize(troubles);
  for (Trouble& trouble : summary.troubles) get_members(in, trouble, kTrouble);
  summary.troubles_left_out = in.get<uint32_t>();
  // A summary of an earlier version ends here. That version cannot drain.
  if (in.remaining() > 0) {
    for (Line& line : summary.nics) get_drain(in, line);
  }
  // And one that knows no relays ends here.
  if (in.remaining() > 0 && !get_relays(in, summary)) return malformed;
  // And one without these counts here.
  if (in.remaining() > 0) get_members(in, summary, kCounts);
  if (in.bad()) return malformed;
  return summary;
}

std::string member_json(RankTable rank_table, Rank rank, const std::string& host,
                        Reachability reachability, const RankSummary* summary) {
  JsonWriter out;
  out.begin_object()
      .field("rank", rank.value())
      .field("host", host)
      .field("pid", uint64_t{rank_table[static_cast<size_t>(rank.value())]->pid})
      .field("presence", to_string(reachability));
  if (summary != nullptr) {
    RankSummary named = *summary;
    fill_in_names(rank_table, rank, named);
    schema::write_fields(out, named, schema::kMemberFields);
    schema::write_list(out, "nics", named.nics, schema::kLineFields);
    schema::write_list(out, "troubles", named.troubles, schema::kTroubleFields);
    out.field("troubles_left_out", uint64_t{named.troubles_left_out});
    schema::write_list(out, "relays", named.relays, schema::kRelayFields);
    out.field("relays_left_out", uint64_t{named.relays_left_out});
  }
  out.end_object();
  return out.text();
}

}  // namespace r2ccl
