#include "protocol/blame.h"

#include <algorithm>
#include <map>
#include <set>

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
  o.wall = static_cast<TimeNs>(in.get<uint64_t>());
  if (in.bad()) return Status(Code::remote, "an observation cut short");
  return o;
}

std::vector<std::byte> encode(const Verdict& v) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(v.number);
  put_name(out, v.culprit);
  out.put(static_cast<uint32_t>(v.rank.value()));
  out.put(static_cast<uint8_t>(v.side_known));
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
  v.culprit = get_name(in);
  v.rank = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  v.side_known = in.get<uint8_t>() != 0;
  v.other = get_name(in);
  v.kind = get_cause(in);
  v.detected_us = in.get<uint64_t>();
  v.replayed_bytes = in.get<uint64_t>();
  v.stall_us = in.get<uint64_t>();
  v.wall = static_cast<TimeNs>(in.get<uint64_t>());
  if (in.bad()) return Status(Code::remote, "a verdict cut short");
  return v;
}

bool Judge::absorbed(const Observation& o, TimeNs now) const {
  return std::any_of(recent_.begin(), recent_.end(), [&](const Recent& recent) {
    return now < recent.until && touches(o, recent.nic);
  });
}

void Judge::observe(const Observation& observation, TimeNs now) {
  if (absorbed(observation, now)) return;
  if (open_.empty()) opened_at_ = now;
  open_.push_back(observation);
}

void Judge::conclude(const NicName& culprit, bool side_known, const Observation& decisive,
                     TimeNs now, std::vector<Verdict>& verdicts) {
  Verdict verdict;
  verdict.culprit = culprit;
  verdict.side_known = side_known;
  verdict.rank = decisive.observer;
  verdict.kind = finest(decisive);
  verdict.wall = decisive.wall;
  verdict.detected_us = decisive.detected_us;
  if (!side_known) verdict.other = decisive.near == culprit ? decisive.far : decisive.near;
  std::erase_if(open_, [&](const Observation& o) {
    if (!touches(o, culprit)) return false;
    verdict.replayed_bytes += o.replayed_bytes;
    verdict.stall_us = std::max(verdict.stall_us, o.stall_us);
    verdict.wall = std::min(verdict.wall, o.wall);
    return true;
  });
  std::erase_if(recent_, [&](const Recent& recent) { return recent.until <= now; });
  recent_.push_back({culprit, now + kEcho});
  if (!side_known) recent_.push_back({verdict.other, now + kEcho});
  verdicts.push_back(std::move(verdict));
}

std::vector<Verdict> Judge::due(TimeNs now) {
  std::vector<Verdict> verdicts;
  if (now < next_timeout()) return verdicts;
  // A host that saw its own NIC fail knows best, and next best whom it told so.
  const auto first_hand = [](const Observation& o) { return direct(o.cause); };
  const auto second_hand = [](const Observation& o) {
    return o.cause == DownCause::peer_notice && direct(o.peer_cause);
  };
  while (true) {
    auto found = std::find_if(open_.begin(), open_.end(), first_hand);
    if (found == open_.end()) found = std::find_if(open_.begin(), open_.end(), second_hand);
    if (found == open_.end()) break;
    const Observation decisive = *found;
    conclude(first_hand(decisive) ? decisive.near : decisive.far, true, decisive, now, verdicts);
  }
  // Then the NIC that explains most of the rest, if it failed towards several hosts.
  while (!open_.empty()) {
    std::map<NicName, std::set<uint32_t>> opposite;
    for (const Observation& o : open_) {
      opposite[o.near].insert(o.far.host);
      opposite[o.far].insert(o.near.host);
    }
    const auto worst = std::max_element(
        opposite.begin(), opposite.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const NicName culprit = worst->first;
    const bool side_known = worst->second.size() >= 2;
    Observation decisive = *std::find_if(open_.begin(), open_.end(),
                                         [&](const Observation& o) { return touches(o, culprit); });
    for (const Observation& o : open_) {
      const bool seen = o.cause != DownCause::peer_notice;
      if (touches(o, culprit) && seen &&
          (decisive.cause == DownCause::peer_notice || o.wall < decisive.wall)) {
        decisive = o;
      }
    }
    conclude(culprit, side_known, decisive, now, verdicts);
  }
  return verdicts;
}

}  // namespace r2ccl
