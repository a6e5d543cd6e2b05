#include "runtime/connection/path_addresses.h"

#include <algorithm>
#include <utility>

namespace r2ccl {
namespace {

// A virtual address, which may move to another host, has the prefix of a single one.
bool is_single(const Address& address) {
  return address.prefix_bits == (address.family == AddressFamily::ipv4 ? 32 : 128);
}

// Returns whether `other` is on the link by the prefix of `own`.
bool is_on_link(const Address& own, const Address& other) {
  Address unknown = other;
  unknown.prefix_bits = 0;
  return !is_link_local(own) && same_subnet(own, unknown);
}

// Returns the address that a router most likely knows; null: none is of that family.
const Address* routed_source(const std::vector<Address>& own, AddressFamily family) {
  const Address* best = nullptr;
  for (const Address& address : own) {
    if (address.family != family || is_link_local(address)) continue;
    if (best == nullptr || (is_single(*best) && !is_single(address))) best = &address;
  }
  return best;
}

class PairList {
 public:
  void add(const Address& source, const Address& remote) {
    AddressPair pair{source, remote};
    pair.remote.scope = source.scope;
    if (std::ranges::find(pairs_, pair) == pairs_.end()) pairs_.push_back(pair);
  }
  bool has(const Address& remote) const {
    return std::ranges::any_of(
        pairs_, [&](const AddressPair& pair) { return same_address(pair.remote, remote); });
  }
  bool empty() const { return pairs_.empty(); }
  std::vector<AddressPair> take() { return std::move(pairs_); }

 private:
  std::vector<AddressPair> pairs_;
};

}  // namespace

bool same_address(const Address& a, const Address& b) {
  return a.family == b.family && a.bytes == b.bytes;
}

bool share_subnet(const Address& a, const Address& b) {
  return same_subnet(a, b) && !is_link_local(a);
}

std::vector<AddressPair> address_pairs(const std::vector<Address>& own,
                                       const std::vector<Address>& theirs) {
  PairList pairs;
  for (const auto is_near : {share_subnet, is_on_link}) {
    for (const Address& remote : theirs) {
      for (const Address& source : own) {
        if (is_near(source, remote)) pairs.add(source, remote);
      }
    }
  }
  std::vector<Address> routed;
  for (const Address& remote : theirs) {
    const Address* source = routed_source(own, remote.family);
    if (source == nullptr || is_link_local(remote) || pairs.has(remote)) continue;
    routed.push_back(remote);
  }
  for (const Address& remote : routed) pairs.add(*routed_source(own, remote.family), remote);
  for (const Address& remote : routed) pairs.add({}, remote);
  if (!pairs.empty()) return pairs.take();
  for (const Address& remote : theirs) {
    for (const Address& source : own) {
      if (is_link_local(remote) && is_link_local(source) && source.family == remote.family) {
        pairs.add(source, remote);
      }
    }
  }
  return pairs.take();
}

PathAddresses::PathAddresses(std::vector<Address> own, std::vector<Address> theirs)
    : fixed_(false), own_(std::move(own)), theirs_(std::move(theirs)) {
  update();
}

void PathAddresses::set_own(const std::vector<Address>& own) {
  own_ = own;
  update();
}

void PathAddresses::set_theirs(const std::vector<Address>& theirs) {
  theirs_ = theirs;
  update();
}

void PathAddresses::update() {
  std::vector<AddressPair> pairs = address_pairs(own_, theirs_);
  if (pairs == pairs_) return;
  pairs_ = std::move(pairs);
  turn_ = 0;
}

std::optional<AddressPair> PathAddresses::on_proved(const Address& remote) {
  proved_ = remote;
  turn_ = 0;
  const auto pair = std::ranges::find_if(
      pairs_, [&](const AddressPair& each) { return same_address(each.remote, remote); });
  return pair == pairs_.end() ? std::nullopt : std::optional(*pair);
}

}  // namespace r2ccl
