#include "protocol/blame.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "protocol/byte_io.h"

namespace r2ccl {
namespace {

bool touches(const Observation& o, const NicName& nic) {
  return o.near == nic || o.far == nic;
}

// The observer's own host saw what happened to its NIC.
bool direct(DownCause cause) {
  return cause == DownCause::interface_down || cause == DownCause::carrier_lost;
}

// The NIC that this is first-hand evidence of, or the word of its own host; null: neither.
const NicName* subject(const Observation& o) {
  if (direct(o.cause)) return &o.near;
  return o.cause == DownCause::peer_notice && direct(o.peer_cause) ? &o.far : nullptr;
}

bool is_about(const Observation& o, const NicName& nic) {
  return subject(o) != nullptr && *subject(o) == nic;
}

// Who saw it comes before who was told, and a direct report before all.
int weight(const Observation& o) {
  if (direct(o.cause)) return 3;
  if (subject(o) != nullptr) return 2;
  return o.cause == DownCause::peer_notice ? 0 : 1;
}

DownCause finest(const Observation& o) {
  return o.cause == DownCause::peer_notice && o.peer_cause != DownCause::none ? o.peer_cause
                                                                              : o.cause;
}

void put_name(ByteWriter& out, const NicName& name) {
  out.put(name.host);
  out.put(static_cast<uint8_t>(std::min<size_t>(name.nic.size(), 255)));
  out.put_bytes(std::as_bytes(std::span(name.nic).first(std::min<size_t>(name.nic.size(), 255))));
}

NicName get_name(ByteReader& in) {
  NicName name;
  name.host = in.get<uint32_t>();
  const auto bytes = in.get_bytes(in.get<uint8_t>());
  name.nic.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return name;
}

DownCause get_cause(ByteReader& in) {
  const auto cause = in.get<uint8_t>();
  return cause <= static_cast<uint8_t>(DownCause::peer_notice) ? static_cast<DownCause>(cause)
                                                               : DownCause::none;
}

}  // namespace

const char* to_string(Scope scope) {
  switch (scope) {
    case Scope::nic:
      return "nic";
    case Scope::pair:
      return "pair";
    case Scope::rail:
      return "rail";
  }
  return "unknown";
}

std::vector<std::byte> encode(const Observation& o) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint32_t>(o.observer.value()));
  out.put(static_cast<uint32_t>(o.peer.value()));
  put_name(out, o.near);
  put_name(out, o.far);
  out.put(static_cast<uint8_t>(o.cause));
  out.put(static_cast<uint8_t>(o.peer_cause));
  out.put(o.detected_us);
  out.put(o.replayed_bytes);
  out.put(o.stall_us);
  out.put(o.up_us);
  out.put(static_cast<uint64_t>(o.wall));
  return bytes;
}

Result<Observation> decode_observation(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Observation o;
  o.observer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  o.peer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  o.near = get_name(in);
  o.far = get_name(in);
  o.cause = get_cause(in);
  o.peer_cause = get_cause(in);
  o.detected_us = in.get<uint64_t>();
  o.replayed_bytes = in.get<uint64_t>();
  o.stall_us = in.get<uint64_t>();
  o.up_us = in.get<uint64_t>();
  o.wall = static_cast<TimeNs>(in.get<uint64_t>());
  if (in.bad()) return Status(Code::remote, "an observation cut short");
  return o;
}

std::vector<std::byte> encode(const Verdict& v) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(v.number);
  out.put(static_cast<uint8_t>(v.scope));
  put_name(out, v.culprit);
  out.put(static_cast<uint32_t>(v.rank.value()));
  put_name(out, v.other);
  out.put(static_cast<uint8_t>(v.kind));
  out.put(v.detected_us);
  out.put(v.replayed_bytes);
  out.put(v.stall_us);
  out.put(static_cast<uint64_t>(v.wall));
  return bytes;
}

Result<Verdict> decode_verdict(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Verdict v;
  v.number = in.get<uint32_t>();
  const auto scope = in.get<uint8_t>();
  v.scope = scope <= static_cast<uint8_t>(Scope::rail) ? static_cast<Scope>(scope) : Scope::pair;
  v.culprit = get_name(in);
  v.rank = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  v.other = get_name(in);
  v.kind = get_cause(in);
  v.detected_us = in.get<uint64_t>();
  v.replayed_bytes = in.get<uint64_t>();
  v.stall_us = in.get<uint64_t>();
  v.wall = static_cast<TimeNs>(in.get<uint64_t>());
  if (in.bad()) return Status(Code::remote, "a verdict cut short");
  return v;
}

// A direct report says something new, unless it is of a NIC that was named already.
// A path that has come back since the verdict, and is lost anew, tells of another fault.
bool Judge::absorbed(const Observation& o, TimeNs now) const {
  const TimeNs up_ns =
      static_cast<TimeNs>(std::min<uint64_t>(o.up_us, kNever / kMicrosecond)) * kMicrosecond;
  return std::ranges::any_of(recent_, [&](const Recent& recent) {
    if (now >= recent.until() || now - recent.at > up_ns) return false;
    return subject(o) != nullptr ? recent.named && is_about(o, recent.nic) : touches(o, recent.nic);
  });
}

void Judge::observe(const Observation& observation, TimeNs now) {
  if (!absorbed(observation, now)) open_.push_back({observation, now, now + kPatience});
}

TimeNs Judge::next_timeout() const {
  TimeNs next = kNever;
  for (const Open& open : open_) next = std::min(next, open.ripe_at);
  return next;
}

// Everything that has a NIC in common with `seed`, or with something that has.
std::vector<Judge::Open*> Judge::connected(const Open& seed) {
  std::set<NicName> nics = {seed.seen.near, seed.seen.far};
  for (size_t before = 0; before != nics.size();) {
    before = nics.size();
    for (const Open& open : open_) {
      if (!nics.contains(open.seen.near) && !nics.contains(open.seen.far)) continue;
      nics.insert({open.seen.near, open.seen.far});
    }
  }
  std::vector<Open*> fault;
  for (Open& open : open_) {
    if (nics.contains(open.seen.near)) fault.push_back(&open);
  }
  return fault;
}

// Whether one NIC of every host lost all the others. With two hosts nobody can tell that from a
// NIC.
Judge::RailEvidence Judge::rail_evidence(const std::vector<Open*>& fault) const {
  std::set<NicName> nics;
  std::set<NicName> without_carrier;
  std::set<uint32_t> hosts;
  std::set<std::pair<NicName, NicName>> pairs;
  for (const Open* open : fault) {
    const Observation& o = open->seen;
    nics.insert({o.near, o.far});
    hosts.insert({o.near.host, o.far.host});
    pairs.insert(std::minmax(o.near, o.far));
    if (subject(o) == nullptr) continue;
    if (finest(o) != DownCause::carrier_lost) return RailEvidence::none;
    without_carrier.insert(*subject(o));
  }
  if (hosts_ < 3 || hosts.size() != hosts_ || nics.size() != hosts_) return RailEvidence::none;
  if (!without_carrier.empty()) {
    return without_carrier == nics ? RailEvidence::full : RailEvidence::none;
  }
  if (pairs.size() == size_t{hosts_} * (hosts_ - 1) / 2) return RailEvidence::full;
  const bool one_explains_all = std::ranges::any_of(nics, [&](const NicName& nic) {
    return std::ranges::all_of(fault, [&](const Open* o) { return touches(o->seen, nic); });
  });
  return one_explains_all ? RailEvidence::none : RailEvidence::partial;
}

bool Judge::reported(const NicName& nic) const {
  return std::ranges::any_of(open_, [&](const Open& open) { return is_about(open.seen, nic); });
}

size_t Judge::hosts_opposite(const NicName& nic) const {
  std::set<uint32_t> hosts;
  for (const Open& open : open_) {
    if (open.seen.near == nic) hosts.insert(open.seen.far.host);
    if (open.seen.far == nic) hosts.insert(open.seen.near.host);
  }
  return hosts.size();
}

// When the NIC was first seen to fail towards another one than `opposite`.
TimeNs Judge::lost_elsewhere_at(const NicName& nic, const NicName& opposite) const {
  TimeNs first = kNever;
  for (const Open& open : open_) {
    if (touches(open.seen, nic) && !touches(open.seen, opposite)) first = std::min(first, open.at);
  }
  return first;
}

void Judge::remember(const NicName& nic, bool named, TimeNs now) {
  std::erase_if(recent_, [&](const Recent& recent) { return recent.until() <= now; });
  recent_.push_back({nic, named, now});
}

// Takes what `explained` says out of `open_` and adds it up.
Verdict Judge::take(const std::function<bool(const Observation&)>& explained) {
  Verdict verdict;
  std::optional<Observation> decisive;
  const auto decides = [&](const Observation& o) {
    return !decisive || weight(o) > weight(*decisive) ||
           (weight(o) == weight(*decisive) && o.wall < decisive->wall);
  };
  for (const Open& open : open_) {
    const Observation& o = open.seen;
    if (!explained(o)) continue;
    verdict.replayed_bytes += o.replayed_bytes;
    verdict.stall_us = std::max(verdict.stall_us, o.stall_us);
    verdict.wall = decisive ? std::min(verdict.wall, o.wall) : o.wall;
    if (decides(o)) decisive = o;
  }
  R2CCL_CHECK(decisive.has_value());
  verdict.rank = decisive->observer;
  verdict.kind = finest(*decisive);
  verdict.detected_us = decisive->detected_us;
  std::erase_if(open_, [&](const Open& open) { return explained(open.seen); });
  return verdict;
}

Verdict Judge::judge_rail(const std::vector<Open*>& fault, TimeNs now) {
  std::set<NicName> nics;
  for (const Open* open : fault) nics.insert({open->seen.near, open->seen.far});
  Verdict verdict = take([&](const Observation& o) { return nics.contains(o.near); });
  verdict.scope = Scope::rail;
  verdict.culprit = *nics.begin();
  for (const NicName& nic : nics) remember(nic, true, now);
  return verdict;
}

// The end of a broken pair that the evidence is against.
NicName Judge::worse_end(const Observation& pair) const {
  // A host that saw its own NIC fail knows best, and next best whom it told so.
  if (subject(pair) != nullptr) return *subject(pair);
  for (const NicName& nic : {pair.near, pair.far}) {
    if (reported(nic)) return nic;
  }
  // Else the end that failed towards more hosts, or towards others before the other end did.
  const auto badness = [&](const NicName& nic, const NicName& opposite) {
    return std::tuple(hosts_opposite(nic), -lost_elsewhere_at(nic, opposite));
  };
  return badness(pair.near, pair.far) < badness(pair.far, pair.near) ? pair.far : pair.near;
}

Verdict Judge::judge_nic(const Observation& seed, TimeNs now) {
  const NicName culprit = worse_end(seed);
  const bool side_known = reported(culprit) || hosts_opposite(culprit) >= 2;
  Verdict verdict = take([&](const Observation& o) {
    return touches(o, culprit) && (subject(o) == nullptr || is_about(o, culprit));
  });
  verdict.scope = side_known ? Scope::nic : Scope::pair;
  verdict.culprit = culprit;
  remember(culprit, side_known, now);
  if (side_known) return verdict;
  verdict.other = seed.near == culprit ? seed.far : seed.near;
  remember(verdict.other, false, now);
  return verdict;
}

std::vector<Verdict> Judge::due(TimeNs now) {
  std::vector<Verdict> verdicts;
  while (true) {
    const auto ripe =
        std::ranges::find_if(open_, [&](const Open& open) { return open.ripe_at <= now; });
    if (ripe == open_.end()) return verdicts;
    const std::vector<Open*> fault = connected(*ripe);
    const RailEvidence rail = rail_evidence(fault);
    const TimeNs heard_all_at = fault.front()->at + kEcho;
    if (rail == RailEvidence::full) {
      verdicts.push_back(judge_rail(fault, now));
    } else if (rail == RailEvidence::partial && now < heard_all_at) {
      // The paths that carry nothing will tell a rail from NICs that failed together.
      for (Open* open : fault) open->ripe_at = heard_all_at;
    } else {
      verdicts.push_back(judge_nic(Observation(ripe->seen), now));
    }
  }
}

}  // namespace r2ccl
