// The options of r2ccl's TCP sockets, and the ways to tie one to a NIC. Functions return 0 or an
// errno value. The congestion control is the system's choice; nothing here changes it.
#pragma once

#include <cstdint>
#include <string>

#include "transport/endpoint.h"

namespace r2ccl {

// Turns off Nagle, turns on keep-alives, and wakes the writer when fewer than `unsent_low_water`
// bytes wait (0: the system's value).
int set_stream_options(int socket, uint32_t unsent_low_water);
// Lets a connect give up after one repeated SYN, so that a forgotten attempt does not live for
// minutes.
int set_connect_options(int socket);
// Keeps the ICMP errors of a connect for has_icmp_error(). Once it is established they must go, or
// each would end it.
void keep_icmp_errors(int socket, bool keep);
// Returns whether an ICMP message ended the connect (Linux 5.10 or later knows).
bool has_icmp_error(int socket);
// `both_families`: a socket of IPv6 also accepts connections of IPv4.
int set_listen_options(int socket, AddressFamily family, bool both_families);

// Makes all traffic of `socket` leave and enter by `device` only. Returns EPERM where the system
// wants privileges for this (Linux before 5.7).
int bind_to_device(int socket, const std::string& device);
// Makes traffic leave by `device` as far as routes allow: the next best. Nothing restricts entry.
int prefer_device(int socket, AddressFamily family, const std::string& device);
// Returns ENETDOWN when the kernel says that `device` is down or has no carrier. A packet sent now
// would be lost, and begin a search for the peer's hardware address (RFC 826) that Linux repeats
// only once a second: the NIC would come back so much later.
int check_carrier(int socket, const std::string& device);
// Port 0 leaves the choice to connect(), which can reuse ports between different remotes.
int bind_source(int socket, const Address& source);

}  // namespace r2ccl
