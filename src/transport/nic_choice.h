// Chooses the interfaces that carry data. Pure, so that every odd machine can be a test.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"

namespace r2ccl {

// The user's choice of data NICs, in NCCL's language: "eth,nic" selects by prefix, "=eth0,eth1" by
// exact name, "^docker" and "^=docker0" leave out; empty chooses nothing. Beyond NCCL's:
// "lo@127.0.1.1,lo@127.0.2.1/16" makes each address a NIC of its own (see AddressNic).
struct NicFilter {
  std::string text;
  std::string variable = "R2CCL_SOCKET_IFNAME";  // source of the text, for messages
};

// Sets `usable` and `reason` on every NIC, and appends one NIC per "device@address" of the filter.
//
// Without a filter it chooses each NIC that is up, has carrier, has an address that is neither
// link-local nor loopback, is no part of a bond or bridge, and is Ethernet, InfiniBand, VLAN, bond,
// veth or macvlan. A host that has none of these uses bridges, tunnels and kinds without a name,
// those with the default route alone if there are any; else the loopback, which serves a job on one
// host. Names that are left out narrow this choice; names that are selected replace it: a NIC that
// the user names needs to be up, with carrier and any address.
//
// Returns an error for a filter without a name, a selection that matches no interface (the message
// lists the existing ones), or an address that its device does not have.
//
// `routed`: the names of the NICs by which packets to foreign networks leave.
Result<std::vector<Nic>> choose_nics(std::vector<Nic> nics, const NicFilter& filter,
                                     const std::vector<std::string>& routed = {});

// An address that acts as a NIC. Where no namespaces may be made, several addresses of 127.0.0.0/8
// stand for the NICs of several hosts. Connections are bound to the address and not to the device.
struct AddressNic {
  std::string device;
  Address address;
};

// Parses "lo@127.0.1.1" or "lo@127.0.1.1/16"; returns nothing when `name` is an ordinary interface
// name. The prefix, which decides the rail, is /24 (IPv6: /64) when not given.
std::optional<AddressNic> parse_address_nic(const std::string& name);
// Returns the device that connections of this NIC are bound to; empty when the NIC is an address of
// a device, because others share the device.
std::string bound_device(const std::string& nic_name);

}  // namespace r2ccl
