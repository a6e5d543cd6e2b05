// Makes a connected communicator from the caller's arguments and the environment.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "r2ccl/r2ccl.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/communicator.h"

namespace r2ccl::api {

// Opens a rendezvous of the job in this process, at its NICs, and returns where.
Result<std::vector<Endpoint>> open_rendezvous(const Config& config, const JobIdentity& job);
Result<r2cclUniqueId> make_unique_id(JobIdentity job, const r2cclConfig_t* config = nullptr);
Result<r2cclUniqueId> make_public_id(const r2cclConfig_t* config);
Result<std::unique_ptr<Communicator>> init_from_id(int rank_count, const r2cclUniqueId& id,
                                                   int rank, const r2cclConfig_t* config);
// `in_vain`: as in CommunicatorOptions; may be empty.
Result<std::unique_ptr<Communicator>> init_from_id(int rank_count, UniqueId id, int rank,
                                                   const r2cclConfig_t* config,
                                                   std::function<Status()> in_vain = {});
Result<std::unique_ptr<Communicator>> init_from_environment(const r2cclConfig_t* config);
// Returns the settings of a communicator that is split from one with the settings `parent`.
Result<Config> child_config(const Config& parent, const r2cclConfig_t* given);
Result<std::unique_ptr<Communicator>> init_child(CommunicatorOptions options);

}  // namespace r2ccl::api
