#include "runtime/collective/collective_mismatch_detector.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "base/printable.h"
#include "plan/holdings.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

constexpr size_t kTextBytesMax = 512;

Rank get_rank(ByteReader& in) {
  return Rank(static_cast<int32_t>(in.get<uint32_t>()));
}

void put_rank(ByteWriter& out, Rank rank) {
  out.put(static_cast<uint32_t>(rank.value()));
}

void put_waits(ByteWriter& out, const CallReport& report) {
  out.put(static_cast<uint8_t>(report.waits));
  put_rank(out, report.waits_for);
  out.put(static_cast<uint8_t>(report.root.kind));
  put_rank(out, report.root.rank);
  out.put(report.root.number);
  put_rank(out, report.root.towards);
  out.put(report.root_age_ms);
}

// Returns false when the bytes are invalid.
bool get_waits(ByteReader& in, CallReport& report) {
  const uint8_t waits = in.get<uint8_t>();
  report.waits = waits != 0;
  report.waits_for = get_rank(in);
  const uint8_t kind = in.get<uint8_t>();
  report.root.kind = static_cast<Blocker::Kind>(kind);
  report.root.rank = get_rank(in);
  report.root.number = in.get<uint64_t>();
  report.root.towards = get_rank(in);
  report.root_age_ms = in.get<uint32_t>();
  const bool root = kind >= static_cast<uint8_t>(Blocker::Kind::behind);
  return waits <= 1 && kind <= static_cast<uint8_t>(Blocker::kLastKind) &&
         (root || kind == static_cast<uint8_t>(Blocker::Kind::none));
}

}  // namespace

std::vector<std::byte> encode(const CallReport& report) {
  std::vector<std::byte> bytes{static_cast<std::byte>(report.reason)};
  ByteWriter(bytes).put_bytes(encode_calls(report));
  return bytes;
}

Result<CallReport> decode_call_report(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto reason = static_cast<CallReport::Reason>(in.get<uint8_t>());
  switch (reason) {
    case CallReport::Reason::differ:
    case CallReport::Reason::end:
    case CallReport::Reason::closing:
      return decode_calls(reason, in.get_bytes(in.remaining()));
    case CallReport::Reason::compare:
    case CallReport::Reason::answer:
      break;
  }
  return Status(Code::remote, "malformed report of calls: its reason is unknown");
}

std::vector<std::byte> encode_calls(const CallReport& report) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(report.number);
  out.put(report.chain);
  out.put(report.sends);
  out.put(report.receives);
  out.put(report.tagged_sends);
  put_waits(out, report);
  const std::string text = printable_text(report.text, kTextBytesMax);
  out.put_bytes(std::as_bytes(std::span(text)));
  return bytes;
}

Result<CallReport> decode_calls(CallReport::Reason reason, std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  CallReport report;
  report.reason = reason;
  report.number = in.get<uint64_t>();
  report.chain = in.get<uint64_t>();
  report.sends = in.get<uint64_t>();
  report.receives = in.get<uint64_t>();
  report.tagged_sends = in.get<uint64_t>();
  const bool sound = get_waits(in, report);
  if (in.bad()) return Status(Code::remote, "malformed report of calls: it is cut short");
  if (!sound) return Status(Code::remote, "malformed report of calls: its waits make no sense");
  if (in.remaining() > kTextBytesMax) {
    return Status(Code::remote, "malformed report of calls: its text is too long");
  }
  report.text = printable_text(in.get_bytes(in.remaining()), kTextBytesMax);
  return report;
}

CollectiveMismatchDetector::CollectiveMismatchDetector(Rank self, int32_t rank_count,
                                                       const CallHistory& history,
                                                       Callbacks callbacks)
    : self_(self), rank_count_(rank_count), history_(history), callbacks_(std::move(callbacks)) {}

CallReport CollectiveMismatchDetector::report_to(Rank peer, CallReport::Reason reason) const {
  const CallRecord& latest = history_.latest();
  CallReport report;
  report.reason = reason;
  report.number = latest.number;
  report.chain = latest.chain;
  report.sends = callbacks_.sends(peer);
  report.receives = callbacks_.receives(peer);
  report.tagged_sends = callbacks_.tagged_sends(peer);
  report.text = describe_for(peer, latest) + callbacks_.also_waits();
  return report;
}

// Describes a call of this rank to the peer, also what only the two of them must agree on.
std::string CollectiveMismatchDetector::describe_for(Rank peer, const CallRecord& call) const {
  const PlanKey& key = call.key;
  if (call.number == 0 || !has_own_counts(key)) return describe(call);
  std::string counts;
  const auto add = [&](const char* verb, bool sends) {
    counts += std::string(counts.empty() ? ", " : " and ") + verb +
              std::to_string(count_with(key, self_, peer, sends));
  };
  const bool is_root = self_ == key.root;
  const bool all = key.collective == Collective::all_to_all;
  if (all || is_root != (key.collective == Collective::gather)) add("sends ", true);
  if (all || is_root == (key.collective == Collective::gather)) add("expects ", false);
  return describe(call) + counts;
}

// Only both ranks together can find the first different call. So this rank sends its present call,
// and the peer compares and tells all ranks.
void CollectiveMismatchDetector::on_mismatch(Rank peer) {
  if (std::exchange(mismatch_told_, true)) return;
  callbacks_.send(peer, report_to(peer, CallReport::Reason::differ));
}

void CollectiveMismatchDetector::on_report(Rank peer, const CallReport& report) {
  if (report.reason == CallReport::Reason::differ) {
    const CallRecord* mine = history_.find(report.number);
    return fail(peer, report.text, mine != nullptr ? *mine : history_.latest());
  }
  if (report.reason == CallReport::Reason::closing) {
    closing_[peer] = report;
    return check_closing();
  }
  compare(peer, report);
  if (report.reason != CallReport::Reason::end) return;
  ends_.insert_or_assign(peer, report);
  if (ended_) compare_ends(peer);
}

void CollectiveMismatchDetector::compare(Rank peer, const CallReport& report) {
  const uint64_t latest = history_.latest().number;
  // This rank cannot compare a later call. The answer lets the peer compare.
  if (report.number > latest) return;
  const CallRecord* mine = history_.find(report.number);
  if (mine != nullptr && mine->chain != report.chain) fail(peer, report.text, *mine);
}

void CollectiveMismatchDetector::fail(Rank peer, const std::string& theirs,
                                      const CallRecord& mine) const {
  const std::string text = describe_for(peer, mine);
  callbacks_.fail("the ranks' calls do not match: " + callbacks_.who(peer) + " is at " + theirs +
                      ", " + callbacks_.who(self_) + " at " + text +
                      (theirs.starts_with(text) ? "; they differ in an earlier one" : ""),
                  peer);
}

void CollectiveMismatchDetector::end() {
  ended_ = true;
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    const Rank peer(rank);
    if (peer == self_) continue;
    callbacks_.send(peer, report_to(peer, CallReport::Reason::end));
    if (ends_.contains(peer)) compare_ends(peer);
  }
}

void CollectiveMismatchDetector::close() {
  if (mutated(Mutant::silent_close)) return;
  for (int32_t rank = 0; rank < rank_count_; ++rank) {
    const Rank peer(rank);
    if (peer == self_) continue;
    CallReport report = report_to(peer, CallReport::Reason::closing);
    report.number = callbacks_.called();
    callbacks_.send(peer, report);
  }
}

void CollectiveMismatchDetector::check_closing() {
  for (const auto& [peer, theirs] : closing_) {
    const std::string unmatched = unmatched_by(peer, theirs);
    if (unmatched.empty()) continue;
    const Rank at_fault = peer;
    const std::string why =
        "the ranks' calls do not match: " + callbacks_.who(peer) + " finalizes after " + unmatched;
    closing_.clear();
    return callbacks_.fail(why, at_fault);
  }
}

// Returns "0 Sends to it, rank 0 (...) has called Recv 1 from it", or empty.
std::string CollectiveMismatchDetector::unmatched_by(Rank peer, const CallReport& theirs) const {
  const auto words = [this](const std::string& made, const std::string& call) {
    return made + ", " + callbacks_.who(self_) + " has called " + call;
  };
  if (const uint64_t called = callbacks_.called(); called > theirs.number) {
    const CallRecord& latest = history_.latest();
    const bool begun = latest.number > theirs.number;
    return words(count_of(theirs.number, "collective"),
                 begun ? describe(latest) : count_of(called, "collective"));
  }
  if (const uint64_t mine = callbacks_.receives(peer); mine > theirs.sends) {
    return words(count_of(theirs.sends, "Send") + " to it",
                 "Recv " + std::to_string(mine) + " from it");
  }
  if (const uint64_t mine = callbacks_.sends(peer); mine > theirs.receives) {
    return words(count_of(theirs.receives, "Recv") + " of it",
                 "Send " + std::to_string(mine) + " to it");
  }
  const std::string unmet = callbacks_.unmet_receive(peer, theirs.tagged_sends);
  return unmet.empty() ? "" : words(count_of(theirs.tagged_sends, "tagged Send") + " to it", unmet);
}

void CollectiveMismatchDetector::compare_ends(Rank peer) const {
  const CallReport& theirs = ends_.at(peer);
  const CallRecord& mine = history_.latest();
  const auto differ = [&](const std::string& they, const std::string& we) {
    callbacks_.fail("the ranks' calls do not match: " + callbacks_.who(peer) + " ends after " +
                        they + ", " + callbacks_.who(self_) + " after " + we,
                    peer);
  };
  if (theirs.number != mine.number) {
    return differ(count_of(theirs.number, "collective"), count_of(mine.number, "collective"));
  }
  if (theirs.chain != mine.chain) return fail(peer, theirs.text, mine);
  if (const uint64_t receives = callbacks_.receives(peer); theirs.sends != receives) {
    return differ(count_of(theirs.sends, "Send") + " to it",
                  count_of(receives, "Recv") + " of them");
  }
  if (const uint64_t sends = callbacks_.sends(peer); theirs.receives != sends) {
    return differ(count_of(theirs.receives, "Recv") + " from it", count_of(sends, "Send"));
  }
}

}  // namespace r2ccl
