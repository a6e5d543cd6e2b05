// The transport of this machine, as the settings of the process want it.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/config/config.h"
#include "transport/nic_choice.h"
#include "transport/transport.h"

namespace r2ccl {

// The clock of all transports of this process. It is never destroyed: at exit threads may still
// read it.
const SystemClock& system_clock();

// Opens TCP, shared memory unless the settings exclude it, and the faults of R2CCL_FAULT_FILE. The
// data NICs follow `nics`, or else the settings.
Result<std::unique_ptr<Transport>> open_transport(const Config& config, const NicFilter& nics);
Result<std::unique_ptr<Transport>> open_transport(const Config& config);

}  // namespace r2ccl
