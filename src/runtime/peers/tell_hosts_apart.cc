#include "runtime/peers/tell_hosts_apart.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "runtime/connection/path_addresses.h"

namespace r2ccl {
namespace {

struct KnownHost {
  HostId identity{};  // as its ranks gave it
  HostId own{};       // as the job uses it
  size_t first_rank = 0;
  std::map<std::string, std::vector<Address>> nics;  // of all its ranks
};

bool share_an_address(const std::vector<Address>& a, const std::vector<Address>& b) {
  return std::ranges::any_of(a, [&](const Address& one) {
    return std::ranges::any_of(b, [&](const Address& other) {
      return one.family == other.family && one.bytes == other.bytes;
    });
  });
}

// Ranks of one host may use different NICs, so only a NIC that both use can tell.
bool may_be_on(const KnownHost& host, const RankInfo& info) {
  if (host.identity != info.host) return false;
  return std::ranges::none_of(info.nics, [&](const NicInfo& nic) {
    const auto known = host.nics.find(nic.name);
    if (known == host.nics.end() || known->second.empty() || nic.addresses.empty()) return false;
    return !share_an_address(known->second, nic.addresses);
  });
}

std::string first_address(const RankInfo& info) {
  for (const NicInfo& nic : info.nics) {
    if (!nic.addresses.empty()) return to_string(nic.addresses.front());
  }
  return "";
}

std::string place_of(const RankInfo& info) {
  return "that of rank " + std::to_string(info.rank.value()) + " (" + first_address(info) + ")";
}

// Returns an identity that no kernel has: the hosts of one identity differ in its last bytes.
HostId distinct(HostId identity, size_t number) {
  for (size_t i = 0; i < sizeof(uint32_t); ++i) {
    identity[kHostIdBytes - 1 - i] ^= static_cast<std::byte>(number >> (8 * i));
  }
  return identity;
}

void add_nics(KnownHost& host, const RankInfo& info) {
  for (const NicInfo& nic : info.nics) {
    auto& addresses = host.nics[nic.name];
    addresses.insert(addresses.end(), nic.addresses.begin(), nic.addresses.end());
  }
}

bool share_a_network(const NicInfo& a, const NicInfo& b) {
  return std::ranges::any_of(a.addresses, [&](const Address& one) {
    return std::ranges::any_of(b.addresses,
                               [&](const Address& other) { return share_subnet(one, other); });
  });
}

std::string words_for_nics(const RankInfo& info) {
  constexpr size_t kNamed = 4;
  std::string text = "rank " + std::to_string(info.rank.value()) + " uses ";
  for (size_t i = 0; i < std::min(info.nics.size(), kNamed); ++i) {
    const NicInfo& nic = info.nics[i];
    text += (i == 0 ? "" : ", ") + nic.name;
    if (nic.addresses.empty()) continue;
    const Address& first = nic.addresses.front();
    text += " (" + to_string(first) + "/" + std::to_string(first.prefix_bits) + ")";
  }
  return info.nics.size() <= kNamed
             ? text
             : text + " and " + std::to_string(info.nics.size() - kNamed) + " more";
}

}  // namespace

std::vector<std::string> tell_hosts_apart(std::vector<RankInfo>& rank_table) {
  std::vector<KnownHost> hosts;
  std::string one_identity;
  for (size_t rank = 0; rank < rank_table.size(); ++rank) {
    RankInfo& info = rank_table[rank];
    auto host =
        std::ranges::find_if(hosts, [&](const auto& each) { return may_be_on(each, info); });
    if (host == hosts.end()) {
      const auto twin = std::ranges::find(hosts, info.host, &KnownHost::identity);
      if (twin != hosts.end() && one_identity.empty()) {
        one_identity =
            "two hosts have one identity (R2CCL_HOST_ID, or copies of a running "
            "machine): " +
            place_of(rank_table[twin->first_rank]) + " and " + place_of(info) +
            "; they are taken for two, and R2CCL_HOST_ID tells them apart";
      }
      const HostId own = twin == hosts.end() ? info.host : distinct(info.host, hosts.size());
      hosts.push_back({info.host, own, rank, {}});
      host = std::prev(hosts.end());
    }
    add_nics(*host, info);
    info.host = host->own;
  }

  std::map<std::string, const KnownHost*> named;
  std::map<std::string, const KnownHost*> second;  // another host of that name
  for (const KnownHost& host : hosts) {
    const std::string& name = rank_table[host.first_rank].host_name;
    if (!named.emplace(name, &host).second) second.emplace(name, &host);
  }
  std::vector<std::string> told;
  if (!one_identity.empty()) told.push_back(std::move(one_identity));
  if (second.empty()) return told;
  const auto& [name, other] = *second.begin();
  told.push_back("two hosts are called " + name + ": " +
                 place_of(rank_table[named.at(name)->first_rank]) + " and " +
                 place_of(rank_table[other->first_rank]) +
                 "; messages add an address to the name, and R2CCL_HOST_ID gives a host another "
                 "one");
  std::map<HostId, std::string> addresses;
  for (const KnownHost& host : hosts) {
    addresses.emplace(host.own, first_address(rank_table[host.first_rank]));
  }
  for (RankInfo& info : rank_table) {
    if (!second.contains(info.host_name)) continue;
    const std::string suffix = "@" + addresses.at(info.host);
    info.host_name.resize(std::min(info.host_name.size(), kHostNameBytesMax - suffix.size()));
    info.host_name += suffix;
  }
  return told;
}

std::string networks_apart(const RankInfo& a, const RankInfo& b) {
  for (const NicInfo& one : a.nics) {
    for (const NicInfo& other : b.nics) {
      if (share_a_network(one, other)) return "";
    }
  }
  return words_for_nics(a) + ", and " + words_for_nics(b);
}

std::string same_addresses(const RankInfo& a, const RankInfo& b) {
  const auto has = [](const RankInfo& info, const Address& address) {
    return std::ranges::any_of(
        info.nics, [&](const NicInfo& nic) { return share_an_address(nic.addresses, {address}); });
  };
  std::string first;
  for (const NicInfo& nic : b.nics) {
    for (const Address& address : nic.addresses) {
      // Each host has link-local ones of its own, which serve its own network alone.
      if (is_link_local(address)) continue;
      if (!has(a, address)) return "";
      if (first.empty()) first = to_string(address);
    }
  }
  if (first.empty()) return "";
  return "rank " + std::to_string(a.rank.value()) + " and rank " + std::to_string(b.rank.value()) +
         " are on two hosts that both have the address " + first;
}

Status check_reachable(const std::vector<RankInfo>& rank_table) {
  const auto has_network = [](const RankInfo& info) {
    return std::ranges::any_of(info.nics, [](const NicInfo& nic) {
      return !std::ranges::all_of(nic.addresses, is_loopback);
    });
  };
  const auto lone = std::ranges::find_if_not(rank_table, has_network);
  if (lone == rank_table.end()) return {};
  const auto elsewhere = std::ranges::find_if(rank_table, [&](const RankInfo& info) {
    return info.host != lone->host && has_network(info);
  });
  if (elsewhere == rank_table.end()) return {};
  return Status(Code::system, describe(*lone) + " has no network interface but the loopback, so " +
                                  describe(*elsewhere) +
                                  " cannot reach it: `r2ccl info` there says why each of the "
                                  "others is not used, and R2CCL_SOCKET_IFNAME names some")
      .with_ranks({lone->rank});
}

}  // namespace r2ccl
