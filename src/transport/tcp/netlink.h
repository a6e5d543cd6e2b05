// Interfaces and addresses from the kernel by rtnetlink, and notice of their changes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "transport/transport.h"

namespace r2ccl {

struct NetlinkReply {
  enum class Kind : uint8_t {
    more,          // understood; the dump goes on
    done,          // the dump is complete
    inconsistent,  // something changed during the read: ask again
    refused,       // the kernel refused it with `error`
    malformed,     // lengths that do not fit; the entries before them were taken
  };
  Kind kind = Kind::more;
  int error = 0;
};

// Reads one datagram of the answers to a link dump and an address dump, in this order, into `nics`.
// Pure: bytes in, value out; any bytes are safe. Skips messages of other requests, and addresses
// that cannot be bound yet (tentative) or ever (duplicate).
NetlinkReply parse_netlink(std::span<const uint8_t> datagram, uint32_t sequence,
                           std::vector<Nic>& nics);

// Reads one datagram of notices: takes over the state of the links that `nics` has. Pure, as above.
void apply_notices(std::span<const uint8_t> datagram, std::vector<Nic>& nics);

// Sets the state of the links that both have to that in `from`, where the last one counts.
void take_states(const std::vector<Nic>& from, std::vector<Nic>& nics);

// Returns all interfaces of this network namespace in kernel order, with link speeds; none is
// chosen yet.
Result<std::vector<Nic>> read_nics();

// Returns the names of those NICs by which packets to foreign networks leave.
std::vector<std::string> routed_nics(const std::vector<Nic>& nics);

// Tells that some link or address has changed. The reader dumps again, because the kernel's queue
// may have overrun, and because a notice of a link has no addresses.
class NicEvents {
 public:
  static Result<NicEvents> open();
  int fd() const { return socket_.get(); }
  // Returns true when there were notices, and applies them.
  bool drain(std::vector<Nic>& nics);

 private:
  explicit NicEvents(GuardedFd socket) : socket_(std::move(socket)) {}

  GuardedFd socket_;
};

}  // namespace r2ccl
