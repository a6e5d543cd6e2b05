#include "runtime/engine/idle_nics.h"

#include <algorithm>
#include <set>

#include "runtime/engine/progress_engine.h"

namespace r2ccl {
namespace {

// A line names so many hosts.
constexpr size_t kHostsNamedMax = 4;

// The paths of one NIC that have never been up.
struct NeverUp {
  size_t paths = 0;  // the NIC has so many, never up or not
  std::vector<const Path*> never;
  std::set<std::string> hosts;  // at their other ends
  bool leads_here = false;      // the peer's address is one of this host's, on each of them
  bool shared_subnet = false;   // one of its ends has another NIC in its subnet, or on its link
  std::string attempt;          // why the last attempt of one failed
};

bool shares_subnet(const RankInfo& info, NicId nic) {
  for (size_t i = 0; i < info.nics.size(); ++i) {
    if (i == nic.value()) continue;
    for (const Address& a : info.nics[i].addresses) {
      const auto in_one = [&](const Address& b) { return share_subnet(a, b); };
      if (std::ranges::any_of(info.nics[nic.value()].addresses, in_one)) return true;
    }
  }
  return false;
}

NeverUp find_never_up(const ProgressEngine& engine, NicId nic) {
  NeverUp found;
  found.leads_here = true;
  for (const RankInfo& peer : engine.job().ranks()) {
    const Link* link = engine.link(peer.rank);
    if (link == nullptr || link->peer_ended()) continue;
    for (const Path* path : link->paths()) {
      if (path->spec.local_nic != nic || path->spec.fallback || path->drained) continue;
      ++found.paths;
      const bool diverted = path->nic() != nic;
      if (path->state.up_since() != 0 && !diverted) continue;
      found.never.push_back(path);
      found.hosts.insert(peer.host_name);
      found.leads_here = found.leads_here && !path->spec.one_network &&
                         engine.nics().is_own(path->spec.remote.address);
      found.shared_subnet = found.shared_subnet || diverted ||
                            shares_subnet(engine.own_info(), nic) ||
                            shares_subnet(peer, path->spec.remote_nic);
      if (!path->history.attempt.empty()) found.attempt = path->history.attempt;
    }
  }
  return found;
}

std::string join_hosts(const std::set<std::string>& hosts) {
  std::string text;
  size_t named = 0;
  for (const std::string& host : hosts) {
    if (named++ == kHostsNamedMax)
      return text + " and " + std::to_string(hosts.size() - named + 1) + " more";
    text += (text.empty() ? "" : ", ") + host;
  }
  return text;
}

IdleCause cause_of(const NeverUp& found) {
  if (found.leads_here) return IdleCause::own_address;
  return found.shared_subnet ? IdleCause::shared_subnet : IdleCause::unreached;
}

std::string describe_idle(const std::string& nic, const NeverUp& found) {
  const bool whole = found.never.size() == found.paths;
  std::string text = nic + " is not used" + (whole ? "" : " on every path") +
                     ": since the start it has not reached " + join_hosts(found.hosts) + ": " +
                     words_of(cause_of(found));
  if (cause_of(found) == IdleCause::own_address) {
    text += ". It is " + to_string(found.never.front()->spec.remote.address);
  } else if (!found.attempt.empty()) {
    text += ". The last attempt: " + found.attempt;
  }
  return text;
}

}  // namespace

std::string words_of(IdleCause cause) {
  switch (cause) {
    case IdleCause::none:
      break;
    case IdleCause::own_address:
      return "the address of its peers is one of this host too. Give each host an address of its "
             "own, or leave the NIC out by R2CCL_SOCKET_IFNAME";
    case IdleCause::shared_subnet:
      return "several NICs of a host are on one network, and one answers for the address of "
             "another "
             "(ARP). Set the sysctls net.ipv4.conf.all.arp_ignore=1 and "
             "net.ipv4.conf.all.arp_announce=2 on every host, or give each NIC a network of its "
             "own";
    case IdleCause::unreached:
      return "no attempt arrives. Compare `r2ccl info` of the hosts, or leave the NIC out by "
             "R2CCL_SOCKET_IFNAME";
  }
  return "";
}

std::vector<IdleNic> find_idle_nics(const ProgressEngine& engine) {
  std::vector<IdleNic> idle;
  for (size_t i = 0; i < engine.nics().all().size(); ++i) {
    const NicId nic(static_cast<uint16_t>(i));
    const NeverUp found = find_never_up(engine, nic);
    const bool whole = found.never.size() == found.paths;
    if (found.never.empty() || (!whole && !found.shared_subnet)) continue;
    idle.push_back({nic, cause_of(found), describe_idle(engine.nics().all()[i].name, found)});
  }
  return idle;
}

}  // namespace r2ccl
