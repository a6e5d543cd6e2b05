#include "runtime/peers/nic_match.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

constexpr PathId kRelayPath{0xfefc};
constexpr PathId kShmPath{0xfefd};
constexpr PathId kLoopbackPath{0xfefe};
constexpr PathId kOutOfBandPath{0xffff};

// Returns whether the two ranks run in one network namespace, though on different hosts: containers
// with the host's network. Each then reaches the other at an address of its own.
bool share_network(const RankInfo& a, const RankInfo& b) {
  const RankInfo& fewer = a.nics.size() < b.nics.size() ? a : b;
  const RankInfo& more = a.nics.size() < b.nics.size() ? b : a;
  const auto is_there = [&](const NicInfo& nic) {
    return std::ranges::any_of(more.nics, [&](const NicInfo& other) {
      const bool named =
          nic.hardware != decltype(nic.hardware){} || nic.addresses == other.addresses;
      return named && nic.name == other.name && nic.hardware == other.hardware;
    });
  };
  return !fewer.nics.empty() && std::ranges::all_of(fewer.nics, is_there);
}

// Returns whether the two NICs have different addresses in one subnet. `one_network`: an address
// that both have counts too.
bool are_near(const NicInfo& a, const NicInfo& b, bool one_network) {
  return std::ranges::any_of(a.addresses, [&](const Address& mine) {
    return std::ranges::any_of(b.addresses, [&](const Address& theirs) {
      return share_subnet(mine, theirs) && (one_network || !same_address(mine, theirs));
    });
  });
}

NicId nic_id(size_t index) {
  return NicId(static_cast<uint16_t>(index));
}

class Matching {
 public:
  Matching(const RankInfo& lower, const RankInfo& higher)
      : lower_(lower),
        higher_(higher),
        one_network_(share_network(lower, higher)),
        lower_uses_(lower.nics.size()),
        higher_uses_(higher.nics.size()) {}

  std::vector<NicPair> run() {
    for (size_t i = 0; i < lower_uses_.size(); ++i) {
      for (size_t j = 0; j < higher_uses_.size() && lower_uses_[i] == 0; ++j) {
        if (higher_uses_[j] == 0) pair_if_near(i, j);
      }
    }
    // Now one side's NICs of a subnet are all taken: let the other side's NICs share them evenly.
    for (size_t i = 0; i < lower_uses_.size(); ++i) {
      if (lower_uses_[i] > 0) continue;
      for (const size_t j : least_used_first(higher_uses_)) {
        if (pair_if_near(i, j)) break;
      }
    }
    for (size_t j = 0; j < higher_uses_.size(); ++j) {
      if (higher_uses_[j] > 0) continue;
      for (const size_t i : least_used_first(lower_uses_)) {
        if (pair_if_near(i, j)) break;
      }
    }
    pair_rest_by_order();
    // The out-of-band path and the relay path take one each.
    if (pairs_.size() > limits::kPathsMax - 2) pairs_.resize(limits::kPathsMax - 2);
    return pairs_;
  }

 private:
  bool pair_if_near(size_t i, size_t j) {
    if (!are_near(lower_.nics[i], higher_.nics[j], one_network_)) return false;
    pair(i, j);
    return true;
  }
  void pair(size_t i, size_t j) {
    ++lower_uses_[i];
    ++higher_uses_[j];
    pairs_.push_back({nic_id(i), nic_id(j)});
  }
  static std::vector<size_t> least_used_first(const std::vector<size_t>& uses) {
    std::vector<size_t> order(uses.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return uses[a] < uses[b]; });
    return order;
  }
  static std::vector<size_t> unused(const std::vector<size_t>& uses) {
    std::vector<size_t> indices;
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i] == 0) indices.push_back(i);
    }
    return indices;
  }
  void pair_rest_by_order() {
    const std::vector<size_t> lower = unused(lower_uses_);
    const std::vector<size_t> higher = unused(higher_uses_);
    if (lower.empty() || higher.empty()) return;
    const size_t count = std::max(lower.size(), higher.size());
    for (size_t k = 0; k < count; ++k) {
      const size_t i = lower[k % lower.size()];
      const size_t j = higher[k % higher.size()];
      const bool any = !address_pairs(lower_.nics[i].addresses, higher_.nics[j].addresses).empty();
      if (any) pair(i, j);
    }
  }

  const RankInfo& lower_;
  const RankInfo& higher_;
  const bool one_network_;
  std::vector<size_t> lower_uses_;
  std::vector<size_t> higher_uses_;
  std::vector<NicPair> pairs_;
};

PathSpec nic_path(const RankInfo& self, const RankInfo& peer, NicPair pair) {
  const bool self_lower = self.rank < peer.rank;
  const NicId mine = self_lower ? pair.lower : pair.higher;
  const NicId theirs = self_lower ? pair.higher : pair.lower;
  const NicInfo& my_info = self.nics[mine.value()];
  const NicInfo& their_info = peer.nics[theirs.value()];
  PathSpec spec;
  spec.id = PathId(static_cast<uint16_t>(pair.lower.value() << 8 | pair.higher.value()));
  spec.local_nic = mine;
  spec.remote_nic = theirs;
  spec.local_name = my_info.name;
  spec.device = my_info.name;
  spec.one_network = share_network(self, peer);
  spec.addresses = PathAddresses(my_info.addresses, addresses_of(peer, theirs));
  R2CCL_CHECK(!spec.addresses.pairs().empty());  // match_nics() pairs no others
  const AddressPair& first = spec.addresses.pairs().front();
  spec.source = first.source;
  spec.remote = {first.remote, their_info.port};
  return spec;
}

std::vector<PathSpec> paths_within_host(const RankInfo& self, const RankInfo& peer) {
  std::vector<PathSpec> paths;
  const auto listens = [](const RankInfo& info) {
    return info.shm.address.family != AddressFamily::none;
  };
  if (listens(self) && listens(peer)) {
    PathSpec spec;
    spec.id = kShmPath;
    spec.local_name = "shm";
    spec.remote = peer.shm;
    paths.push_back(std::move(spec));
  }
  if (peer.control.empty()) return paths;
  PathSpec spec;
  spec.id = kLoopbackPath;
  spec.fallback = !paths.empty();
  spec.local_name = "lo";
  // The last control endpoint is the one on lo; see LocalNics::open.
  spec.remote = peer.control.back();
  paths.push_back(std::move(spec));
  return paths;
}

}  // namespace

std::vector<NicPair> match_nics(const RankInfo& lower, const RankInfo& higher) {
  return Matching(lower, higher).run();
}

std::vector<std::vector<uint16_t>> match_rails(std::span<const RankInfo* const> ranks) {
  R2CCL_CHECK(!ranks.empty());
  const RankInfo& most =
      **std::ranges::max_element(ranks, {}, [](const RankInfo* rank) { return rank->nics.size(); });
  std::vector<std::vector<uint16_t>> rails;
  for (const RankInfo* rank : ranks) {
    constexpr uint16_t kNone = UINT16_MAX;
    std::vector<uint16_t>& own = rails.emplace_back(rank->nics.size(), kNone);
    std::vector<bool> taken(most.nics.size());
    for (const NicPair& pair : match_nics(most, *rank)) {
      if (mutated(Mutant::view_rails_by_order)) break;
      uint16_t& rail = own[pair.higher.value()];
      if (rail != kNone || taken[pair.lower.value()]) continue;
      rail = pair.lower.value();
      taken[rail] = true;
    }
    for (uint16_t& rail : own) {
      if (rail != kNone) continue;
      rail = static_cast<uint16_t>(std::ranges::find(taken, false) - taken.begin());
      R2CCL_CHECK(rail < taken.size());
      taken[rail] = true;
    }
  }
  return rails;
}

std::vector<PathSpec> make_paths(const RankInfo& self, const RankInfo& peer) {
  if (self.host == peer.host) return paths_within_host(self, peer);
  std::vector<PathSpec> paths;
  const bool self_lower = self.rank < peer.rank;
  for (const NicPair& pair : match_nics(self_lower ? self : peer, self_lower ? peer : self)) {
    paths.push_back(nic_path(self, peer, pair));
  }
  if (self.control.size() > 1 && peer.control.size() > 1) {
    PathSpec spec;
    spec.id = kOutOfBandPath;
    spec.control_only = true;
    spec.local_name = "oob";
    spec.one_network = share_network(self, peer);
    spec.source = self.control.front().address;
    spec.remote = peer.control.front();
    paths.push_back(std::move(spec));
  }
  return paths;
}

std::vector<Address> addresses_of(const RankInfo& peer, NicId nic) {
  std::vector<Address> addresses = peer.nics[nic.value()].addresses;
  const std::vector<Address> own = addresses;
  for (size_t i = 0; i < peer.nics.size(); ++i) {
    if (i == nic.value()) continue;
    std::ranges::copy_if(
        peer.nics[i].addresses, std::back_inserter(addresses), [&](const Address& a) {
          return std::ranges::any_of(own, [&](const Address& b) { return share_subnet(a, b); });
        });
  }
  return addresses;
}

PathSpec relay_path() {
  PathSpec spec;
  spec.id = kRelayPath;
  spec.fallback = true;
  spec.relay = true;
  spec.local_name = "relay";
  return spec;
}

}  // namespace r2ccl
