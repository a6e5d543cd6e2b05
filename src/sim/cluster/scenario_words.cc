// Scenarios in words, for people.
#include <cstdio>

#include "sim/cluster/scenario.h"

namespace r2ccl::sim {

std::string describe(const Scenario& s) {
  char text[256];
  std::snprintf(text, sizeof(text),
                "%d hosts x %d NICs of %.1f MB/s, %.0f us, %d communicators, depth %d, %zu "
                "operations, %zu faults%s%s%s%s, plans for %d ranks a host",
                s.hosts, s.nics, static_cast<double>(s.rate_bytes_per_s) / 1e6,
                static_cast<double>(s.latency) / 1e3, s.communicators, s.depth, s.operations.size(),
                s.faults.size(), s.management ? "" : ", no management NIC",
                s.damping ? "" : ", no damping", s.nics_write ? ", NICs write" : "",
                s.data_at_start ? "" : ", data on demand", s.plan_host_ranks);
  return text;
}

std::string describe(const OperationSpec& o) {
  char text[128];
  std::snprintf(text, sizeof(text), "%s of %llu %s (%s)%s on communicator %d", to_string(o.kind),
                static_cast<unsigned long long>(o.count), to_string(o.type), to_string(o.op),
                o.in_place ? " in place" : "", o.communicator);
  return text;
}

std::string describe(const FaultSpec& f) {
  char text[160];
  std::snprintf(text, sizeof(text), "%s h%d nic%d (h%d), amount %llu, for %.1f ms%s",
                to_string(f.kind), f.host, f.nic, f.other_host,
                static_cast<unsigned long long>(f.amount), to_ms(f.duration),
                f.when_busy ? ", when busy" : "");
  return text;
}

}  // namespace r2ccl::sim
