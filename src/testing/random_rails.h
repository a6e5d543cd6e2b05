// Hosts that have lost different rails, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/hosts/view.h"

namespace r2ccl {

inline constexpr uint32_t kRandomRailsMax = 8;

// Returns hosts of some rails, half of which have lost some, in both directions or in one. The
// first one has all, so that no two are without a way. The second one has not.
inline std::vector<HostRates> random_rails(size_t count, std::mt19937& random) {
  const auto draw = [&](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  const uint32_t nics = draw(2, kRandomRailsMax);
  std::vector<HostRates> hosts(count, HostRates(nics));
  for (size_t host = 1; host < count; ++host) {
    if (host > 1 && draw(0, 1) == 0) continue;
    const uint32_t lost = draw(1, nics - 1);
    const uint32_t first = draw(0, nics - 1);
    const uint32_t way = draw(0, 3);
    for (uint32_t nic = first; nic < first + lost; ++nic) {
      const uint32_t rate = draw(0, 1) * draw(1, 900);
      if (way != 1) hosts[host][nic % nics].send = rate;
      if (way != 2) hosts[host][nic % nics].receive = rate;
    }
  }
  return hosts;
}

}  // namespace r2ccl
