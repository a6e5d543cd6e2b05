// The addresses by which a path may be dialed, and the choice among them for each attempt. Pure.
//
// A NIC may have several addresses, of several subnets and families, and no list of them says which
// ones reach each other. So each attempt takes the next pair, the likeliest first, until the peer
// has proved by a handshake that one leads to it. The next attempts then keep to that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/endpoint.h"

namespace r2ccl {

struct AddressPair {
  Address source;  // family none: the kernel chooses
  Address remote;
  friend bool operator==(const AddressPair&, const AddressPair&) = default;
};

// Returns whether both are one address, whatever their subnets.
bool same_address(const Address& a, const Address& b);
// Returns whether both lie in one subnet, by both prefixes. Every link has the subnet of link-local
// addresses, so it says nothing.
bool share_subnet(const Address& a, const Address& b);

// Returns the pairs of `own` addresses of a NIC and `theirs`, the likeliest first: those of one
// subnet, those on the link by this end's prefix alone, and those that a router may connect.
// Link-local addresses count only where there are no others.
std::vector<AddressPair> address_pairs(const std::vector<Address>& own,
                                       const std::vector<Address>& theirs);

class PathAddresses {
 public:
  // A path with one fixed address.
  PathAddresses() = default;
  // `theirs`: in the order of preference.
  PathAddresses(std::vector<Address> own, std::vector<Address> theirs);

  void set_own(const std::vector<Address>& own);
  void set_theirs(const std::vector<Address>& theirs);

  bool is_fixed() const { return fixed_; }
  const std::vector<AddressPair>& pairs() const { return pairs_; }
  // Returns the pair for the next attempt, of those whose remote address does not lead back to this
  // host; none: each does.
  template <typename IsHere>
  std::optional<AddressPair> next(IsHere&& is_here) const {
    std::vector<AddressPair> usable;
    for (const AddressPair& pair : pairs_) {
      if (is_here(pair.remote)) continue;
      const bool proved = same_address(pair.remote, proved_);
      if (proved && turn_ % kOthersEvery != kOthersEvery - 1) return pair;
      usable.push_back(pair);
    }
    if (usable.empty()) return std::nullopt;
    const uint32_t turn = proved_.family == AddressFamily::none ? turn_ : turn_ / kOthersEvery;
    return usable[turn % usable.size()];
  }
  // Records that an attempt with the last pair failed.
  void on_failed() { ++turn_; }

  // Records that an authenticated connection leads to, or came from, that address of the peer.
  // Returns its pair, if it has one.
  std::optional<AddressPair> on_proved(const Address& remote);
  // Returns whether the address was the peer's when the path was last connected. Only the answers
  // of a kernel there say something about the peer: a firewall, another host with the same address,
  // and this host itself answer too.
  bool is_proved(const Address& remote) const { return same_address(remote, proved_); }

 private:
  // After a failure of the proved address, so many attempts keep to it before one tries another.
  static constexpr uint32_t kOthersEvery = 4;

  void update();

  bool fixed_ = true;
  std::vector<Address> own_;
  std::vector<Address> theirs_;
  std::vector<AddressPair> pairs_;
  Address proved_;     // family none: the path has never been connected
  uint32_t turn_ = 0;  // attempts that have failed since the pairs or the proof changed
};

}  // namespace r2ccl
