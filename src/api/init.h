// Makes a connected communicator from the caller's arguments and the environment.
#pragma once

#include <memory>

#include "base/status.h"
#include "r2ccl/r2ccl.h"
#include "runtime/communicator.h"

namespace r2ccl::api {

Result<r2cclUniqueId> make_unique_id();
Result<std::unique_ptr<Communicator>> init_from_id(int rank_count, const r2cclUniqueId& id,
                                                   int rank, const r2cclConfig_t* config);
Result<std::unique_ptr<Communicator>> init_from_environment(const r2cclConfig_t* config);

}  // namespace r2ccl::api
