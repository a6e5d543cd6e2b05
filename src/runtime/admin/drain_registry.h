// Records the NICs that the communicators of this process have taken out of service. An operator's
// request reaches only the communicators of that moment, so a later one reads the record. A NIC
// stays in it as long as some communicator lives that has it out of service.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {

struct DrainedNic {
  std::string nic;
  uint64_t ticket = 0;  // names its only request (protocol/admin/drain.h); else 0
  friend bool operator==(const DrainedNic&, const DrainedNic&) = default;
};

// Every communicator's driving thread writes into it, and the creator of a communicator reads it,
// also in a child that was forked in the meantime. One lock for all books of a process is held
// across fork().
class DrainRegistry {
 public:
  // After this the lock needs no memory, so the end of a holder needs none.
  DrainRegistry();
  // `holder` identifies a communicator. Replaces its earlier entry for the NIC.
  void enter(const void* holder, const HostId& host, const DrainedNic& drained);
  void strike(const void* holder, const HostId& host, const std::string& nic);
  void forget(const void* holder);
  // Returns the drained NICs of the host, in no order. `host` matters where ranks are threads with
  // several hosts.
  std::vector<DrainedNic> drained(const HostId& host) const;

 private:
  struct Entry {
    const void* holder = nullptr;
    pid_t process = 0;  // a forked child has the memory, but no such communicator
    HostId host{};
    DrainedNic drained;
  };
  void remove(const void* holder, const HostId& host, const std::string& nic);

  std::vector<Entry> entries_;  // guarded by the lock of all books
};

}  // namespace r2ccl
