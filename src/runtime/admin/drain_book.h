// Which NICs the communicators of this process have taken out of service, so that one that is made
// later knows of it: the operator spoke to those that there were. A NIC is in the book as long as
// some communicator lives that has it out of service.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/bootstrap/rank_card.h"

namespace r2ccl {

struct DrainedNic {
  std::string nic;
  uint64_t ticket = 0;  // of whoever alone asked for it (protocol/drain.h); 0: nobody did alone
  friend bool operator==(const DrainedNic&, const DrainedNic&) = default;
};

// Every communicator's progress thread writes into it, and whoever makes one reads it, also in a
// child that was forked meanwhile: one lock for all books of a process is held across fork().
class DrainBook {
 public:
  // `holder`: stands for a communicator. What it has said of the NIC before no longer holds.
  void enter(const void* holder, const HostId& host, const DrainedNic& drained);
  void strike(const void* holder, const HostId& host, const std::string& nic);
  void forget(const void* holder);
  // The NICs of the host, in no order; `host` matters where ranks that are threads have several.
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
