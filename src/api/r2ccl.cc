// The C edge: communicators. It checks arguments, translates errors once, and calls the
// communicator; operations.cc and requests.cc do so for the other functions.
#include "r2ccl/r2ccl.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/call_name.h"
#include "api/calls.h"
#include "api/errors.h"
#include "api/handles.h"
#include "api/health.h"
#include "api/init.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"

namespace {

using r2ccl::Code;
using r2ccl::Communicator;
using r2ccl::Result;
using r2ccl::Status;
using r2ccl::api::CommObject;
using r2ccl::api::comms;
using r2ccl::api::error;
using r2ccl::api::find_comm;
using r2ccl::api::guarded;
using r2ccl::api::result_of;
using r2ccl::api::with_comm;

r2cclResult_t hand_out(Result<std::unique_ptr<Communicator>> made, r2cclComm_t* comm) {
  if (!made.ok()) {
    r2ccl::log_flush();  // the caller may end the process at once
    return result_of(made.status());
  }
  *comm = r2ccl::api::adopt(std::move(made).value());
  return r2cclSuccess;
}

r2cclResult_t finalize(CommObject* comm) {
  {
    std::lock_guard lock(comm->mutex);
    if (comm->finalized) return r2cclSuccess;
    comm->finalized = true;
  }
  return result_of(comm->communicator->finalize());
}

}  // namespace

extern "C" {

r2cclResult_t r2cclGetVersion(int* version) {
  if (version == nullptr) return error(Code::invalid_argument, "r2cclGetVersion: version is NULL");
  *version = R2CCL_VERSION_CODE;
  return r2cclSuccess;
}

r2cclResult_t r2cclGetUniqueId(r2cclUniqueId* id) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (id == nullptr) return error(Code::invalid_argument, "r2cclGetUniqueId: id is NULL");
    auto made = r2ccl::api::make_unique_id(r2ccl::make_job_identity());
    if (!made.ok()) return result_of(made.status());
    *id = made.value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclGetPublicId(r2cclUniqueId* id, const r2cclConfig_t* config) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (id == nullptr) return error(Code::invalid_argument, "r2cclGetPublicId: id is NULL");
    auto made = r2ccl::api::make_public_id(config);
    if (!made.ok()) return result_of(made.status());
    *id = made.value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommInitRank(r2cclComm_t* comm, int nranks, r2cclUniqueId id, int rank) {
  return r2cclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

r2cclResult_t r2cclCommInitRankConfig(r2cclComm_t* comm, int nranks, r2cclUniqueId id, int rank,
                                      const r2cclConfig_t* config) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (comm == nullptr) return error(Code::invalid_argument, "r2cclCommInitRank: comm is NULL");
    *comm = nullptr;
    return hand_out(r2ccl::api::init_from_id(nranks, id, rank, config), comm);
  });
}

r2cclResult_t r2cclCommInitEnv(r2cclComm_t* comm, const r2cclConfig_t* config) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (comm == nullptr) return error(Code::invalid_argument, "r2cclCommInitEnv: comm is NULL");
    *comm = nullptr;
    return hand_out(r2ccl::api::init_from_environment(config), comm);
  });
}

r2cclResult_t r2cclCommFinalize(r2cclComm_t handle) {
  return with_comm("r2cclCommFinalize", handle, [](CommObject* comm) { return finalize(comm); });
}

r2cclResult_t r2cclCommDestroy(r2cclComm_t handle) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (handle == nullptr) return error(Code::invalid_argument, "r2cclCommDestroy: comm is NULL");
    if (const auto inherited = comms().find(handle);
        inherited != nullptr && inherited->inherited()) {
      // A forked child owns neither the thread nor the connections, so there is nothing to end.
      return r2cclSuccess;
    }
    const auto found = find_comm("r2cclCommDestroy", handle);
    if (!found.ok()) return result_of(found.status());
    if (r2ccl::api::in_verdict_callback(handle)) {
      return error(Code::invalid_usage,
                   "r2cclCommDestroy: the verdict callback of this communicator calls it");
    }
    // Another thread may abort the communicator during this wait, so the handle ends after it, and
    // it ends with every result.
    const bool failed = !found.value()->communicator->failure().ok();
    const r2cclResult_t result =
        failed ? r2cclSuccess
               : guarded("r2cclCommDestroy", [&] { return finalize(found.value().get()); });
    // Not later: the callback may hold the communicator as well, and would end it in its thread.
    (void)found.value()->communicator->set_verdict_listener({});
    (void)comms().take(handle);
    return result;
  });
}

r2cclResult_t r2cclCommAbort(r2cclComm_t handle) {
  return with_comm("r2cclCommAbort", handle, [&](CommObject* comm) -> r2cclResult_t {
    comm->communicator->abort("r2cclCommAbort was called");
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommAbortWith(r2cclComm_t handle, const char* reason) {
  if (reason == nullptr || *reason == '\0') return r2cclCommAbort(handle);
  return with_comm("r2cclCommAbortWith", handle, [&](CommObject* comm) -> r2cclResult_t {
    const size_t bytes = strnlen(reason, r2ccl::limits::kAbortReasonBytesMax + 1);
    const std::string shown =
        r2ccl::printable_text(std::string_view(reason, bytes), r2ccl::limits::kAbortReasonBytesMax);
    comm->communicator->abort(shown.c_str());
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommGetAsyncError(r2cclComm_t handle, r2cclResult_t* async_error) {
  return with_comm("r2cclCommGetAsyncError", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (async_error == nullptr) {
      return error(Code::invalid_argument, "r2cclCommGetAsyncError: error is NULL");
    }
    *async_error = static_cast<r2cclResult_t>(comm->communicator->failure().code());
    return r2cclSuccess;
  });
}

const char* r2cclGetErrorString(r2cclResult_t result) {
  switch (static_cast<int>(result)) {
    case r2cclSuccess:
      return "no error";
    case r2cclSystemError:
      return "system error";
    case r2cclInternalError:
      return "internal error";
    case r2cclInvalidArgument:
      return "invalid argument";
    case r2cclInvalidUsage:
      return "invalid usage";
    case r2cclRemoteError:
      return "remote error";
    case r2cclInProgress:
      return "operation in progress";
    case r2cclTimeout:
      return "timed out";
    case r2cclAborted:
      return "aborted";
    default:
      return "unknown result code";
  }
}

const char* r2cclGetLastError(r2cclComm_t handle) {
  if (handle != nullptr) {
    (void)with_comm("r2cclGetLastError", handle,
                    [](CommObject* comm) { return result_of(comm->communicator->failure()); });
  }
  return r2ccl::api::last_error().text.data();
}

r2cclResult_t r2cclGetErrorInfo(r2cclComm_t handle, r2cclErrorInfo_t* info) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr size_t kFirstSize = sizeof(r2cclErrorInfo_t);  // what the first version had
    if (info == nullptr) {
      return error(Code::invalid_argument, "r2cclGetErrorInfo: info is NULL");
    }
    if (info->size < kFirstSize) {
      return error(Code::invalid_argument,
                   "r2cclGetErrorInfo: info->size is not sizeof(r2cclErrorInfo_t)");
    }
    r2ccl::api::KeptError shown = r2ccl::api::last_error();
    if (handle != nullptr) {
      const auto found = find_comm("r2cclGetErrorInfo", handle);
      if (!found.ok()) return result_of(found.status());
      shown.set(found.value()->communicator->failure());
    }
    info->code = static_cast<r2cclResult_t>(shown.code);
    info->rank_count = static_cast<int>(shown.rank_count);
    const size_t told = std::min(shown.rank_count, shown.ranks.size());
    for (size_t i = 0; i < told; ++i) info->ranks[i] = shown.ranks[i];
    for (size_t i = told; i < R2CCL_ERROR_RANKS_MAX; ++i) info->ranks[i] = -1;
    const std::string text = r2ccl::printable_text(shown.text.data(), R2CCL_ERROR_TEXT_BYTES - 1);
    std::memcpy(info->text, text.c_str(), text.size() + 1);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclSetCallName(const char* name) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    r2ccl::set_call_name(name == nullptr ? "" : name);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommCount(r2cclComm_t handle, int* count) {
  return with_comm("r2cclCommCount", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (count == nullptr) return error(Code::invalid_argument, "r2cclCommCount: count is NULL");
    *count = comm->communicator->rank_count();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommUserRank(r2cclComm_t handle, int* rank) {
  return with_comm("r2cclCommUserRank", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (rank == nullptr) return error(Code::invalid_argument, "r2cclCommUserRank: rank is NULL");
    *rank = comm->communicator->rank().value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommGetFd(r2cclComm_t handle, int* fd) {
  return with_comm("r2cclCommGetFd", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (fd == nullptr) return error(Code::invalid_argument, "r2cclCommGetFd: fd is NULL");
    *fd = -1;
    const Result<int> made = comm->communicator->completion_descriptor();
    if (!made.ok()) return result_of(made.status().with_context("r2cclCommGetFd"));
    *fd = made.value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommReport(r2cclComm_t handle, char* buffer, size_t* size) {
  return with_comm("r2cclCommReport", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (size == nullptr) return error(Code::invalid_argument, "r2cclCommReport: bytes is NULL");
    const std::string text = comm->communicator->report();
    if (buffer != nullptr && *size > 0) {
      const size_t part = std::min(*size - 1, text.size());
      std::memcpy(buffer, text.data(), part);
      buffer[part] = '\0';
    }
    *size = text.size() + 1;
    return r2cclSuccess;
  });
}

}  // extern "C"
