// The C edge: collectives, sends and receives.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "api/calls.h"
#include "api/errors.h"
#include "api/handles.h"
#include "api/reductions.h"
#include "api/start.h"
#include "base/types.h"
#include "r2ccl/r2ccl.h"
#include "runtime/link/user_memory.h"

namespace {

using r2ccl::Access;
using r2ccl::BadMemory;
using r2ccl::Code;
using r2ccl::DataType;
using r2ccl::Rank;
using r2ccl::Status;
using r2ccl::api::check_open;
using r2ccl::api::check_reduction;
using r2ccl::api::check_type;
using r2ccl::api::CommObject;
using r2ccl::api::conclude;
using r2ccl::api::result_of;
using r2ccl::api::start_call;

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

const std::byte* bytes(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
std::byte* bytes(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

}  // namespace

#define R2CCL_TRY(expression)                                 \
  do {                                                        \
    if (Status try_status = (expression); !try_status.ok()) { \
      return result_of(try_status);                           \
    }                                                         \
  } while (0)

extern "C" {

r2cclResult_t r2cclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t handle,
                             r2cclRequest_t* request) {
  return start_call("r2cclAllReduce", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclAllReduce";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    const auto reduction = check_reduction(kName, op, type.value(), comm);
    if (!reduction.ok()) return result_of(reduction.status());
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    const size_t size = count * r2ccl::size_of(type.value());
    const auto bad = find_bad_buffer(sendbuff, recvbuff, size);
    // With a count that is too large, separate buffers seem to overlap.
    if (!bad) R2CCL_TRY(check_overlap(kName, sendbuff, recvbuff, size));
    R2CCL_TRY(check_open(kName, comm));
    return conclude(kName, comm, request, bad.has_value(), [=] {
      return comm->communicator->all_reduce(bytes(sendbuff), bytes(recvbuff), count, type.value(),
                                            reduction.value(), bad);
    });
  });
}

r2cclResult_t r2cclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, int root, r2cclComm_t handle,
                             r2cclRequest_t* request) {
  return start_call("r2cclBroadcast", handle, request, [&](CommObject* comm) -> r2cclResult_t {
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
    return conclude(kName, comm, request, bad.has_value(), [=] {
      return comm->communicator->broadcast(bytes(source), bytes(recvbuff), count, type.value(),
                                           Rank(root), bad);
    });
  });
}

r2cclResult_t r2cclSend(const void* sendbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t handle, r2cclRequest_t* request) {
  return start_call("r2cclSend", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclSend";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const auto bad = find_bad_buffer(sendbuff, nullptr, count * r2ccl::size_of(type.value()));
    return conclude(kName, comm, request, bad.has_value(), [=] {
      return comm->communicator->send(bytes(sendbuff), count, type.value(), Rank(peer), bad);
    });
  });
}

r2cclResult_t r2cclRecv(void* recvbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t handle, r2cclRequest_t* request) {
  return start_call("r2cclRecv", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclRecv";
    const auto type = check_type(kName, datatype);
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const auto bad = find_bad_buffer(nullptr, recvbuff, count * r2ccl::size_of(type.value()));
    return conclude(kName, comm, request, bad.has_value(), [=] {
      return comm->communicator->receive(bytes(recvbuff), count, type.value(), Rank(peer), bad);
    });
  });
}

r2cclResult_t r2cclBarrier(r2cclComm_t handle, r2cclRequest_t* request) {
  return start_call("r2cclBarrier", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclBarrier";
    R2CCL_TRY(check_open(kName, comm));
    return conclude(kName, comm, request, false, [=] { return comm->communicator->barrier(); });
  });
}

}  // extern "C"
