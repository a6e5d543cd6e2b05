#include "runtime/diagnosis/verdict_trust.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

// Connections that are lost within this time were so when the verdict was made. An idle link
// notices the loss of a control stream by its heartbeats, some seconds later than a busy one.
constexpr TimeNs kWait = 5 * kSecond;
constexpr size_t kWaitingMax = 64;
// One fault makes few verdicts, and all who make the same do so within seconds.
constexpr size_t kCountedMax = 64;
// A path that has been connected for so long was so when the fault was found.
constexpr TimeNs kSteady = 10 * kSecond;

}  // namespace

void VerdictTrust::look(const std::vector<bool>& ended, TimeNs now) {
  ended_ = &ended;
  if (ready_at_ == 0 && engine_.ready()) ready_at_ = now;
}

// Returns whether this rank and the peer have been connected all the time.
bool VerdictTrust::steady(Rank peer, TimeNs now) const {
  return std::ranges::any_of(engine_.link(peer)->paths(), [&](const Path* path) {
    const PathPhase phase = path->state.phase();
    const TimeNs since = path->state.up_since();
    const bool up = phase == PathPhase::up || phase == PathPhase::suspect;
    return up && (since <= ready_at_ || since <= now - kSteady);
  });
}

// A rank testifies against its own host in any case: a host that reaches no other localises by
// itself, and the others hear of it when it is back.
bool VerdictTrust::is_against_itself(const Said& said) const {
  const Verdict& verdict = said.verdict;
  return verdict.faulty.host == engine_.job().host_of(said.by) && verdict.scope != Scope::pair &&
         verdict.scope != Scope::rail;
}

// Returns the lower ranks that keep the verdict from counting: they are connected to the rank that
// has made it, so far as this rank knows.
std::vector<Rank> VerdictTrust::missing(const Said& said, TimeNs now) const {
  std::vector<Rank> ranks;
  if (is_against_itself(said)) return ranks;
  const auto vouches = [&](Rank rank) {
    return std::ranges::find(said.vouchers, rank) != said.vouchers.end();
  };
  if (said.until == kNever) {
    std::ranges::remove_copy_if(said.awaited, std::back_inserter(ranks), vouches);
    return ranks;
  }
  for (int32_t value = 0; value < said.by.value(); ++value) {
    const Rank lower(value);
    if (ended_ != nullptr && (*ended_)[static_cast<size_t>(value)]) continue;
    if (vouches(lower)) continue;
    const bool self = lower == engine_.self();
    const Rank peer = self ? said.by : lower;
    const Link* link = engine_.link(peer);
    if (self ? link->ends() : link->peer_said_goodbye()) continue;
    if (steady(peer, now)) ranks.push_back(lower);
  }
  return ranks;
}

bool VerdictTrust::is_new(const Verdict& verdict) {
  if (std::ranges::find(counted_, verdict) != counted_.end()) return false;
  if (counted_.size() == kCountedMax) counted_.erase(counted_.begin());
  counted_.push_back(verdict);
  return true;
}

void VerdictTrust::check_invariants() const {
  R2CCL_CHECK(waiting_.size() <= kWaitingMax && counted_.size() <= kCountedMax);
  for (const Said& said : waiting_) {
    for (const Rank voucher : said.vouchers) R2CCL_CHECK(voucher < said.by);
  }
}

// Forgets the oldest one that waits for vouchers alone, if too many wait. Returns null if there is
// none.
VerdictTrust::Said* VerdictTrust::find_or_add(Rank by, const Verdict& verdict, TimeNs now) {
  const auto found = std::ranges::find_if(
      waiting_, [&](const Said& said) { return said.by == by && said.verdict == verdict; });
  if (found != waiting_.end()) return &*found;
  if (waiting_.size() == kWaitingMax) {
    const auto oldest = std::ranges::find(waiting_, kNever, &Said::until);
    if (oldest == waiting_.end()) return nullptr;
    waiting_.erase(oldest);
  }
  waiting_.push_back({by, verdict, now + kWait, false, false, {}, {}});
  return &waiting_.back();
}

bool VerdictTrust::hear(Rank by, const Verdict& verdict, TimeNs now) {
  Said* said = find_or_add(by, verdict, now);
  if (said == nullptr) return false;
  if (!std::exchange(said->heard, true) && said->until == kNever) said->until = now + kWait;
  vouch(*said, now);
  if (!missing(*said, now).empty()) return false;
  waiting_.erase(waiting_.begin() + (said - waiting_.data()));
  return true;
}

void VerdictTrust::on_vouch(Rank peer, std::span<const std::byte> bytes, TimeNs now) {
  ByteReader in(bytes);
  const auto by = in.get<uint32_t>();
  if (in.bad() || by >= engine_.job().size() || static_cast<int64_t>(by) <= peer.value()) return;
  const auto verdict = decode_verdict(bytes.subspan(sizeof by));
  // Others may vouch for a verdict that counts here already.
  if (!verdict.ok() || std::ranges::find(counted_, verdict.value()) != counted_.end()) return;
  Said* said = find_or_add(Rank(static_cast<int32_t>(by)), verdict.value(), now);
  if (said == nullptr || std::ranges::find(said->vouchers, peer) != said->vouchers.end()) return;
  said->vouchers.push_back(peer);
}

// Tells every other rank, once, that the verdict counts for this one.
void VerdictTrust::vouch(Said& said, TimeNs now) {
  if (said.vouched || !said.heard || said.until == kNever || said.by <= engine_.self()) return;
  if (is_against_itself(said) || steady(said.by, now)) return;
  if (mutated(Mutant::verdict_unvouched)) return;
  said.vouched = true;
  const auto by = static_cast<uint32_t>(said.by.value());
  std::vector<std::byte> body;
  ByteWriter(body).put(by);
  const std::vector<std::byte> verdict = encode(said.verdict);
  body.insert(body.end(), verdict.begin(), verdict.end());
  for (size_t rank = 0; rank < engine_.job().size(); ++rank) {
    Link* link = engine_.link(Rank(static_cast<int32_t>(rank)));
    const bool gone = ended_ != nullptr && (*ended_)[rank];
    if (link == nullptr || gone || link->peer() == said.by) continue;
    const uint64_t subject = uint64_t{by} << 32 | said.verdict.number;
    link->send_notice(make_notice(NoticeKind::vouch, subject, body));
  }
}

std::vector<VerdictTrust::Said> VerdictTrust::settle_waiting(bool localises, TimeNs now) {
  std::vector<Said> good;
  std::erase_if(waiting_, [&](Said& said) {
    const bool mine = said.by == engine_.self();
    vouch(said, now);
    if (said.heard && (mine ? localises : missing(said, now).empty())) {
      good.push_back(said);
      return true;
    }
    if (now < said.until) return false;
    if (mine) return true;
    if (said.heard) {
      R2CCL_LOG(info, "a verdict of rank %d does not count: it does not localise", said.by.value());
      said.awaited = missing(said, now);
    }
    said.until = kNever;
    return false;
  });
  return good;
}

}  // namespace r2ccl
