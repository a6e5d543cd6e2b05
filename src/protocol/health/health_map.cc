#include "protocol/health/health_map.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace r2ccl {
namespace {

// Returns the reach that the hosts would report: each NIC is whole, but for the lost ones of
// `known`.
std::vector<HostReach> first_reach(std::span<const std::vector<uint16_t>> rails,
                                   const RateTable& known) {
  size_t count = 0;
  for (const auto& own : rails) count = std::max(count, own.size());
  std::vector<HostReach> reach(rails.size(), HostReach(count));
  for (size_t host = 0; host < rails.size(); ++host) {
    for (const uint16_t rail : rails[host]) reach[host][rail] = NicReach{};
  }
  for (const RailRate& nic : known) {
    if (nic.rate.send > 0 || nic.host >= reach.size() || nic.rail >= count) continue;
    if (reach[nic.host][nic.rail]) reach[nic.host][nic.rail] = NicReach{0, 1};
  }
  return reach;
}

// Returns whether report `a` on a NIC is worse than `b`: it is out of service, or reaches a smaller
// part of the hosts.
bool is_worse(const std::optional<NicReach>& a, const std::optional<NicReach>& b) {
  if (!a || !b) return !a && b;
  return uint64_t{a->reached} * b->missed < uint64_t{b->reached} * a->missed ||
         (b->whole() && !a->whole());
}

}  // namespace

HealthMap::HealthMap(std::span<const std::vector<uint16_t>> rails, const RateTable& known)
    : first_(first_reach(rails, known)), reach_(first_), lost_(first_) {
  for (size_t host = 0; host < rails.size(); ++host) {
    std::vector<Nic>& own = nics_.emplace_back(first_[host].size());
    for (const uint16_t rail : rails[host]) own[rail].there = true;
  }
  for (const RailRate& nic : known) {
    if (!has(nic.host, nic.rail)) continue;
    nics_[nic.host][nic.rail].in_table = true;
    nics_[nic.host][nic.rail].before = nic.rate;
  }
  table_ = rates();
}

bool HealthMap::has(uint32_t host, uint16_t rail) const {
  return host < nics_.size() && rail < nics_[host].size() && nics_[host][rail].there;
}

Status HealthMap::check(uint32_t host, const NicReport& report) const {
  const auto refused = [](uint32_t of, uint16_t rail) {
    return Status(Code::remote, "a report of rail " + std::to_string(rail) + " of host " +
                                    std::to_string(of) + ", which has no NIC there");
  };
  for (const NicState& nic : report.nics) {
    if (!has(host, nic.rail)) return refused(host, nic.rail);
  }
  for (const SlowNic& slow : report.slow) {
    const bool one = slow.host != kSeveralHosts;
    if (one && !has(slow.host, slow.peer_nic)) return refused(slow.host, slow.peer_nic);
  }
  return {};
}

Status HealthMap::on_report(Rank rank, uint32_t host, const NicReport& report, TimeNs now) {
  R2CCL_CHECK(host < nics_.size());
  R2CCL_RETURN_IF_ERROR(check(host, report));
  reports_[rank] = {host, report};
  due_ = std::min(due_, now + kSettle);
  return {};
}

void HealthMap::on_end(Rank rank, TimeNs now) {
  if (reports_.erase(rank) > 0) due_ = std::min(due_, now + kSettle);
}

void HealthMap::put_together() {
  reach_ = first_;
  std::vector<std::vector<bool>> reported;
  for (std::vector<Nic>& own : nics_) {
    reported.emplace_back(own.size());
    for (Nic& nic : own) {
      nic.slow.reset();
      nic.senders.clear();
    }
  }
  for (const auto& [rank, seen] : reports_) {
    for (const NicState& nic : seen.report.nics) {
      std::optional<NicReach>& reach = reach_[seen.host][nic.rail];
      if (!reported[seen.host][nic.rail] || is_worse(nic.reach, reach)) reach = nic.reach;
      reported[seen.host][nic.rail] = true;
      nics_[seen.host][nic.rail].in_table = true;
      nics_[seen.host][nic.rail].before.reset();
    }
    for (const SlowNic& slow : seen.report.slow) nics_[seen.host][slow.nic].slow = slow;
  }
  find_senders();
}

// Notes at each receiver those that send slowly to it: to look for them in all reports, for each
// slow NIC, takes the square of the NICs' number.
void HealthMap::find_senders() {
  for (uint32_t host = 0; host < nics_.size(); ++host) {
    for (const Nic& nic : nics_[host]) {
      if (!nic.slow || nic.slow->host == kSeveralHosts || nic.slow->host == host) continue;
      nics_[nic.slow->host][nic.slow->peer_nic].senders.push_back({host, nic.slow->rate});
    }
  }
}

// Returns the least rate at which another host than the one that it sends to sends to the slow NIC.
uint32_t HealthMap::least_rate_to(const Nic& nic) {
  uint32_t least = kWholeNic;
  for (const SlowSender& sender : nic.senders) {
    if (sender.host != nic.slow->host) least = std::min(least, sender.rate);
  }
  return least;
}

// A NIC that sends slowly to several hosts is slow itself. Where it sends slowly to one host only,
// either end may be at fault. If A sends slowly to B, and B to C, it is the NIC of B.
NicRate HealthMap::rate(uint32_t host, uint16_t rail) const {
  if (lost_.lost(host, rail)) return {0, 0};
  const Nic& nic = nics_[host][rail];
  if (nic.before && nic.before->send > 0) return *nic.before;
  if (!nic.slow) return {};
  const uint32_t receives = least_rate_to(nic);
  if (nic.slow->host != kSeveralHosts && receives == kWholeNic) return {};
  return {nic.slow->rate, receives};
}

RateTable HealthMap::rates() const {
  RateTable table;
  for (uint32_t host = 0; host < nics_.size(); ++host) {
    for (size_t i = 0; i < nics_[host].size(); ++i) {
      const Nic& nic = nics_[host][i];
      const auto rail = static_cast<uint16_t>(i);
      if (!nic.there) continue;
      const NicRate now = rate(host, rail);
      if (nic.in_table || now != NicRate{}) table.push_back({host, rail, now});
    }
  }
  return table;
}

std::optional<RateTable> HealthMap::take(TimeNs now) {
  if (now < due_) return std::nullopt;
  put_together();
  lost_.judge(reach_, now);
  due_ = lost_.next_timeout();
  RateTable table = rates();
  if (table == table_) return std::nullopt;
  table_ = std::move(table);
  return table_;
}

void HealthMap::check_invariants() const {
  R2CCL_CHECK(nics_.size() == reach_.size());
  for (const RailRate& nic : table_) {
    R2CCL_CHECK(has(nic.host, nic.rail));
    R2CCL_CHECK(std::max(nic.rate.send, nic.rate.receive) <= kWholeNic);
  }
}

}  // namespace r2ccl
