// The options of a communicator, and how its process presents it to the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "plan/plan_costs.h"
#include "runtime/admin/drain_registry.h"
#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/config/config.h"
#include "runtime/rank_runtime.h"
#include "transport/transport.h"

namespace r2ccl {

struct CommunicatorOptions {
  Rank self;
  int32_t rank_count = 0;
  JobIdentity job;
  std::vector<Endpoint> rendezvous;
  Config config;
  uint32_t library_version = 0;             // R2CCL_VERSION_CODE, which only the API's edge knows
  DrainRegistry* drain_registry = nullptr;  // the process's; must outlive the communicator
  // A split communicator has the plan costs of the one that it comes from. None: the ranks measure
  // them.
  std::optional<PlanCosts> plan_costs{};
  View first_view{};  // that of the communicator that it comes from
  // Returns an error when the other ranks can no longer arrive. None: they always can. Any thread
  // may call it, also under the lock of the driver.
  std::function<Status()> in_vain{};
  // Why this rank cannot take part, which it then tells the others. OK: it can.
  Status unable{};
};

RankOptions rank_options(const CommunicatorOptions& options);
// Returns this process's info, without its NICs and listeners.
Result<RankInfo> describe_self(const CommunicatorOptions& options);
RendezvousClient::Options meeting_options(const CommunicatorOptions& options, RankInfo info);
// Tells the other ranks at the rendezvous that this one cannot come, and why: they need not wait
// for it until their time is up.
void tell_init_error(Transport& transport, const Clock& clock, const CommunicatorOptions& options,
                     const Status& init_error, RankInfo info);
// Opens the rank's status socket, if the configuration wants one. Only warns when that
// fails: the job can do without it.
void open_status(const CommunicatorOptions& options, RankRuntime& runtime);

// The lines of a healthy start at level INFO (communicator_log.cc).
void log_begin(const CommunicatorOptions& options);
void log_nics(Transport& transport);
void log_start(const CommunicatorOptions& options, RankRuntime& runtime);

}  // namespace r2ccl
