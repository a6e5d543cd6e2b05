// The C edge: paths and verdicts as structs, and the callback for verdicts.
#include "api/health.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/errors.h"
#include "api/handles.h"

namespace r2ccl::api {
namespace {

// No version of a struct is as large. A larger size was never initialised.
constexpr size_t kStructBytesMax = 64 * 1024;
// The sizes of the first version's structs. A smaller one was never initialised either.
constexpr size_t kPathInfoBytesMin = offsetof(r2cclPathInfo_t, drained) + sizeof(int);
constexpr size_t kVerdictBytesMin = offsetof(r2cclVerdict_t, loss_ppm) + sizeof(uint32_t);
// The last members that c_form() sets. It has to set one that is appended, too.
static_assert(sizeof(r2cclPathInfo_t) == offsetof(r2cclPathInfo_t, drained) + sizeof(int));
static_assert(sizeof(r2cclVerdict_t) == offsetof(r2cclVerdict_t, loss_ppm) + sizeof(size_t));

thread_local r2cclComm_t called_back = nullptr;

template <size_t Bytes>
void set_text(char (&field)[Bytes], const std::string& text) {
  const size_t length = std::min(text.size(), Bytes - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

r2cclPathInfo_t c_form(const PathInfo& info) {
  r2cclPathInfo_t out{};
  out.peer = info.peer.value();
  out.state = static_cast<r2cclPathState_t>(info.state);
  set_text(out.nic, info.nic);
  set_text(out.peer_nic, info.peer_nic);
  set_text(out.peer_host, info.peer_host);
  set_text(out.remote, info.remote);
  out.state_ns = static_cast<uint64_t>(info.state_age);
  out.incarnation = info.incarnation;
  out.rate = info.bytes_per_second;
  out.round_trip_ns = static_cast<uint64_t>(info.round_trip);
  out.one_way_excess_ns = info.one_way_excess;
  out.tx_bytes = info.sent;
  out.rx_bytes = info.received;
  out.retransmitted_bytes = info.retransmitted;
  out.packets_sent = info.packets_sent;
  out.packets_lost = info.packets_lost;
  out.suspicions = info.suspicions;
  out.downs = info.downs;
  out.returns = info.returns;
  out.loss_ppm = info.loss_ppm;
  out.drained = info.drained ? 1 : 0;
  return out;
}

// Returns 0 for the causes that only paths have.
r2cclVerdictKind_t c_form(DownCause kind) {
  switch (kind) {
    case DownCause::interface_down:
      return r2cclInterfaceDown;
    case DownCause::carrier_lost:
      return r2cclCarrierLost;
    case DownCause::connection_lost:
      return r2cclConnectionLost;
    case DownCause::silent:
      return r2cclSilent;
    case DownCause::stalled:
      return r2cclStalled;
    case DownCause::lossy:
      return r2cclLossy;
    case DownCause::address_lost:
      return r2cclAddressLost;
    case DownCause::tampered:
      return r2cclTampered;
    case DownCause::none:
    case DownCause::protocol:
    case DownCause::closing:
    case DownCause::peer_notice:
    case DownCause::corrupted:
      break;
  }
  return static_cast<r2cclVerdictKind_t>(0);
}

r2cclVerdict_t c_form(const VerdictInfo& info) {
  r2cclVerdict_t out{};
  out.number = info.place;
  out.rank = info.rank.value();
  out.scope = static_cast<r2cclVerdictScope_t>(info.scope);
  out.kind = c_form(info.kind);
  out.process = info.scope == Scope::process ? info.process.value() : -1;
  set_text(out.host, info.host);
  set_text(out.nic, info.nic);
  set_text(out.peer_host, info.peer_host);
  set_text(out.peer_nic, info.peer_nic);
  out.at_ns = info.wall;
  out.detected_ns = info.detected;
  out.stall_ns = static_cast<uint64_t>(info.stall);
  out.retransmitted_bytes = info.retransmitted;
  out.loss_ppm = info.loss_ppm;
  return out;
}

// Returns an error unless `array`, of `count` elements, says how large an element of the caller's
// version is.
template <typename Element>
Status check_array(const char* function, const char* name, const Element* array,
                   const size_t* count, size_t bytes_min) {
  if (count == nullptr) {
    return {Code::invalid_argument, std::string(function) + ": count is NULL"};
  }
  if (array == nullptr || *count == 0) return {};
  if (array->size >= bytes_min && array->size <= kStructBytesMax) return {};
  return {Code::invalid_argument, std::string(function) + ": " + name + "[0].size is " +
                                      std::to_string(array->size) + ", it must be sizeof(" + name +
                                      "[0])"};
}

// Copies as many as fit. An element of a newer caller is longer than `Element` and gets zeros at
// its end, one of an older caller is shorter.
template <typename Element, typename Info>
void copy_out(const std::vector<Info>& infos, Element* array, size_t* count) {
  const size_t room = array == nullptr ? 0 : *count;
  *count = infos.size();
  if (room == 0) return;
  const size_t size = array->size;
  auto* at = reinterpret_cast<std::byte*>(array);
  for (size_t i = 0; i < std::min(room, infos.size()); ++i, at += size) {
    Element element = c_form(infos[i]);
    element.size = size;
    std::memcpy(at, &element, std::min(size, sizeof element));
    if (size > sizeof element) std::memset(at + sizeof element, 0, size - sizeof element);
  }
}

}  // namespace

bool in_verdict_callback(r2cclComm_t handle) {
  return handle != nullptr && called_back == handle;
}

}  // namespace r2ccl::api

namespace {

using r2ccl::Code;
using r2ccl::VerdictInfo;
using r2ccl::VerdictTeller;
using r2ccl::api::CommObject;
using r2ccl::api::error;
using r2ccl::api::result_of;
using r2ccl::api::with_comm;

}  // namespace

extern "C" {

r2cclResult_t r2cclCommGetPaths(r2cclComm_t handle, r2cclPathInfo_t* paths, size_t* count) {
  return with_comm("r2cclCommGetPaths", handle, [&](CommObject* comm) -> r2cclResult_t {
    const r2ccl::Status checked = r2ccl::api::check_array("r2cclCommGetPaths", "paths", paths,
                                                          count, r2ccl::api::kPathInfoBytesMin);
    if (!checked.ok()) return result_of(checked);
    r2ccl::api::copy_out(comm->communicator->paths(), paths, count);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommGetVerdicts(r2cclComm_t handle, r2cclVerdict_t* verdicts, size_t* count) {
  return with_comm("r2cclCommGetVerdicts", handle, [&](CommObject* comm) -> r2cclResult_t {
    const r2ccl::Status checked = r2ccl::api::check_array(
        "r2cclCommGetVerdicts", "verdicts", verdicts, count, r2ccl::api::kVerdictBytesMin);
    if (!checked.ok()) return result_of(checked);
    r2ccl::api::copy_out(comm->communicator->verdicts(), verdicts, count);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommSetVerdictCallback(r2cclComm_t handle, r2cclVerdictCallback_t callback,
                                          void* user) {
  return with_comm("r2cclCommSetVerdictCallback", handle, [&](CommObject* comm) -> r2cclResult_t {
    if (r2ccl::api::in_verdict_callback(handle)) {
      return error(Code::invalid_usage,
                   "r2cclCommSetVerdictCallback: the verdict callback of this communicator calls "
                   "it");
    }
    VerdictTeller::Tell tell;
    if (callback != nullptr) {
      tell = [handle, callback, user](const VerdictInfo& info) {
        r2cclVerdict_t verdict = r2ccl::api::c_form(info);
        verdict.size = sizeof verdict;
        r2ccl::api::called_back = handle;
        callback(handle, &verdict, user);
      };
    }
    const r2ccl::Status set = comm->communicator->set_verdict_listener(std::move(tell));
    return result_of(set.with_context("r2cclCommSetVerdictCallback"));
  });
}

}  // extern "C"
