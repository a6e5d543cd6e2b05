// A verdict: the component that is at fault, as exactly as the evidence permits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/diagnosis/nic_name.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

// The subject of a verdict.
enum class Scope : uint8_t {
  nic = 0,      // `faulty`, its cable or its port
  pair = 1,     // `faulty` or `other`, or the network between them: the side is unknown
  rail = 2,     // the network between the NICs of all hosts; `faulty` is the first host's NIC
  host = 3,     // nothing reaches the host of `faulty` on any NIC: it is silent
  process = 4,  // `process` died, on the host of `faulty`
};
const char* to_string(Scope scope);

struct Verdict {
  uint32_t number = 0;  // the same on every rank
  Scope scope = Scope::nic;
  NicName faulty;
  Rank rank;      // the observer whose evidence decided
  NicName other;  // with Scope::pair; both without a name: all NICs of the two hosts
  DownCause kind = DownCause::none;
  uint64_t detected_us = 0;  // the earliest report
  uint64_t retransmitted_bytes = 0;
  uint64_t stall_us = 0;  // the longest
  TimeNs wall = 0;        // the earliest report
  Rank process;           // with Scope::process: the dead rank
  uint32_t loss_ppm = 0;  // with DownCause::lossy: packets lost of a million sent
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

std::vector<std::byte> encode(const Verdict& verdict);
Result<Verdict> decode_verdict(std::span<const std::byte> bytes);

}  // namespace r2ccl
