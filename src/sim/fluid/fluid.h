// The fluid simulator: the time of a plan on a network, in which bytes flow at max-min fair rates.
//
// Between two ranks messages go one after the other, in the order in which their sends and receives
// were posted, back to back, as a link of the library sends them. A rank's messages to different
// peers share its bandwidth. A message begins when both ends have posted it, and arrives one
// latency after its last byte has left. Its send is complete one latency later.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "sim/fluid/fluid_network.h"
#include "sim/fluid/fluid_plan.h"

namespace r2ccl::sim {

// From this time on the NIC has this rate.
struct RateChange {
  double at_s = 0;
  uint32_t host = 0;
  uint32_t nic = 0;
  NicRate rate;
};

struct FluidOptions {
  // The time for which a message takes its sender's processor, which does one at a time, before its
  // first byte leaves.
  double message_s = 0;
  // The posted, unfinished messages of a rank in one direction with one peer.
  uint32_t window = static_cast<uint32_t>(limits::kMessagesPostedMax);
  // The messages of a rank that wait to be reduced.
  uint32_t staging = static_cast<uint32_t>(limits::kStagingBytes / kPlanLimits.segment_bytes_max);
  std::vector<RateChange> changes;
  // When a NIC fails, bytes on it are lost. The links that were using it deliver nothing until they
  // have noticed this, and then send these bytes again.
  double detection_s = 0;
};

// Hears of the bytes that hosts send to each other.
class FluidRecorder {
 public:
  virtual ~FluidRecorder() = default;
  // At an even rate. Ranks of one host have the same host.
  virtual void carried(uint32_t from_host, uint32_t to_host, double begin_s, double end_s,
                       double bytes) = 0;
};

struct FluidTime {
  double time_s = 0;  // until the last rank has its result
  std::vector<double> rank_s;
  uint64_t messages = 0;
  // The bytes of each host's messages over the network.
  std::vector<uint64_t> host_sent;
  std::vector<uint64_t> host_received;
};

// Returns an error that names the value which no run can have.
Status check_options(const FluidOptions& options, const FluidFabric& fabric, size_t hosts);

// Returns the time of the plan. Fails when the values make no sense, when the plan is wrong, or
// when it cannot end on this network. The same arguments give the same time, bit for bit.
Result<FluidTime> fluid_time(const FluidPlan& plan, const HostGroups& hosts,
                             const FluidFabric& fabric, const FluidOptions& options = {},
                             FluidRecorder* recorder = nullptr);

}  // namespace r2ccl::sim
