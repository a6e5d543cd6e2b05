// The C edge: checks arguments, translates errors once, and hands on to the communicator.
#include "r2ccl/r2ccl.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "api/errors.h"
#include "api/handles.h"
#include "api/init.h"
#include "base/types.h"

namespace {

using r2ccl::Code;
using r2ccl::Communicator;
using r2ccl::DataType;
using r2ccl::Rank;
using r2ccl::ReduceOp;
using r2ccl::Request;
using r2ccl::Result;
using r2ccl::Status;
using r2ccl::api::error;
using r2ccl::api::guarded;
using r2ccl::api::result_of;

Status check_comm(const char* function, const r2cclComm* comm) {
  if (comm == nullptr) return {Code::invalid_argument, std::string(function) + ": comm is NULL"};
  if (comm->owner != getpid()) {
    return {Code::invalid_usage, std::string(function) +
                                     ": this communicator belongs to the parent process; after "
                                     "fork() a child must make its own"};
  }
  return {};
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

Status check_buffer(const char* function, const char* name, const void* buffer, size_t count,
                    DataType type) {
  const std::string where = std::string(function) + ": ";
  if (count > SIZE_MAX / r2ccl::size_of(type) / 2) {
    return {Code::invalid_argument, where + "count " + std::to_string(count) + " is absurd"};
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

Status check_peer(const char* function, const char* what, int rank, const r2cclComm* comm) {
  const int count = comm->communicator->rank_count();
  if (rank >= 0 && rank < count) return {};
  return {Code::invalid_argument, std::string(function) + ": " + what + " is " +
                                      std::to_string(rank) + ", it must be 0 to " +
                                      std::to_string(count - 1)};
}

Status check_open(const char* function, r2cclComm* comm) {
  std::lock_guard lock(comm->mutex);
  if (comm->finalized) {
    return {Code::invalid_usage, std::string(function) + ": this communicator is finalized"};
  }
  return comm->communicator->failure();
}

// Blocks for the result, or hands the request to the caller.
r2cclResult_t conclude(std::shared_ptr<Request> started, r2cclComm* comm, r2cclRequest_t* request) {
  if (request != nullptr) {
    *request = new r2cclRequest{std::move(started), comm};
    return r2cclSuccess;
  }
  (void)started->wait(r2ccl::kNever);
  return result_of(started->status());
}

r2cclResult_t adopt(Result<std::unique_ptr<Communicator>> made, r2cclComm_t* comm) {
  if (!made.ok()) return result_of(made.status());
  auto* handle = new r2cclComm;
  handle->communicator = std::move(made).value();
  handle->owner = getpid();
  *comm = handle;
  return r2cclSuccess;
}

const std::byte* bytes(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
std::byte* bytes(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

r2cclResult_t finalize(r2cclComm_t comm) {
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

r2cclResult_t r2cclCommFinalize(r2cclComm_t comm) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    R2CCL_TRY(check_comm("r2cclCommFinalize", comm));
    return finalize(comm);
  });
}

r2cclResult_t r2cclCommDestroy(r2cclComm_t comm) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (comm == nullptr) return error(Code::invalid_argument, "r2cclCommDestroy: comm is NULL");
    if (comm->owner != getpid()) {
      // A forked child owns neither the thread nor the connections; there is nothing to end.
      return r2cclSuccess;
    }
    r2cclResult_t result = r2cclSuccess;
    if (comm->communicator->failure().ok()) result = finalize(comm);
    delete comm;
    return result;
  });
}

r2cclResult_t r2cclCommAbort(r2cclComm_t comm) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    R2CCL_TRY(check_comm("r2cclCommAbort", comm));
    comm->communicator->abort("r2cclCommAbort was called");
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommGetAsyncError(r2cclComm_t comm, r2cclResult_t* async_error) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    R2CCL_TRY(check_comm("r2cclCommGetAsyncError", comm));
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
      return "the operating system refused";
    case r2cclInternalError:
      return "internal error of r2ccl";
    case r2cclInvalidArgument:
      return "invalid argument";
    case r2cclInvalidUsage:
      return "invalid usage";
    case r2cclRemoteError:
      return "another rank failed, left or cannot be reached";
    case r2cclInProgress:
      return "not finished yet";
    case r2cclTimeout:
      return "a bound that was set has passed";
    case r2cclAborted:
      return "aborted";
    default:
      return "unknown result code";
  }
}

const char* r2cclGetLastError(r2cclComm_t comm) {
  if (comm != nullptr && comm->owner == getpid()) {
    const Status failure = comm->communicator->failure();
    if (!failure.ok()) r2ccl::api::set_last_error(failure.message());
  }
  return r2ccl::api::last_error();
}

r2cclResult_t r2cclCommCount(r2cclComm_t comm, int* count) {
  R2CCL_TRY(check_comm("r2cclCommCount", comm));
  if (count == nullptr) return error(Code::invalid_argument, "r2cclCommCount: count is NULL");
  *count = comm->communicator->rank_count();
  return r2cclSuccess;
}

r2cclResult_t r2cclCommUserRank(r2cclComm_t comm, int* rank) {
  R2CCL_TRY(check_comm("r2cclCommUserRank", comm));
  if (rank == nullptr) return error(Code::invalid_argument, "r2cclCommUserRank: rank is NULL");
  *rank = comm->communicator->rank().value();
  return r2cclSuccess;
}

r2cclResult_t r2cclCommReport(r2cclComm_t comm, char* buffer, size_t* size) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    R2CCL_TRY(check_comm("r2cclCommReport", comm));
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
                             r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t comm,
                             r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclAllReduce";
    R2CCL_TRY(check_comm(kName, comm));
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    const auto reduction = check_op(kName, op);
    if (!reduction.ok()) return result_of(reduction.status());
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    R2CCL_TRY(check_overlap(kName, sendbuff, recvbuff, count * r2ccl::size_of(type.value())));
    R2CCL_TRY(check_open(kName, comm));
    return conclude(comm->communicator->all_reduce(bytes(sendbuff), bytes(recvbuff), count,
                                                   type.value(), reduction.value()),
                    comm, request);
  });
}

r2cclResult_t r2cclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, int root, r2cclComm_t comm,
                             r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclBroadcast";
    R2CCL_TRY(check_comm(kName, comm));
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "root", root, comm));
    const bool is_root = comm->communicator->rank() == Rank(root);
    if (is_root) {
      R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
      R2CCL_TRY(check_overlap(kName, sendbuff, recvbuff, count * r2ccl::size_of(type.value())));
    }
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const void* source = is_root ? sendbuff : recvbuff;
    return conclude(comm->communicator->broadcast(bytes(source), bytes(recvbuff), count,
                                                  type.value(), Rank(root)),
                    comm, request);
  });
}

r2cclResult_t r2cclSend(const void* sendbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t comm, r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclSend";
    R2CCL_TRY(check_comm(kName, comm));
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    return conclude(comm->communicator->send(bytes(sendbuff), count, type.value(), Rank(peer)),
                    comm, request);
  });
}

r2cclResult_t r2cclRecv(void* recvbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t comm, r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclRecv";
    R2CCL_TRY(check_comm(kName, comm));
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    return conclude(comm->communicator->receive(bytes(recvbuff), count, type.value(), Rank(peer)),
                    comm, request);
  });
}

r2cclResult_t r2cclBarrier(r2cclComm_t comm, r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    R2CCL_TRY(check_comm("r2cclBarrier", comm));
    R2CCL_TRY(check_open("r2cclBarrier", comm));
    return conclude(comm->communicator->barrier(), comm, request);
  });
}

r2cclResult_t r2cclRequestTest(r2cclRequest_t* request, int* done) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr || *request == nullptr || done == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestTest: request or done is NULL");
    }
    *done = (*request)->request->done() ? 1 : 0;
    return *done != 0 ? r2cclRequestWait(request, 0) : r2cclSuccess;
  });
}

r2cclResult_t r2cclRequestWait(r2cclRequest_t* request, int64_t timeout_ms) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr || *request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestWait: request is NULL");
    }
    if (timeout_ms < -1) {
      return error(Code::invalid_argument, "r2cclRequestWait: timeout_ms is below -1");
    }
    constexpr int64_t kForeverMs = r2ccl::kNever / r2ccl::kMillisecond / 4;
    const bool bounded = timeout_ms >= 0 && timeout_ms < kForeverMs;
    const r2ccl::TimeNs bound = bounded ? timeout_ms * r2ccl::kMillisecond : r2ccl::kNever;
    if (!(*request)->request->wait(bound)) {
      const std::string waiting_for = (*request)->request->waiting_for();
      return error(Code::timeout, "r2cclRequestWait: not complete after " +
                                      std::to_string(timeout_ms) + " ms" +
                                      (waiting_for.empty() ? "" : ": " + waiting_for));
    }
    const Status status = (*request)->request->status();
    delete *request;
    *request = nullptr;
    return result_of(status);
  });
}

r2cclResult_t r2cclRequestAbort(r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr || *request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestAbort: request is NULL");
    }
    if (!(*request)->request->done()) {
      (*request)->comm->communicator->abort("r2cclRequestAbort was called");
    }
    delete *request;
    *request = nullptr;
    return r2cclSuccess;
  });
}

}  // extern "C"
