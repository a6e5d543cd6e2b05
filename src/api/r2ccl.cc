// The C edge: checks arguments, translates errors once, and calls the communicator.
#include "r2ccl/r2ccl.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "api/errors.h"
#include "api/handles.h"
#include "api/init.h"
#include "base/types.h"
#include "runtime/link/user_memory.h"

namespace {

using r2ccl::Access;
using r2ccl::BadMemory;
using r2ccl::Code;
using r2ccl::Communicator;
using r2ccl::DataType;
using r2ccl::Rank;
using r2ccl::ReduceOp;
using r2ccl::Request;
using r2ccl::Result;
using r2ccl::Status;
using r2ccl::api::CommObject;
using r2ccl::api::comms;
using r2ccl::api::error;
using r2ccl::api::guarded;
using r2ccl::api::RequestObject;
using r2ccl::api::requests;
using r2ccl::api::result_of;

Status from_parent(const char* function, const char* what) {
  return {Code::invalid_usage, std::string(function) + ": this " + what +
                                   " belongs to the parent process; after fork() a child must "
                                   "make its own communicator"};
}

Status no_comm(const char* function, r2cclComm_t handle) {
  return {Code::invalid_argument,
          std::string(function) + (handle == nullptr ? ": comm is NULL"
                                   : comms().was_given(handle)
                                       ? ": this communicator was destroyed"
                                       : ": comm is no communicator: r2cclCommInit... did not "
                                         "return it")};
}

Result<std::shared_ptr<CommObject>> find_comm(const char* function, r2cclComm_t handle) {
  auto found = comms().find(handle);
  if (found == nullptr) return no_comm(function, handle);
  if (found->inherited()) return from_parent(function, "communicator");
  return found;
}

// Runs body(CommObject*) for the communicator of `handle`.
template <typename Body>
r2cclResult_t with_comm(const char* function, r2cclComm_t handle, Body body) {
  return guarded(function, [&]() -> r2cclResult_t {
    const auto found = find_comm(function, handle);
    return found.ok() ? body(found.value().get()) : result_of(found.status());
  });
}

// Sets the request to NULL: a failed call must not leave a value that looks like a request.
void clear(r2cclRequest_t* request) {
  if (request != nullptr) *request = nullptr;
}

Status no_request(const char* function, r2cclRequest_t handle) {
  return {Code::invalid_argument,
          std::string(function) +
              (requests().was_given(handle)
                   ? ": this request is complete and was freed; another copy of it was waited for, "
                     "tested or aborted before"
                   : ": *request is no request: set it to NULL or start an operation with it")};
}

Result<std::shared_ptr<RequestObject>> find_request(const char* function, r2cclRequest_t handle) {
  auto found = requests().find(handle);
  if (found == nullptr) return no_request(function, handle);
  if (found->inherited()) return from_parent(function, "request");
  return found;
}

Result<DataType> check_type(const char* function, r2cclDataType_t type) {
  switch (static_cast<int>(type)) {
    case r2cclInt32:
      return DataType::int32;
    case r2cclInt64:
      return DataType::int64;
    case r2cclFloat32:
      return DataType::float32;
    case r2cclFloat64:
      return DataType::float64;
    default:
      break;
  }
  return Status(Code::invalid_argument,
                std::string(function) + ": data type " + std::to_string(static_cast<int>(type)) +
                    " is not supported; int32, int64, float32 and float64 are");
}

Result<ReduceOp> check_op(const char* function, r2cclRedOp_t op) {
  switch (static_cast<int>(op)) {
    case r2cclSum:
      return ReduceOp::sum;
    case r2cclMax:
      return ReduceOp::max;
    case r2cclMin:
      return ReduceOp::min;
    case r2cclAvg:
      return ReduceOp::avg;
    default:
      break;
  }
  return Status(Code::invalid_argument, std::string(function) + ": reduction " +
                                            std::to_string(static_cast<int>(op)) +
                                            " is not supported; sum, max, min and avg are");
}

// No machine that Linux runs on lets a process address more than 56 bits.
constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 56;

Status check_buffer(const char* function, const char* name, const void* buffer, size_t count,
                    DataType type) {
  const std::string where = std::string(function) + ": ";
  if (const uint64_t most = kAddressSpaceBytes / r2ccl::size_of(type); count > most) {
    return {Code::invalid_argument, where + "count is " + std::to_string(count) +
                                        ", but an address space holds no more than " +
                                        std::to_string(most) + " " + r2ccl::to_string(type)};
  }
  if (count > 0 && buffer == nullptr) {
    return {Code::invalid_argument, where + name + " is NULL"};
  }
  if (reinterpret_cast<uintptr_t>(buffer) % r2ccl::size_of(type) != 0) {
    return {Code::invalid_argument, where + name + " is not aligned to its element size"};
  }
  return {};
}

Status check_overlap(const char* function, const void* send, const void* receive, size_t bytes) {
  if (send == receive || bytes == 0) return {};
  const auto a = reinterpret_cast<uintptr_t>(send);
  const auto b = reinterpret_cast<uintptr_t>(receive);
  const bool apart = a + bytes <= b || b + bytes <= a;
  return apart ? Status()
               : Status(Code::invalid_argument,
                        std::string(function) +
                            ": sendbuff and recvbuff overlap; in place means that they are equal");
}

// Returns memory that this rank's part of the call cannot access. An in-place buffer is written.
std::optional<BadMemory> find_bad_buffer(const void* send, const void* receive, size_t bytes) {
  std::optional<BadMemory> bad;
  const auto range = [bytes](const void* buffer) {
    return std::span(static_cast<const std::byte*>(buffer), buffer == nullptr ? 0 : bytes);
  };
  if (receive != nullptr) bad = r2ccl::find_bad_memory(range(receive), Access::write);
  if (bad || send == receive) return bad;
  return r2ccl::find_bad_memory(range(send), Access::read);
}

Status check_peer(const char* function, const char* what, int rank, const CommObject* comm) {
  const int count = comm->communicator->rank_count();
  if (rank >= 0 && rank < count) return {};
  return {Code::invalid_argument, std::string(function) + ": " + what + " is " +
                                      std::to_string(rank) + ", it must be 0 to " +
                                      std::to_string(count - 1)};
}

Status check_open(const char* function, CommObject* comm) {
  std::lock_guard lock(comm->mutex);
  if (comm->finalized) {
    return {Code::invalid_usage, std::string(function) + ": this communicator is finalized"};
  }
  return comm->communicator->failure();
}

// Calls start(), which returns the operation's Request, and blocks for the result or passes the
// request to the caller. A `refused` call ends at once, because there is nothing to wait for.
template <typename Start>
r2cclResult_t conclude(CommObject* comm, r2cclRequest_t* request, bool refused, Start start) {
  if (request == nullptr || refused) {
    const std::shared_ptr<Request> started = start();
    (void)started->wait(r2ccl::kNever);
    return result_of(started->status());
  }
  auto object = std::make_shared<RequestObject>();
  object->comm = comm->weak_from_this();
  // Add the handle first: once the operation has started, nothing may fail here any more.
  const r2cclRequest_t handle = requests().add(object);
  try {
    object->request = start();
  } catch (...) {
    (void)requests().take(handle);
    throw;
  }
  *request = handle;
  return r2cclSuccess;
}

r2cclResult_t adopt(Result<std::unique_ptr<Communicator>> made, r2cclComm_t* comm) {
  if (!made.ok()) return result_of(made.status());
  auto object = std::make_shared<CommObject>();
  object->communicator = std::move(made).value();
  *comm = comms().add(std::move(object));
  return r2cclSuccess;
}

const std::byte* bytes(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
std::byte* bytes(void* buffer) {
  return static_cast<std::byte*>(buffer);
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

#define R2CCL_TRY(expression)                                 \
  do {                                                        \
    if (Status try_status = (expression); !try_status.ok()) { \
      return result_of(try_status);                           \
    }                                                         \
  } while (0)

extern "C" {

r2cclResult_t r2cclGetVersion(int* version) {
  if (version == nullptr) return error(Code::invalid_argument, "r2cclGetVersion: version is NULL");
  *version = R2CCL_VERSION_CODE;
  return r2cclSuccess;
}

r2cclResult_t r2cclGetUniqueId(r2cclUniqueId* id) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (id == nullptr) return error(Code::invalid_argument, "r2cclGetUniqueId: id is NULL");
    auto made = r2ccl::api::make_unique_id();
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
    return adopt(r2ccl::api::init_from_id(nranks, id, rank, config), comm);
  });
}

r2cclResult_t r2cclCommInitEnv(r2cclComm_t* comm, const r2cclConfig_t* config) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (comm == nullptr) return error(Code::invalid_argument, "r2cclCommInitEnv: comm is NULL");
    *comm = nullptr;
    return adopt(r2ccl::api::init_from_environment(config), comm);
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
    // Another thread may abort the communicator during this wait, so the handle ends after it.
    const bool failed = !found.value()->communicator->failure().ok();
    const r2cclResult_t result = failed ? r2cclSuccess : finalize(found.value().get());
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
  return r2ccl::api::last_error();
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

r2cclResult_t r2cclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t handle,
                             r2cclRequest_t* request) {
  clear(request);
  return with_comm("r2cclAllReduce", handle, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclAllReduce";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    const auto reduction = check_op(kName, op);
    if (!reduction.ok()) return result_of(reduction.status());
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    const size_t size = count * r2ccl::size_of(type.value());
    const auto bad = find_bad_buffer(sendbuff, recvbuff, size);
    // With a count that is too large, separate buffers seem to overlap.
    if (!bad) R2CCL_TRY(check_overlap(kName, sendbuff, recvbuff, size));
    R2CCL_TRY(check_open(kName, comm));
    return conclude(comm, request, bad.has_value(), [&] {
      return comm->communicator->all_reduce(bytes(sendbuff), bytes(recvbuff), count, type.value(),
                                            reduction.value(), bad);
    });
  });
}

r2cclResult_t r2cclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, int root, r2cclComm_t handle,
                             r2cclRequest_t* request) {
  clear(request);
  return with_comm("r2cclBroadcast", handle, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclBroadcast";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "root", root, comm));
    const bool is_root = comm->communicator->rank() == Rank(root);
    if (is_root) R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    const void* source = is_root ? sendbuff : recvbuff;
    const size_t size = count * r2ccl::size_of(type.value());
    const auto bad = find_bad_buffer(source, recvbuff, size);
    if (!bad) R2CCL_TRY(check_overlap(kName, source, recvbuff, size));
    R2CCL_TRY(check_open(kName, comm));
    return conclude(comm, request, bad.has_value(), [&] {
      return comm->communicator->broadcast(bytes(source), bytes(recvbuff), count, type.value(),
                                           Rank(root), bad);
    });
  });
}

r2cclResult_t r2cclSend(const void* sendbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t handle, r2cclRequest_t* request) {
  clear(request);
  return with_comm("r2cclSend", handle, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclSend";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const auto bad = find_bad_buffer(sendbuff, nullptr, count * r2ccl::size_of(type.value()));
    return conclude(comm, request, bad.has_value(), [&] {
      return comm->communicator->send(bytes(sendbuff), count, type.value(), Rank(peer), bad);
    });
  });
}

r2cclResult_t r2cclRecv(void* recvbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t handle, r2cclRequest_t* request) {
  clear(request);
  return with_comm("r2cclRecv", handle, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclRecv";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const auto bad = find_bad_buffer(nullptr, recvbuff, count * r2ccl::size_of(type.value()));
    return conclude(comm, request, bad.has_value(), [&] {
      return comm->communicator->receive(bytes(recvbuff), count, type.value(), Rank(peer), bad);
    });
  });
}

r2cclResult_t r2cclBarrier(r2cclComm_t handle, r2cclRequest_t* request) {
  clear(request);
  return with_comm("r2cclBarrier", handle, [&](CommObject* comm) -> r2cclResult_t {
    R2CCL_TRY(check_open("r2cclBarrier", comm));
    return conclude(comm, request, false, [&] { return comm->communicator->barrier(); });
  });
}

r2cclResult_t r2cclRequestTest(r2cclRequest_t* request, int* done) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr || done == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestTest: request or done is NULL");
    }
    *done = 1;
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestTest", *request);
    if (!found.ok()) return result_of(found.status());
    *done = found.value()->request->done() ? 1 : 0;
    return *done != 0 ? r2cclRequestWait(request, 0) : r2cclSuccess;
  });
}

r2cclResult_t r2cclRequestWait(r2cclRequest_t* request, int64_t timeout_ms) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestWait: request is NULL");
    }
    if (timeout_ms < -1) {
      return error(Code::invalid_argument, "r2cclRequestWait: timeout_ms is below -1");
    }
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestWait", *request);
    if (!found.ok()) return result_of(found.status());
    const std::shared_ptr<Request>& operation = found.value()->request;
    constexpr int64_t kForeverMs = r2ccl::kNever / r2ccl::kMillisecond / 4;
    const bool bounded = timeout_ms >= 0 && timeout_ms < kForeverMs;
    const r2ccl::TimeNs bound = bounded ? timeout_ms * r2ccl::kMillisecond : r2ccl::kNever;
    if (!operation->wait(bound)) {
      const std::string waiting_for = operation->waiting_for();
      return error(Code::timeout, "r2cclRequestWait: not complete after " +
                                      std::to_string(timeout_ms) + " ms" +
                                      (waiting_for.empty() ? "" : ": " + waiting_for));
    }
    const r2cclRequest_t handle = std::exchange(*request, nullptr);
    if (requests().take(handle) == nullptr) {
      return result_of(no_request("r2cclRequestWait", handle));
    }
    return result_of(operation->status());
  });
}

r2cclResult_t r2cclRequestAbort(r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestAbort: request is NULL");
    }
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestAbort", *request);
    if (!found.ok()) return result_of(found.status());
    // A communicator that was freed has completed its requests.
    if (const auto comm = found.value()->comm.lock();
        comm != nullptr && !found.value()->request->done()) {
      comm->communicator->abort("r2cclRequestAbort was called");
    }
    (void)requests().take(std::exchange(*request, nullptr));
    return r2cclSuccess;
  });
}

}  // extern "C"
