#include "transport/nic_choice.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace r2ccl {
namespace {

struct NameList {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  bool matches(const std::string& name) const {
    return std::any_of(names.begin(), names.end(), [&](const std::string& wanted) {
      return exact ? name == wanted : name.starts_with(wanted);
    });
  }
};

NameList parse_list(std::string_view text) {
  NameList list;
  if (text.starts_with('^')) list.exclude = true, text.remove_prefix(1);
  if (text.starts_with('=')) list.exact = true, text.remove_prefix(1);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) list.names.emplace_back(name);
  }
  return list;
}

std::string describe(const NicFilter& filter) {
  return filter.variable + "=" + filter.text;
}

bool kind_carries_data(NicKind kind) {
  switch (kind) {
    case NicKind::ethernet:
    case NicKind::infiniband:
    case NicKind::veth:
    case NicKind::vlan:
    case NicKind::bond:
    case NicKind::macvlan:
      return true;
    case NicKind::other:
    case NicKind::loopback:
    case NicKind::bridge:
    case NicKind::tun:
    case NicKind::wireguard:
    case NicKind::dummy:
    case NicKind::tunnel:
      return false;
  }
  return false;
}

bool is_global(const Address& address) {
  return !is_link_local(address) && !is_loopback(address);
}

// Returns why the NIC cannot carry anything, even if the user names it; empty when it can.
std::string obstacle(const Nic& nic) {
  if (!nic.up) return "down";
  if (!nic.carrier) return "no carrier";
  if (nic.addresses.empty()) return "no address";
  return "";
}

// Returns why the NIC is not a default choice; empty when it is.
std::string default_objection(const Nic& nic) {
  if (!kind_carries_data(nic.kind)) return to_string(nic.kind);
  if (nic.master != 0) return "part of a bond or bridge";
  if (const std::string reason = obstacle(nic); !reason.empty()) return reason;
  if (std::none_of(nic.addresses.begin(), nic.addresses.end(), is_global)) {
    return "only a link-local address";
  }
  return "";
}

// Returns whether the NIC carries data where there is no default choice. A list of kinds is never
// complete: the address of a host may lie on a bridge, behind which its NIC is a port.
bool is_second_choice(const Nic& nic) {
  return nic.kind != NicKind::loopback && nic.kind != NicKind::dummy && nic.master == 0 &&
         obstacle(nic).empty() && std::ranges::any_of(nic.addresses, is_global);
}

void decide(Nic& nic, const std::string& objection, const std::string& because) {
  nic.usable = objection.empty();
  nic.reason = nic.usable ? "chosen: " + because : "not used: " + objection;
}

std::string known_names(const std::vector<Nic>& nics) {
  std::string out;
  for (const Nic& nic : nics) out += (out.empty() ? "" : ", ") + nic.name;
  return out.empty() ? "none" : out;
}

// Makes the NIC that stands for one address of `nics`' device, named without the prefix length.
Result<Nic> make_address_nic(const AddressNic& wanted, const std::vector<Nic>& nics,
                             const NicFilter& filter) {
  const std::string name = wanted.device + "@" + to_string(wanted.address);
  const auto device = std::find_if(nics.begin(), nics.end(),
                                   [&](const Nic& nic) { return nic.name == wanted.device; });
  if (device == nics.end()) {
    return Status(Code::invalid_argument, describe(filter) + ": no interface " + wanted.device +
                                              "; there are: " + known_names(nics));
  }
  // All of 127.0.0.0/8 belongs to the loopback, with any configuration.
  const bool is_ours =
      (device->kind == NicKind::loopback && is_loopback(wanted.address)) ||
      std::any_of(device->addresses.begin(), device->addresses.end(), [&](const Address& address) {
        return address.family == wanted.address.family && address.bytes == wanted.address.bytes;
      });
  if (!is_ours) {
    return Status(Code::invalid_argument, describe(filter) + ": " + to_string(wanted.address) +
                                              " is no address of " + wanted.device);
  }
  Nic nic = *device;
  nic.name = name;
  nic.addresses = {wanted.address};
  decide(nic, obstacle(nic), "address named by " + describe(filter));
  return nic;
}

void choose_second(std::vector<Nic>& nics, const NameList& left_out,
                   const std::vector<std::string>& routed) {
  const auto is_candidate = [&](const Nic& nic) {
    return is_second_choice(nic) && !left_out.matches(nic.name);
  };
  const auto is_routed = [&](const Nic& nic) {
    return std::ranges::find(routed, nic.name) != routed.end();
  };
  const bool only_routed = std::ranges::any_of(
      nics, [&](const Nic& nic) { return is_candidate(nic) && is_routed(nic); });
  bool chosen = false;
  for (Nic& nic : nics) {
    if (!is_candidate(nic) || (only_routed && !is_routed(nic))) continue;
    decide(nic, "", std::string(to_string(nic.kind)) + ", as there is no other");
    chosen = true;
  }
  for (Nic& nic : nics) {
    const bool is_lo = nic.kind == NicKind::loopback && !left_out.matches(nic.name);
    if (chosen || !is_lo || !obstacle(nic).empty()) continue;
    decide(nic, "", "loopback, as there is no other: it serves a job on one host");
  }
}

Result<std::vector<Nic>> choose_excluding(std::vector<Nic> nics, const NameList& list,
                                          const NicFilter& filter,
                                          const std::vector<std::string>& routed) {
  for (Nic& nic : nics) {
    const bool excluded = list.matches(nic.name);
    decide(nic, excluded ? "excluded by " + describe(filter) : default_objection(nic),
           to_string(nic.kind));
  }
  // A user who leaves out all NICs of a host does not mean its bridges.
  const auto is_default = [](const Nic& nic) { return default_objection(nic).empty(); };
  if (std::ranges::none_of(nics, is_default)) choose_second(nics, list, routed);
  return nics;
}

Result<std::vector<Nic>> choose_named(std::vector<Nic> nics, NameList list,
                                      const NicFilter& filter) {
  std::vector<Nic> address_nics;
  for (const std::string& name : list.names) {
    if (name.find('@') == std::string::npos) continue;
    const std::optional<AddressNic> wanted = parse_address_nic(name);
    if (!wanted) {
      return Status(Code::invalid_argument,
                    describe(filter) + ": " + name + " is not device@address");
    }
    Result<Nic> nic = make_address_nic(*wanted, nics, filter);
    if (!nic.ok()) return nic.status();
    const bool repeated =
        std::any_of(address_nics.begin(), address_nics.end(),
                    [&](const Nic& other) { return other.name == nic.value().name; });
    if (!repeated) address_nics.push_back(std::move(nic).value());
  }
  std::erase_if(list.names,
                [](const std::string& name) { return name.find('@') != std::string::npos; });

  bool matched = !address_nics.empty();
  const std::string known = known_names(nics);
  for (Nic& nic : nics) {
    const bool named = list.matches(nic.name);
    matched = matched || named;
    decide(nic, named ? obstacle(nic) : "not named by " + describe(filter),
           "named by " + describe(filter));
  }
  if (!matched) {
    return Status(Code::invalid_argument,
                  describe(filter) + " matches no interface; there are: " + known);
  }
  std::move(address_nics.begin(), address_nics.end(), std::back_inserter(nics));
  return nics;
}

}  // namespace

const char* to_string(NicKind kind) {
  switch (kind) {
    case NicKind::other:
      return "other kind";
    case NicKind::ethernet:
      return "ethernet";
    case NicKind::infiniband:
      return "infiniband";
    case NicKind::loopback:
      return "loopback";
    case NicKind::veth:
      return "veth";
    case NicKind::bridge:
      return "bridge";
    case NicKind::tun:
      return "tun";
    case NicKind::wireguard:
      return "wireguard";
    case NicKind::dummy:
      return "dummy";
    case NicKind::vlan:
      return "vlan";
    case NicKind::bond:
      return "bond";
    case NicKind::macvlan:
      return "macvlan";
    case NicKind::tunnel:
      return "tunnel";
  }
  return "?";
}

Result<std::vector<Nic>> choose_nics(std::vector<Nic> nics, const NicFilter& filter,
                                     const std::vector<std::string>& routed) {
  const NameList list = parse_list(filter.text);
  if (list.names.empty() && !filter.text.empty()) {
    return Status(Code::invalid_argument, describe(filter) + " holds no interface name");
  }
  if (list.exclude || filter.text.empty())
    return choose_excluding(std::move(nics), list, filter, routed);
  return choose_named(std::move(nics), list, filter);
}

std::optional<AddressNic> parse_address_nic(const std::string& name) {
  const size_t at = name.find('@');
  if (at == std::string::npos || at == 0) return std::nullopt;
  const size_t slash = std::min(name.find('/', at), name.size());
  const std::optional<Address> address = parse_address(name.substr(at + 1, slash - at - 1));
  if (!address) return std::nullopt;
  AddressNic out{.device = name.substr(0, at), .address = *address};
  const bool is_ipv4 = address->family == AddressFamily::ipv4;
  out.address.prefix_bits = is_ipv4 ? 24 : 64;
  if (slash == name.size()) return out;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + slash + 1, end, out.address.prefix_bits);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (out.address.prefix_bits > (is_ipv4 ? 32 : 128)) return std::nullopt;
  return out;
}

std::string bound_device(const std::string& nic_name) {
  return parse_address_nic(nic_name) ? std::string() : nic_name;
}

}  // namespace r2ccl
