// Runs one random job in which one NIC loses packets, or none does, beside delays, slow NICs, MTU
// holes and shallow switch ports. Checks that its verdicts name the lossy NIC and no innocent one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/fabric/nic.h"

namespace r2ccl::sim {

struct LossTrial {
  uint64_t seed = 0;
  int hosts = 3;
  int nics = 3;
  uint64_t rate_bytes_per_s = 4'000'000;
  TimeNs latency = 50 * kMicrosecond;  // one way, of all paths
  uint64_t bytes = 64 * 1024;          // bytes of an AllReduce
  struct Fault {
    int host = 0;
    int nic = 0;
    NicFaults faults;
  };
  std::vector<Fault> others;  // from the start: a slow NIC, a delay, an MTU hole
  uint64_t port_bytes = 0;    // bytes of every NIC's switch port
  Fault lossy;                // without loss no NIC may be named lossy
  bool loses() const { return lossy.faults.loss_ppm > 0; }
};
LossTrial random_loss_trial(uint64_t seed);
std::string describe(const LossTrial& trial);

struct LossOutcome {
  bool connected = false;
  bool named = false;      // a verdict names the NIC as lossy
  TimeNs named_after = 0;  // from the beginning of the loss until every rank knows
  uint32_t said_ppm = 0;
  bool pair_named = false;            // a verdict names only a pair with the NIC
  std::vector<std::string> verdicts;  // all verdicts about the lossy NIC, this one included
  std::vector<std::string> innocent;  // verdicts about healthy NICs, or with the wrong fault
};
LossOutcome run(const LossTrial& trial);

}  // namespace r2ccl::sim
