#include "nccl/fault_board.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace r2ccl::nccl {
namespace {

// Returns whether paths are lost for it, which may return.
bool lasts(const VerdictInfo& verdict) {
  return verdict.kind != DownCause::lossy && verdict.kind != DownCause::tampered &&
         verdict.scope != Scope::process;
}

bool same_subject(const Fault& fault, const LinkVerdict& verdict) {
  const VerdictInfo& a = fault.verdict;
  const VerdictInfo& b = verdict.verdict;
  return a.scope == b.scope && a.kind == b.kind && a.host == b.host && a.nic == b.nic &&
         a.peer_host == b.peer_host && a.peer_nic == b.peer_nic && fault.process == verdict.process;
}

bool same_or_any(const std::string& name, const std::string& other) {
  return name.empty() || other.empty() || name == other;
}

// Adds the counts of one more verdict on the same fault.
void add_up(VerdictInfo& sum, const VerdictInfo& verdict) {
  sum.retransmitted += verdict.retransmitted;
  sum.stall = std::max(sum.stall, verdict.stall);
  if (verdict.detected >= 0) {
    sum.detected = sum.detected < 0 ? verdict.detected : std::min(sum.detected, verdict.detected);
  }
}

std::string subject_text(const Fault& fault) {
  const VerdictInfo& verdict = fault.verdict;
  const auto name = [](const std::string& host, const std::string& nic) {
    return nic.empty() ? host : host + " " + nic;
  };
  switch (verdict.scope) {
    case Scope::nic:
      return name(verdict.host, verdict.nic);
    case Scope::pair:
      return "between " + name(verdict.host, verdict.nic) + " and " +
             name(verdict.peer_host, verdict.peer_nic);
    case Scope::rail:
      return "the rail of " + verdict.nic;
    case Scope::host:
      return "all NICs of " + verdict.host;
    case Scope::process:
      return "process " + std::to_string(fault.process) + " of host " + verdict.host;
  }
  return verdict.host;
}

}  // namespace

std::string fault_text(const Fault& fault) {
  const VerdictInfo& verdict = fault.verdict;
  std::string text = subject_text(fault) + ": " + to_string(verdict.kind);
  if (verdict.kind == DownCause::lossy) {
    char share[32];
    std::snprintf(share, sizeof share, "%.2g", static_cast<double>(verdict.loss_ppm) / 1e4);
    return text + ", " + share + " % of the packets are lost; it stays in use";
  }
  if (verdict.kind == DownCause::tampered) {
    return text +
           ", bytes were changed, repeated or left out on the way; no element is wrong for it, "
           "and it stays in use";
  }
  if (fault.missed_by > 0) text += ", missed by " + std::to_string(fault.missed_by) + " hosts";
  return text + ", " + std::to_string(verdict.retransmitted) + " bytes replayed";
}

std::string repair_text(const Fault& fault) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", to_ms(*fault.repaired_at - fault.found_at) / 1e3);
  return subject_text(fault) + ": works again after " + seconds + " s";
}

FaultBoard::Open FaultBoard::open_of(const LinkVerdict& verdict, TimeNs now) const {
  Open open;
  open.first = verdict;
  open.heard_at = now;
  const VerdictInfo& info = verdict.verdict;
  const bool own = info.host == host_;
  if (info.scope == Scope::pair) {
    open.nic = own ? info.nic : info.peer_nic;
    open.peer_nic = own ? info.peer_nic : info.nic;
    open.peer_host = own ? info.peer_host : info.host;
    open.hosts.insert(open.peer_host);
  } else if (own || info.scope == Scope::rail) {
    open.nic = info.nic;
  } else {
    open.peer_host = info.host;
    open.peer_nic = info.nic;
  }
  if (verdict.over) {
    open.returned = true;
  } else {
    open.lost.push_back({verdict.link, open.nic, open.peer_nic});
  }
  return open;
}

// Returns whether it names a NIC of this host, or all of them.
bool FaultBoard::names_own(const Open& open) const {
  return open.first.verdict.host == host_ && open.first.verdict.scope != Scope::pair;
}

// Returns whether the other verdict is of the same fault.
bool FaultBoard::covers(const Open& open, const Open& other) const {
  const VerdictInfo& a = open.first.verdict;
  const VerdictInfo& b = other.first.verdict;
  if (a.scope == Scope::pair) {
    return b.scope == Scope::pair && open.nic == other.nic && open.peer_host == other.peer_host &&
           open.peer_nic == other.peer_nic;
  }
  if (a.scope == Scope::rail || b.scope == Scope::rail) return a.scope == b.scope && a.nic == b.nic;
  if (names_own(open)) {
    return (b.scope == Scope::pair || b.host == host_) &&
           (open.nic.empty() || open.nic == other.nic);
  }
  return open.peer_host == other.peer_host &&
         (open.peer_nic.empty() || open.peer_nic == other.peer_nic);
}

void FaultBoard::merge(Open& into, const Open& from) {
  into.hosts.insert(from.hosts.begin(), from.hosts.end());
  into.lost.insert(into.lost.end(), from.lost.begin(), from.lost.end());
  into.returned = into.returned || from.returned;
  if (from.number) into.replaced.push_back(*from.number);
  into.replaced.insert(into.replaced.end(), from.replaced.begin(), from.replaced.end());
  add_up(into.first.verdict, from.first.verdict);
  // The kernel's word is better evidence than silence.
  const bool finer = names_own(into) && names_own(from) && direct(from.first.verdict.kind);
  if (finer) into.first.verdict.kind = from.first.verdict.kind;
  Fault* told = find(into.number);
  if (told == nullptr) return;
  told->verdict.kind = into.first.verdict.kind;
  add_up(told->verdict, from.first.verdict);
  if (told->missed_by > 0) told->missed_by = into.hosts.size();
}

void FaultBoard::on_verdict(const LinkVerdict& verdict, TimeNs now) {
  changed_ = true;
  if (!lasts(verdict.verdict)) return tell_once(verdict, now);
  Open made = open_of(verdict, now);
  const auto known =
      std::ranges::find_if(open_, [&](const Open& each) { return covers(each, made); });
  if (known != open_.end()) return merge(*known, made);
  const bool other_host = verdict.peer_host != host_;
  if (verdict.verdict.scope == Scope::pair && other_host) {
    open_.push_back(std::move(made));
  } else {
    take_in(std::move(made), now);
  }
}

// The more precise fault takes in the others.
void FaultBoard::take_in(Open made, TimeNs now) {
  std::erase_if(open_, [&](const Open& each) {
    if (!covers(made, each)) return false;
    merge(made, each);
    return true;
  });
  tell(made, now);
  open_.push_back(std::move(made));
}

void FaultBoard::name_own(std::string nic, TimeNs now) {
  const auto first = std::ranges::find_if(open_, [&](const Open& each) {
    return each.first.verdict.scope == Scope::pair && each.nic == nic;
  });
  Open named = *first;
  open_.erase(first);
  named.by_count = true;
  VerdictInfo& verdict = named.first.verdict;
  verdict.scope = nic.empty() ? Scope::host : Scope::nic;
  verdict.host = host_;
  verdict.nic = std::move(nic);
  verdict.peer_host.clear();
  verdict.peer_nic.clear();
  named.peer_host.clear();
  named.peer_nic.clear();
  if (named.number) named.replaced.push_back(*std::exchange(named.number, std::nullopt));
  take_in(std::move(named), now);
}

// Decides on a pair that waits.
void FaultBoard::judge(size_t place, TimeNs now) {
  Open& open = open_[place];
  std::set<std::string> hosts;
  for (const Open& each : open_) {
    const bool counts = each.first.verdict.scope == Scope::pair && each.nic == open.nic;
    if (counts && !each.lost.empty()) hosts.insert(each.peer_host);
  }
  const NicReach reach = reach_(open.nic);
  if (hosts.size() >= 2 && !reach.connected) return name_own(open.nic, now);
  const bool all_known = reach.hosts <= hosts.size();
  if (all_known || open.lost.empty() || now >= open.heard_at + kFaultWait) tell(open, now);
}

std::vector<Fault> FaultBoard::progress(TimeNs now) {
  if (now < next_timeout()) return {};
  changed_ = false;
  for (size_t i = 0; i < open_.size();) {
    const size_t before = open_.size();
    if (!open_[i].number) judge(i, now);
    i = open_.size() == before ? i + 1 : 0;  // some have become one
  }
  end_repaired(now);
  return std::exchange(news_, {});
}

TimeNs FaultBoard::next_timeout() const {
  if (changed_) return 0;
  TimeNs next = kNever;
  for (const Open& open : open_) {
    if (!open.number) next = std::min(next, open.heard_at + kFaultWait);
  }
  return next;
}

void FaultBoard::tell(Open& open, TimeNs now) {
  const size_t missed_by = open.by_count ? open.hosts.size() : 0;
  open.number = add_fault(open.first, missed_by, open.heard_at, now).number;
}

void FaultBoard::tell_once(const LinkVerdict& verdict, TimeNs now) {
  const bool known = std::ranges::any_of(faults_, [&](const Fault& fault) {
    return now - fault.told_at < kFaultRepeat && same_subject(fault, verdict);
  });
  if (!known) add_fault(verdict, 0, now, now);
}

Fault& FaultBoard::add_fault(const LinkVerdict& verdict, size_t missed_by, TimeNs found_at,
                             TimeNs now) {
  if (faults_.size() == kFaultsKept) faults_.pop_front();
  Fault fault;
  fault.number = count_++;
  fault.verdict = verdict.verdict;
  fault.process = verdict.process;
  fault.missed_by = missed_by;
  fault.found_at = found_at;
  fault.told_at = now;
  news_.push_back(fault);
  return faults_.emplace_back(std::move(fault));
}

// Returns null if it has not been told, or is no longer kept.
Fault* FaultBoard::find(const std::optional<uint64_t>& number) {
  if (!number || faults_.empty() || *number < faults_.front().number) return nullptr;
  return &faults_[*number - faults_.front().number];
}

void FaultBoard::on_path_up(uint64_t link, const std::string& nic, const std::string& peer_nic) {
  for (Open& open : open_) {
    changed_ = true;
    const size_t ended = std::erase_if(open.lost, [&](const Lost& lost) {
      return lost.link == link && same_or_any(lost.nic, nic) &&
             same_or_any(lost.peer_nic, peer_nic);
    });
    open.returned = open.returned || ended > 0;
  }
}

void FaultBoard::on_link_end(uint64_t link) {
  for (Open& open : open_) {
    changed_ = true;
    std::erase_if(open.lost, [link](const Lost& lost) { return lost.link == link; });
  }
}

void FaultBoard::end_repaired(TimeNs now) {
  std::erase_if(open_, [&](const Open& open) {
    if (!open.number || !open.lost.empty()) return false;
    Fault* fault = find(open.number);
    // The paths of links that have ended tell nothing.
    if (fault == nullptr || !open.returned) return true;
    for (const uint64_t each : open.replaced) {
      if (Fault* replaced = find(each)) replaced->repaired_at = now;
    }
    fault->repaired_at = now;
    news_.push_back(*fault);
    return true;
  });
}

}  // namespace r2ccl::nccl
