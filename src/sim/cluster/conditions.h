// One run of a job under stated conditions of network and machine, and what came of it: what the
// detector, the windows and the pace are held against. Virtual time, so the same every time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/link/link.h"

namespace r2ccl::sim {

enum class Trouble : uint8_t { none, pull, hole, hole_tx, hole_rx };

struct Conditions {
  uint64_t mbit = 250;  // of each NIC
  TimeNs round_trip = 100 * kMicrosecond;
  int hosts = 4;
  int nics = 4;
  bool busy = false;  // every rank is preempted for up to 8 ms, once in 10 ms on average
  Trouble trouble = Trouble::none;  // of NIC 2 of host 1, which stays
  uint64_t bytes = 0;  // of an operation; 0: what takes some 30 ms on the line, in bounds
  int operations = 0;  // that are measured; 0: eight
  uint64_t seed = 1;
};

struct Outcome {
  bool connected = false;
  bool finished = false;
  std::string error;
  uint64_t wrong = 0;
  uint64_t checked = 0;
  uint64_t bytes = 0;         // of an operation
  TimeNs wire_time = 0;       // of an operation: its bytes on the line
  TimeNs chunk_time = 0;      // of the smallest chunk on one NIC
  TimeNs latency_time = 0;    // of an operation: a ring's steps, each with its way and a chunk
  TimeNs median = 0;          // of the operations before the trouble; all, without any
  TimeNs longest_before = 0;  // as above
  TimeNs median_after = 0;    // of those that began when the paths were down
  TimeNs hit = 0;             // the longest of those that began before the paths were down
  double sent_share = 0;      // bytes that the NICs sent, of payload
  double mirrored_share = 0;  // of payload, before the trouble
  uint64_t suspicions = 0;    // before the trouble
  // After the trouble.
  uint64_t suspicions_elsewhere = 0;
  size_t downs = 0;            // ends of paths that went down
  size_t downs_wanted = 0;     // ends of paths of the NIC
  size_t downs_elsewhere = 0;  // of paths that do not touch the NIC, or at any time without trouble
  TimeNs first_down = 0;       // after the trouble began
  TimeNs last_down = 0;
  std::vector<std::string> why;  // of each of the above that should not be
};

Outcome measure(const Conditions& conditions);

std::string to_string(const Conditions& conditions);
std::string to_string(const Outcome& outcome);

}  // namespace r2ccl::sim
