// Measures one run of a job under stated conditions of network and machine. The outcome shows how
// well the failure detector, the send windows and the receive credit fit these conditions. Time is
// virtual, so each run gives the same outcome.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/link/link.h"

namespace r2ccl::sim {

enum class Trouble : uint8_t { none, pull, hole, hole_tx, hole_rx };

struct Conditions {
  uint64_t mbit = 250;  // the rate of each NIC
  TimeNs round_trip = 100 * kMicrosecond;
  int hosts = 4;
  int nics = 4;
  bool busy = false;  // every rank is preempted for up to 8 ms, once in 10 ms on average
  Trouble trouble = Trouble::none;  // NIC 2 of host 1 breaks and stays broken
  // The size of an operation; 0: as many bytes as the line carries in about 30 ms, within bounds.
  uint64_t bytes = 0;
  int operations = 0;  // the number of measured operations; 0: eight
  uint64_t seed = 1;
};

struct Outcome {
  bool connected = false;
  bool finished = false;
  std::string error;
  uint64_t wrong = 0;
  uint64_t checked = 0;
  uint64_t bytes = 0;       // the size of an operation
  TimeNs wire_time = 0;     // the line carries the bytes of an operation in this time
  TimeNs chunk_time = 0;    // one NIC carries the smallest chunk in this time
  TimeNs latency_time = 0;  // a ring's steps take this, each with its latency and one chunk
  // The operations before the trouble, or all operations when there is no trouble.
  TimeNs median = 0;
  TimeNs longest_before = 0;
  TimeNs median_after = 0;  // the operations that began when the paths were down
  TimeNs hit = 0;           // the longest operation that began before the paths were down
  // Before the trouble.
  double sent_share = 0;    // bytes that the NICs sent, divided by the payload
  double hedged_share = 0;  // bytes of hedges, divided by the payload
  uint64_t suspicions = 0;
  // After the trouble.
  uint64_t suspicions_elsewhere = 0;
  size_t downs = 0;         // path ends that went down
  size_t downs_wanted = 0;  // path ends of the broken NIC
  // Path ends that went down without a reason: of other NICs, or at a time without trouble.
  size_t downs_elsewhere = 0;
  TimeNs first_down = 0;  // measured from the beginning of the trouble
  TimeNs last_down = 0;
  std::vector<std::string> why;  // one text for each of downs_elsewhere
};

Outcome measure(const Conditions& conditions);

std::string to_string(const Conditions& conditions);
std::string to_string(const Outcome& outcome);

}  // namespace r2ccl::sim
