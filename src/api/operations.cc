// The C edge: sends and receives, tagged and not.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/handles.h"
#include "api/reductions.h"
#include "api/start.h"
#include "base/types.h"
#include "r2ccl/r2ccl.h"
#include "runtime/link/user_memory.h"

namespace {

using r2ccl::Access;
using r2ccl::Code;
using r2ccl::Operation;
using r2ccl::Rank;
using r2ccl::Status;
using r2ccl::api::check_buffer;
using r2ccl::api::check_open;
using r2ccl::api::check_peer;
using r2ccl::api::check_type;
using r2ccl::api::CommObject;
using r2ccl::api::conclude;
using r2ccl::api::find_bad_buffers;
using r2ccl::api::result_of;
using r2ccl::api::start_call;

// A wildcard of another library is negative: it is refused here, and waits for nothing.
Status check_tag(const char* function, int tag) {
  if (tag >= 0) return {};
  return {Code::invalid_argument, std::string(function) + ": tag is " + std::to_string(tag) +
                                      ", it must be 0 or more; there are no wildcards"};
}

Status check_received(const char* function, const size_t* received) {
  if (received == nullptr) return {};
  const auto range = std::as_bytes(std::span(received, 1));
  const bool aligned = reinterpret_cast<uintptr_t>(received) % alignof(size_t) == 0;
  if (aligned && !r2ccl::find_bad_memory(range, Access::write)) return {};
  return {Code::invalid_argument,
          std::string(function) + ": received is no size_t that can be written"};
}

const std::byte* bytes(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
std::byte* bytes(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

}  // namespace

extern "C" {

r2cclResult_t r2cclSend(const void* sendbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t handle, r2cclRequest_t* request) {
  const int type_number = datatype;  // the enum may not have it
  return start_call("r2cclSend", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclSend";
    const auto type = check_type(kName, static_cast<r2cclDataType_t>(type_number));
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const std::span source(bytes(sendbuff), count * r2ccl::size_of(type.value()));
    const auto bad = find_bad_buffers(*comm, sendbuff, source.size(), nullptr, 0);
    return conclude(kName, comm, request, Operation::send(Rank(peer), source, type.value()), bad);
  });
}

r2cclResult_t r2cclRecv(void* recvbuff, size_t count, r2cclDataType_t datatype, int peer,
                        r2cclComm_t handle, r2cclRequest_t* request) {
  const int type_number = datatype;  // the enum may not have it
  return start_call("r2cclRecv", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclRecv";
    const auto type = check_type(kName, static_cast<r2cclDataType_t>(type_number));
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const std::span target(bytes(recvbuff), count * r2ccl::size_of(type.value()));
    const auto bad = find_bad_buffers(*comm, nullptr, 0, recvbuff, target.size());
    return conclude(kName, comm, request, Operation::receive(Rank(peer), target, type.value()),
                    bad);
  });
}

r2cclResult_t r2cclSendTagged(const void* sendbuff, size_t count, r2cclDataType_t datatype,
                              int peer, int tag, r2cclComm_t handle, r2cclRequest_t* request) {
  const int type_number = datatype;  // the enum may not have it
  return start_call("r2cclSendTagged", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclSendTagged";
    const auto type = check_type(kName, static_cast<r2cclDataType_t>(type_number));
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_tag(kName, tag));
    R2CCL_TRY(check_buffer(kName, "sendbuff", sendbuff, count, type.value()));
    R2CCL_TRY(check_open(kName, comm));
    const std::span source(bytes(sendbuff), count * r2ccl::size_of(type.value()));
    const auto bad = find_bad_buffers(*comm, sendbuff, source.size(), nullptr, 0);
    return conclude(kName, comm, request,
                    Operation::send(Rank(peer), source, type.value()).with_tag(tag), bad);
  });
}

r2cclResult_t r2cclRecvTagged(void* recvbuff, size_t max_count, r2cclDataType_t datatype, int peer,
                              int tag, size_t* received, r2cclComm_t handle,
                              r2cclRequest_t* request) {
  const int type_number = datatype;  // the enum may not have it
  return start_call("r2cclRecvTagged", handle, request, [&](CommObject* comm) -> r2cclResult_t {
    constexpr const char* kName = "r2cclRecvTagged";
    const auto type = check_type(kName, static_cast<r2cclDataType_t>(type_number));
    if (!type.ok()) return result_of(type.status());
    R2CCL_TRY(check_peer(kName, "peer", peer, comm));
    R2CCL_TRY(check_tag(kName, tag));
    R2CCL_TRY(check_buffer(kName, "recvbuff", recvbuff, max_count, type.value()));
    R2CCL_TRY(check_received(kName, received));
    R2CCL_TRY(check_open(kName, comm));
    const std::span target(bytes(recvbuff), max_count * r2ccl::size_of(type.value()));
    const auto bad = find_bad_buffers(*comm, nullptr, 0, recvbuff, target.size());
    return conclude(kName, comm, request,
                    Operation::receive(Rank(peer), target, type.value()).with_tag(tag, received),
                    bad);
  });
}

}  // extern "C"
