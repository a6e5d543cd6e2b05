// Probes: which NICs of some hosts reach each other. Kernels answer them, also those of stopped
// processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "protocol/diagnosis/nic_name.h"

namespace r2ccl {

// Asks a host to open connections from its NICs to the NICs of the other `hosts`.
struct ProbeRequest {
  uint32_t number = 0;  // the localiser's number; the answer repeats it. The codec leaves it out
  std::vector<uint32_t> hosts;
  friend bool operator==(const ProbeRequest&, const ProbeRequest&) = default;
};

struct Reach {
  NicName near;
  NicName far;
  bool reached = false;  // the kernel of the far end answered
  friend bool operator==(const Reach&, const Reach&) = default;
};

struct ProbeAnswer {
  uint32_t number = 0;
  uint32_t host = 0;  // its NICs are the near ends
  std::vector<Reach> tried;
  friend bool operator==(const ProbeAnswer&, const ProbeAnswer&) = default;
};

// Both ends of a pair, and third hosts. More hosts would add nothing to the evidence of a fault.
inline constexpr size_t kProbeHostsMax = 6;
inline constexpr uint32_t kQuestionsMax = limits::kProbeQuestionsMax;
// As many as fit into one notice, with the longest names.
inline constexpr size_t kProbesMax = 48;

std::vector<std::byte> encode(const ProbeRequest& request);
Result<ProbeRequest> decode_probe_request(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const ProbeAnswer& answer);
Result<ProbeAnswer> decode_probe_answer(std::span<const std::byte> bytes);

}  // namespace r2ccl
