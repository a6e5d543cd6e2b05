// A view: the usable bandwidth of each host of a job, by which plans divide the work. All ranks
// use the same view (protocol/view agrees on it). It is a value, and part of a plan's key.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace r2ccl {

// A whole NIC's rate. The unit is the same for all hosts of a view: hosts with other NICs have
// other numbers of units.
inline constexpr uint32_t kWholeNic = 1000;
inline constexpr uint32_t kNicRateMax = 1'000'000;

// The bandwidth of a NIC in each direction, in 1/1000 of a whole NIC.
struct NicRate {
  uint32_t send = kWholeNic;
  uint32_t receive = kWholeNic;
  friend bool operator==(const NicRate&, const NicRate&) = default;
};

// The NICs of a host, by rail. A host may lack the last rails.
using HostRates = std::vector<NicRate>;

class View {
 public:
  // All hosts are equal, and every NIC is whole.
  View() = default;

  // Takes the hosts in the order of HostGroups::hosts(), or of the ranks where each has a host of
  // its own. Hosts whose rates are all equal give the empty view. Fails where a host can send or
  // receive nothing, or a rate is above kNicRateMax.
  static Result<View> of(std::vector<HostRates> hosts);

  bool empty() const { return hosts_ == nullptr; }
  // Requires a view that is not empty.
  const std::vector<HostRates>& hosts() const { return *hosts_; }
  // Returns 0 exactly when it is empty.
  uint64_t hash() const { return hash_; }

  friend bool operator==(const View& a, const View& b);

 private:
  std::shared_ptr<const std::vector<HostRates>> hosts_;
  uint64_t hash_ = 0;
};

// Returns the same hosts where any NIC reaches any other one: rails mean nothing there, so each
// host has one NIC with the sum of its rates.
std::vector<HostRates> without_rails(const std::vector<HostRates>& hosts);

}  // namespace r2ccl
