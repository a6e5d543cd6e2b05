#include "sim/fluid/fluid.h"

#include <cmath>
#include <string>

#include "sim/fluid/fluid_run.h"

namespace r2ccl::sim {
namespace {

bool is_time(double value) {
  return std::isfinite(value) && value >= 0;
}

Status bad_option(const std::string& what) {
  return {Code::invalid_argument, what};
}

}  // namespace

Status check_options(const FluidOptions& options, const FluidFabric& fabric, size_t hosts) {
  if (!is_time(options.message_s))
    return bad_option("the cost of a message is zero or more seconds");
  if (!is_time(options.detection_s)) return bad_option("the detection takes zero or more seconds");
  if (options.window == 0) return bad_option("a window has at least one message");
  if (options.staging == 0) return bad_option("a rank has at least one staging slot");
  for (const RateChange& change : options.changes) {
    if (!is_time(change.at_s)) return bad_option("a NIC fails at a time of zero or more seconds");
    if (change.host >= hosts || change.nic >= fabric.nics) {
      return bad_option("host " + std::to_string(change.host) + " has no NIC " +
                        std::to_string(change.nic) + " that could fail");
    }
    if (std::max(change.rate.send, change.rate.receive) > kNicRateMax) {
      return bad_option("a NIC has at most " + std::to_string(kNicRateMax) + "/1000 of its rate");
    }
  }
  return {};
}

Result<FluidTime> fluid_time(const FluidPlan& plan, const HostGroups& hosts,
                             const FluidFabric& fabric, const FluidOptions& options,
                             FluidRecorder* recorder) {
  const size_t host_count = hosts.empty() ? plan.ranks().size() : hosts.hosts().size();
  R2CCL_RETURN_IF_ERROR(check_fabric(fabric, host_count));
  R2CCL_RETURN_IF_ERROR(check_options(options, fabric, host_count));
  return FluidRun(plan, hosts, fabric, options, recorder).run();
}

}  // namespace r2ccl::sim
