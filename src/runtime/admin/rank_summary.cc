#include "runtime/admin/rank_summary.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/printable.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

constexpr uint8_t kSummaryVersion = 2;
constexpr size_t kLineBytes = 2 + 1 + 8 + 8 + 4 + 4 * 4 + 4;
constexpr size_t kLineDrainBytes = 1 + 4;
constexpr size_t kTroubleBytes = 4 + 2 + 2 + 4 + 4 * 4;
constexpr size_t kFixedBytes = 1 + 4 * 8 + 4 + 1 + 1 + 1 + 4;
constexpr size_t kCallBytes = 1 + kSummaryCallBytesMax + 4 + 1 + 4 + 8 + 4 + 4;
constexpr size_t kRelayBytes = 4 + 4 + 1 + 1 + 8 + 8;
constexpr size_t kRelaysFixedBytes = 1 + 4;
constexpr size_t kCountsBytes = 4 + 4;
// Before the summary stand the notice's kind, context and subject, and the answer's topic and
// number.
constexpr size_t kPrefixBytes = 1 + 8 + 8 + 1 + 4;

static_assert(kPrefixBytes + kFixedBytes + kCallBytes + kRelaysFixedBytes + kCountsBytes +
                  kSummaryErrorBytesMax + kSummaryLinesMax * (kLineBytes + kLineDrainBytes) +
                  kSummaryTroublesMax * kTroubleBytes <=
              limits::kNoticeBytesMax);

void put_line(ByteWriter& out, const RankSummary::Line& line) {
  out.put(line.nic.value());
  out.put(static_cast<uint8_t>(line.up));
  out.put(line.sent);
  out.put(line.received);
  out.put(line.delay_us);
  out.put(line.paths_up);
  out.put(line.paths_suspect);
  out.put(line.paths_validating);
  out.put(line.paths_down);
  out.put(line.loss_ppm);
}

RankSummary::Line get_line(ByteReader& in) {
  RankSummary::Line line;
  line.nic = NicId(in.get<uint16_t>());
  line.up = in.get<uint8_t>() != 0;
  line.sent = in.get<uint64_t>();
  line.received = in.get<uint64_t>();
  line.delay_us = in.get<uint32_t>();
  line.paths_up = in.get<uint32_t>();
  line.paths_suspect = in.get<uint32_t>();
  line.paths_validating = in.get<uint32_t>();
  line.paths_down = in.get<uint32_t>();
  line.loss_ppm = in.get<uint32_t>();
  return line;
}

// Appended at the end, because a rank of an earlier version stops reading there.
void put_drain(ByteWriter& out, const RankSummary::Line& line) {
  const auto idle = static_cast<unsigned>(line.idle);
  out.put(static_cast<uint8_t>((line.drained ? 1U : 0U) | idle << 1));
  out.put(line.paths_drained);
}

void get_drain(ByteReader& in, RankSummary::Line& line) {
  const auto flags = in.get<uint8_t>();
  line.drained = (flags & 1) != 0;
  line.idle = static_cast<IdleCause>(flags >> 1);  // perhaps one that a later version knows
  line.paths_drained = in.get<uint32_t>();
}

void put_trouble(ByteWriter& out, const RankSummary::Trouble& trouble) {
  out.put(static_cast<uint32_t>(trouble.peer.value()));
  out.put(trouble.nic.value());
  out.put(trouble.peer_nic.value());
  out.put(static_cast<uint8_t>(trouble.phase));
  out.put(static_cast<uint8_t>(trouble.cause));
  out.put(static_cast<uint8_t>(trouble.peer_cause));
  out.put(static_cast<uint8_t>(trouble.dials));
  out.put(trouble.since_ms);
  out.put(trouble.next_attempt_ms);
  out.put(trouble.penalty_milli);
  out.put(trouble.returns);
}

RankSummary::Trouble get_trouble(ByteReader& in) {
  RankSummary::Trouble trouble;
  trouble.peer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  trouble.nic = NicId(in.get<uint16_t>());
  trouble.peer_nic = NicId(in.get<uint16_t>());
  trouble.phase = static_cast<PathPhase>(in.get<uint8_t>());
  trouble.cause = static_cast<DownCause>(in.get<uint8_t>());
  trouble.peer_cause = static_cast<DownCause>(in.get<uint8_t>());
  trouble.dials = in.get<uint8_t>() != 0;
  trouble.since_ms = in.get<uint32_t>();
  trouble.next_attempt_ms = in.get<uint32_t>();
  trouble.penalty_milli = in.get<uint32_t>();
  trouble.returns = in.get<uint32_t>();
  return trouble;
}

void put_rank(ByteWriter& out, Rank rank) {
  out.put(static_cast<uint32_t>(rank.value()));
}

Rank get_rank(ByteReader& in) {
  return Rank(static_cast<int32_t>(in.get<uint32_t>()));
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
  for (const RankSummary::Relay& relay : summary.relays) {
    put_rank(out, relay.peer);
    put_rank(out, relay.via);
    out.put(static_cast<uint8_t>((relay.dials ? 1 : 0) | (relay.standby ? 2 : 0)));
    out.put(static_cast<uint8_t>(relay.phase));
    out.put(relay.sent);
    out.put(relay.received);
  }
}

// Returns false when there are more than fit.
bool get_relays(ByteReader& in, RankSummary& summary) {
  const size_t count = in.get<uint8_t>();
  summary.relays_left_out = in.get<uint32_t>();
  if (count > relays_max(summary)) return false;
  for (size_t i = 0; i < count && !in.bad(); ++i) {
    RankSummary::Relay& relay = summary.relays.emplace_back();
    relay.peer = get_rank(in);
    relay.via = get_rank(in);
    const auto flags = in.get<uint8_t>();
    relay.dials = (flags & 1) != 0;
    relay.standby = (flags & 2) != 0;
    relay.phase = static_cast<PathPhase>(in.get<uint8_t>());
    relay.sent = in.get<uint64_t>();
    relay.received = in.get<uint64_t>();
  }
  return true;
}

void put_call(ByteWriter& out, const RankSummary& summary) {
  out.put(static_cast<uint8_t>(summary.call.size()));
  out.put_bytes(std::as_bytes(std::span(summary.call)));
  out.put(summary.call_ms);
  out.put(static_cast<uint8_t>(summary.blocker.kind));
  put_rank(out, summary.blocker.rank);
  out.put(summary.blocker.number);
  put_rank(out, summary.blocker.towards);
  put_rank(out, summary.blocker.waits_for);
}

// Returns false when the bytes are invalid.
bool get_call(ByteReader& in, RankSummary& summary) {
  const size_t bytes = in.get<uint8_t>();
  if (bytes > kSummaryCallBytesMax) return false;
  summary.call = printable_text(in.get_bytes(bytes), kSummaryCallBytesMax);
  summary.call_ms = in.get<uint32_t>();
  const uint8_t kind = in.get<uint8_t>();
  summary.blocker.kind = static_cast<Blocker::Kind>(kind);
  summary.blocker.rank = get_rank(in);
  summary.blocker.number = in.get<uint64_t>();
  summary.blocker.towards = get_rank(in);
  summary.blocker.waits_for = get_rank(in);
  return kind <= static_cast<uint8_t>(Blocker::Kind::silent);
}

std::string rank_name(RankTable rank_table, Rank rank) {
  const auto index = static_cast<size_t>(rank.value());
  return rank.value() >= 0 && index < rank_table.size() ? describe(rank, *rank_table[index])
                                                        : "an unknown rank";
}

double thousandth(uint32_t value) {
  return static_cast<double>(value) / 1e3;
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

// The end that does not open the path knows the host that relays, and not the rank.
void write_relay(JsonWriter& out, RankTable rank_table, const RankSummary::Relay& relay) {
  const auto index = static_cast<size_t>(relay.via.value());
  const bool known = relay.via.value() >= 0 && index < rank_table.size();
  out.begin_object()
      .field("peer", relay.peer.value())
      .field("via", (known && relay.dials ? relay.via : kNoRank).value())
      .field("via_host", known ? rank_table[index]->host_name : std::string())
      .field("state", relay.standby ? "standby" : to_string(relay.phase))
      .field("opens", relay.dials)
      .field("tx_bytes", relay.sent)
      .field("rx_bytes", relay.received)
      .end_object();
}

}  // namespace

std::vector<std::byte> encode(RankSummary summary) {
  std::ranges::stable_sort(summary.troubles, {}, [](const RankSummary::Trouble& trouble) {
    return trouble.phase != PathPhase::down;
  });
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
  out.put(summary.uptime_ms);
  out.put(summary.operations);
  out.put(summary.hedged);
  out.put(summary.retransmitted);
  out.put(summary.verdicts);
  out.put(static_cast<uint8_t>(summary.error.size()));
  out.put_bytes(std::as_bytes(std::span(summary.error)));
  put_call(out, summary);
  out.put(static_cast<uint8_t>(summary.nics.size()));
  for (const RankSummary::Line& line : summary.nics) put_line(out, line);
  out.put(static_cast<uint8_t>(summary.troubles.size()));
  for (const RankSummary::Trouble& trouble : summary.troubles) put_trouble(out, trouble);
  out.put(summary.troubles_left_out);
  for (const RankSummary::Line& line : summary.nics) put_drain(out, line);
  put_relays(out, summary);
  out.put(summary.corruptions);
  out.put(summary.log_lines_dropped);
  return bytes;
}

Result<RankSummary> decode_rank_summary(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const Status malformed(Code::remote, "malformed summary of a rank");
  if (in.get<uint8_t>() != kSummaryVersion) return malformed;
  RankSummary summary;
  summary.uptime_ms = in.get<uint64_t>();
  summary.operations = in.get<uint64_t>();
  summary.hedged = in.get<uint64_t>();
  summary.retransmitted = in.get<uint64_t>();
  summary.verdicts = in.get<uint32_t>();
  const size_t error_bytes = in.get<uint8_t>();
  if (error_bytes > kSummaryErrorBytesMax) return malformed;
  summary.error = printable_text(in.get_bytes(error_bytes), kSummaryErrorBytesMax);
  if (!get_call(in, summary)) return malformed;
  const size_t lines = in.get<uint8_t>();
  if (lines > kSummaryLinesMax) return malformed;
  for (size_t i = 0; i < lines && !in.bad(); ++i) summary.nics.push_back(get_line(in));
  const size_t troubles = in.get<uint8_t>();
  if (troubles > kSummaryTroublesMax) return malformed;
  for (size_t i = 0; i < troubles && !in.bad(); ++i) summary.troubles.push_back(get_trouble(in));
  summary.troubles_left_out = in.get<uint32_t>();
  // A summary of an earlier version ends here. That version cannot drain.
  if (in.remaining() > 0) {
    for (RankSummary::Line& line : summary.nics) get_drain(in, line);
  }
  // And one that knows no relays ends here.
  if (in.remaining() > 0 && !get_relays(in, summary)) return malformed;
  // And one without these counts here.
  if (in.remaining() > 0) {
    summary.corruptions = in.get<uint32_t>();
    summary.log_lines_dropped = in.get<uint32_t>();
  }
  if (in.bad()) return malformed;
  return summary;
}

void write_line(JsonWriter& out, const std::string& name, const RankSummary::Line& line) {
  out.begin_object()
      .field("name", name)
      .field("up", line.up)
      .field("tx_bytes", line.sent)
      .field("rx_bytes", line.received)
      .field("delay_ms", thousandth(line.delay_us))
      .field("loss_percent", static_cast<double>(line.loss_ppm) / 1e4)
      .field("paths_up", uint64_t{line.paths_up})
      .field("paths_suspect", uint64_t{line.paths_suspect})
      .field("paths_proving", uint64_t{line.paths_validating})
      .field("paths_down", uint64_t{line.paths_down})
      .field("drained", line.drained)
      .field("paths_drained", uint64_t{line.paths_drained})
      .field("idle", words_of(line.idle))
      .end_object();
}

void write_trouble(JsonWriter& out, const std::string& nic, const std::string& peer_nic,
                   const RankSummary::Trouble& trouble) {
  out.begin_object()
      .field("peer", trouble.peer.value())
      .field("nic", nic)
      .field("peer_nic", peer_nic)
      .field("state", to_string(trouble.phase))
      .field("since_ms", uint64_t{trouble.since_ms})
      .field("cause", to_string(trouble.cause))
      .field("peer_cause", to_string(trouble.peer_cause))
      .field("opens", trouble.dials)
      .field("next_attempt_ms", uint64_t{trouble.next_attempt_ms})
      .field("penalty", thousandth(trouble.penalty_milli))
      .field("returns", uint64_t{trouble.returns})
      .end_object();
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
    out.field("uptime_ms", summary->uptime_ms)
        .field("operations", summary->operations)
        .field("mirrored_bytes", summary->hedged)
        .field("replayed_bytes", summary->retransmitted)
        .field("verdicts", uint64_t{summary->verdicts})
        .field("corruptions", uint64_t{summary->corruptions})
        .field("log_lines_dropped", uint64_t{summary->log_lines_dropped})
        .field("error", summary->error)
        .field("in", summary->call)
        .field("in_ms", uint64_t{summary->call_ms})
        .field("waits_for",
               describe(summary->blocker, [&](Rank each) { return rank_name(rank_table, each); }))
        .field("waits_for_rank", summary->blocker.rank.value());
    out.key("nics").begin_array();
    for (const auto& line : summary->nics)
      write_line(out, nic_name(rank_table, rank, line.nic), line);
    out.end_array();
    out.key("troubles").begin_array();
    for (const auto& trouble : summary->troubles) {
      write_trouble(out, nic_name(rank_table, rank, trouble.nic),
                    nic_name(rank_table, trouble.peer, trouble.peer_nic), trouble);
    }
    out.end_array();
    out.field("troubles_left_out", uint64_t{summary->troubles_left_out});
    out.key("relays").begin_array();
    for (const auto& relay : summary->relays) write_relay(out, rank_table, relay);
    out.end_array();
    out.field("relays_left_out", uint64_t{summary->relays_left_out});
  }
  out.end_object();
  return out.text();
}

}  // namespace r2ccl
