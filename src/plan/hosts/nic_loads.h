// The work of all NICs of some hosts in one direction, and its prices. Private to this folder.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/hosts/view.h"

namespace r2ccl {

// By `host * rails + rail`. Times are in 2^-kTimeBits of the time in which the fastest NIC moves a
// chunk.
struct NicLoads {
  static constexpr int kTimeBits = 14;
  // Slower NICs than 1/1024 of the fastest count as that.
  static constexpr int kRateBits = 10;

  std::vector<uint64_t> rates;
  std::vector<uint64_t> totals;  // by host
  std::vector<uint64_t> loads;   // how long each NIC is busy; at first not at all

  // `fastest`: the largest rate of any NIC.
  NicLoads(const std::vector<HostRates>& hosts, uint32_t NicRate::*direction, size_t rails,
           uint64_t fastest)
      : rates(hosts.size() * rails), loads(rates.size()) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      uint64_t total = 0;
      for (size_t rail = 0; rail < hosts[host].size(); ++rail) {
        uint64_t rate = hosts[host][rail].*direction;
        if (rate > 0) rate = std::max({rate, fastest >> kRateBits, uint64_t{1}});
        rates[host * rails + rail] = rate;
        total += rate;
      }
      totals.push_back(total);
    }
  }

  uint64_t most() const { return *std::ranges::max_element(loads); }
};

// Returns the most NICs of a host.
inline size_t rails_of(const std::vector<HostRates>& hosts) {
  size_t rails = 0;
  for (const HostRates& host : hosts) rails = std::max(rails, host.size());
  return rails;
}

// Returns the largest rate of a NIC in either direction, at least 1.
inline uint64_t fastest_of(const std::vector<HostRates>& hosts) {
  uint64_t fastest = 1;
  for (const HostRates& host : hosts) {
    for (const NicRate& nic : host) fastest = std::max<uint64_t>({fastest, nic.send, nic.receive});
  }
  return fastest;
}

// Returns the time relative to that of the fastest host, in 1/1024.
inline uint64_t relative_to_fastest_host(uint64_t time, const NicLoads& send,
                                         const NicLoads& receive, uint64_t fastest) {
  const uint64_t host =
      std::max(*std::ranges::max_element(send.totals), *std::ranges::max_element(receive.totals));
  return (time * host / fastest) >> (NicLoads::kTimeBits - 10);
}

// A price is the twelfth power of a NIC's load relative to the largest one. Work that takes the
// cheapest NICs keeps the twelfth norm of all loads small, and so the largest load. A power in
// place of an exponential function fits into integers, so all ranks find the same prices.
class NicPrices {
 public:
  explicit NicPrices(uint64_t most)
      : most_(std::max<uint64_t>(most, 1)),
        shift_(std::max(0, static_cast<int>(std::bit_width(most_)) - 31)),
        inverse_((uint64_t{1} << 62) / (most_ >> shift_)) {}

  // Loads that are a quarter above the largest one, or more, have the same price, so that the
  // products below fit into 64 bits.
  uint64_t of(uint64_t load) const {
    // Each has 30 binary digits, and up to 4 more above the largest load.
    const uint64_t first = (std::min(load, most_ + most_ / 4) >> shift_) * inverse_ >> 32;
    const uint64_t second = first * first >> 30;
    const uint64_t fourth = second * second >> 30;
    const uint64_t eighth = fourth * fourth >> 30;
    return fourth * eighth >> 28;
  }

 private:
  uint64_t most_;
  int shift_;
  uint64_t inverse_;
};

}  // namespace r2ccl
