// The C edge: collectives.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/handles.h"
#include "api/reductions.h"
#include "api/start.h"
#include "base/types.h"
#include "plan/holdings.h"
#include "plan/plan.h"
#include "r2ccl/r2ccl.h"

namespace {

using r2ccl::BlockLayout;
using r2ccl::Code;
using r2ccl::Collective;
using r2ccl::DataType;
using r2ccl::Operation;
using r2ccl::PlanKey;
using r2ccl::Rank;
using r2ccl::Scalar;
using r2ccl::Status;
using r2ccl::api::check_buffer;
using r2ccl::api::check_open;
using r2ccl::api::check_peer;
using r2ccl::api::check_reduction;
using r2ccl::api::check_type;
using r2ccl::api::CommObject;
using r2ccl::api::conclude;
using r2ccl::api::elements_max;
using r2ccl::api::find_bad_buffers;
using r2ccl::api::result_of;
using r2ccl::api::start_call;

// One call while its arguments are checked. The caller's buffers, and the plan's key with all else.
struct Call {
  const char* function;
  const void* send = nullptr;
  void* receive = nullptr;
  PlanKey key{};
  Scalar scalar{};
};

// An array of counts or displacements of the caller. `name` is the argument's.
struct Array {
  const char* name;
  const size_t* values;
};

std::string quoted(const Call& call, const char* name) {
  return std::string(call.function) + ": " + name;
}

Status take_array(const Call& call, const Array& array, std::vector<uint64_t>& into) {
  if (array.values == nullptr) {
    return {Code::invalid_argument, quoted(call, array.name) + " is NULL"};
  }
  into.assign(array.values, array.values + call.key.rank_count);
  const uint64_t most = elements_max(call.key.type) / 2;
  const auto large = std::ranges::find_if(into, [&](uint64_t value) { return value > most; });
  if (large == into.end()) return {};
  return {Code::invalid_argument,
          quoted(call, array.name) + "[" + std::to_string(large - into.begin()) + "] is " +
              std::to_string(*large) + ", more elements than an address space holds"};
}

// Takes the layout of blocks from the caller's arrays. The displacements may be NULL.
Status take_layout(const Call& call, const Array& counts, const Array& displs,
                   BlockLayout& layout) {
  R2CCL_RETURN_IF_ERROR(take_array(call, counts, layout.counts));
  uint64_t room = elements_max(call.key.type);
  for (const uint64_t count : layout.counts) {
    if (count > room) {
      return {Code::invalid_argument,
              quoted(call, counts.name) + " add up to more elements than an address space holds"};
    }
    room -= count;
  }
  return displs.values == nullptr ? Status() : take_array(call, displs, layout.starts);
}

// Blocks that a call writes may not overlap.
Status check_apart(const Call& call, const BlockLayout& layout, const char* displs) {
  std::vector<size_t> order;
  for (size_t i = 0; i < layout.starts.size(); ++i) {
    if (layout.counts[i] > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return layout.starts[i]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t low = order[i - 1];
    if (layout.starts[low] + layout.counts[low] <= layout.starts[order[i]]) continue;
    return {Code::invalid_argument, quoted(call, displs) + " makes the blocks of ranks " +
                                        std::to_string(low) + " and " + std::to_string(order[i]) +
                                        " overlap in recvbuff"};
  }
  return {};
}

// Takes a block for each rank of the same count.
Status take_count(Call& call, size_t count, bool blocks) {
  call.key.count = count;
  const uint64_t most =
      elements_max(call.key.type) / (blocks ? static_cast<uint64_t>(call.key.rank_count) : 1);
  if (count <= most) return {};
  return {Code::invalid_argument,
          std::string(call.function) + ": count is " + std::to_string(count) +
              ", but an address space holds no more than " + std::to_string(most) + " " +
              to_string(call.key.type) + (blocks ? " for each rank" : "")};
}

Status check_ranks(const Call& call) {
  if (call.key.collective != Collective::all_to_all) return {};
  if (call.key.rank_count <= r2ccl::kAllToAllRanksMax) return {};
  return {Code::invalid_usage,
          std::string(call.function) + ": this communicator has " +
              std::to_string(call.key.rank_count) + " ranks, and the call takes at most " +
              std::to_string(r2ccl::kAllToAllRanksMax) + "; use Send and Recv"};
}

// The overlap of the buffers, if there is one, must be that of a call in place.
Status check_overlap(const Call& call, const r2ccl::Extents& extents, Rank self) {
  const size_t size = size_of(call.key.type);
  const auto send = reinterpret_cast<uintptr_t>(call.send);
  const auto receive = reinterpret_cast<uintptr_t>(call.receive);
  if (extents.input_count == 0 || extents.output_count == 0) return {};
  const bool apart =
      send + extents.input_count * size <= receive || receive + extents.output_count * size <= send;
  if (apart) return {};
  const r2ccl::Overlay overlay = overlay_of(call.key, self);
  const bool in_place = send - overlay.input_at * size == receive - overlay.output_at * size;
  if (in_place && call.key.collective != Collective::all_to_all) return {};
  const std::string own = std::to_string(std::max(overlay.input_at, overlay.output_at));
  std::string remedy = "in place means that they are equal";
  if (call.key.collective == Collective::all_to_all) remedy = "this call cannot be in place";
  if (overlay.input_at > 0) remedy = "in place means sendbuff == recvbuff + " + own + " elements";
  if (overlay.output_at > 0) remedy = "in place means recvbuff == sendbuff + " + own + " elements";
  return {Code::invalid_argument,
          std::string(call.function) + ": sendbuff and recvbuff overlap; " + remedy};
}

// Starts a call whose key is complete. A buffer that this rank does not use may be anything.
r2cclResult_t begin(Call call, CommObject* comm, r2cclRequest_t* request) {
  const Rank self = comm->communicator->rank();
  const r2ccl::Extents extents = extents_of(call.key, self);
  if (extents.input_count == 0) call.send = nullptr;
  if (extents.output_count == 0) call.receive = nullptr;
  const auto check = [&](const char* name, const void* buffer, uint64_t count) {
    return check_buffer(call.function, name, buffer, count, call.key.type);
  };
  Status status = check("sendbuff", call.send, extents.input_count);
  if (status.ok()) status = check("recvbuff", call.receive, extents.output_count);
  if (!status.ok()) return result_of(status);
  const size_t size = size_of(call.key.type);
  const auto bad = find_bad_buffers(*comm, call.send, extents.input_count * size, call.receive,
                                    extents.output_count * size);
  // With a count that is too large, separate buffers seem to overlap.
  if (!bad) status = check_overlap(call, extents, self);
  if (status.ok()) status = check_open(call.function, comm);
  if (!status.ok()) return result_of(status);
  Operation operation;
  operation.key = std::move(call.key);
  operation.input = static_cast<const std::byte*>(call.send);
  operation.output = static_cast<std::byte*>(call.receive);
  operation.scalar = call.scalar;
  return conclude(call.function, comm, request, std::move(operation), bad);
}

// Starts a call after `prepare(call, comm)` has checked and taken its further arguments. Types and
// operations travel as numbers, because a caller may pass one that the enum does not have.
template <typename Prepare>
r2cclResult_t run(const char* function, Collective what, const void* send, void* receive,
                  int datatype, r2cclComm_t handle, r2cclRequest_t* request, Prepare prepare) {
  return start_call(function, handle, request, [&](CommObject* comm) -> r2cclResult_t {
    Call call{.function = function, .send = send, .receive = receive};
    call.key.collective = what;
    call.key.rank_count = comm->communicator->rank_count();
    const auto type = check_type(function, static_cast<r2cclDataType_t>(datatype));
    if (!type.ok()) return result_of(type.status());
    call.key.type = type.value();
    Status status = check_ranks(call);
    if (status.ok()) status = prepare(call, comm);
    return status.ok() ? begin(std::move(call), comm, request) : result_of(status);
  });
}

Status take_reduction(Call& call, int op, CommObject* comm) {
  const auto reduction =
      check_reduction(call.function, static_cast<r2cclRedOp_t>(op), call.key.type, comm);
  if (!reduction.ok()) return reduction.status();
  call.key.op = reduction.value().op;
  call.scalar = reduction.value().scalar;
  return {};
}

Status take_root(Call& call, int root, const CommObject* comm) {
  call.key.root = Rank(root);
  return check_peer(call.function, "root", root, comm);
}

// Takes the counts of GatherV and ScatterV: all of them at the root, and this rank's elsewhere.
Status take_rooted_counts(Call& call, const Array& counts, const Array& displs, size_t own,
                          const char* own_name, Rank self) {
  call.key.count = 0;
  if (self != call.key.root) {
    call.key.blocks.counts.assign(static_cast<size_t>(call.key.rank_count), 0);
    call.key.blocks.counts[static_cast<size_t>(self.value())] = own;
    return {};
  }
  R2CCL_RETURN_IF_ERROR(take_layout(call, counts, displs, call.key.blocks));
  const uint64_t expected = call.key.blocks.counts[static_cast<size_t>(self.value())];
  if (own == expected) return {};
  return {Code::invalid_argument, quoted(call, own_name) + " is " + std::to_string(own) + ", but " +
                                      counts.name + " of the root itself is " +
                                      std::to_string(expected)};
}

}  // namespace

extern "C" {

r2cclResult_t r2cclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t comm,
                             r2cclRequest_t* request) {
  return run("r2cclAllReduce", Collective::all_reduce, sendbuff, recvbuff, datatype, comm, request,
             [&, number = static_cast<int>(op)](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_reduction(call, number, object));
               return take_count(call, count, false);
             });
}

r2cclResult_t r2cclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             r2cclDataType_t datatype, int root, r2cclComm_t comm,
                             r2cclRequest_t* request) {
  return run("r2cclBroadcast", Collective::broadcast, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_root(call, root, object));
               return take_count(call, count, false);
             });
}

r2cclResult_t r2cclReduce(const void* sendbuff, void* recvbuff, size_t count,
                          r2cclDataType_t datatype, r2cclRedOp_t op, int root, r2cclComm_t comm,
                          r2cclRequest_t* request) {
  return run("r2cclReduce", Collective::reduce, sendbuff, recvbuff, datatype, comm, request,
             [&, number = static_cast<int>(op)](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_reduction(call, number, object));
               R2CCL_RETURN_IF_ERROR(take_root(call, root, object));
               return take_count(call, count, false);
             });
}

r2cclResult_t r2cclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                             r2cclDataType_t datatype, r2cclComm_t comm, r2cclRequest_t* request) {
  return run("r2cclAllGather", Collective::all_gather, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject*) { return take_count(call, sendcount, true); });
}

r2cclResult_t r2cclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                 r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t comm,
                                 r2cclRequest_t* request) {
  return run("r2cclReduceScatter", Collective::reduce_scatter, sendbuff, recvbuff, datatype, comm,
             request, [&, number = static_cast<int>(op)](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_reduction(call, number, object));
               return take_count(call, recvcount, true);
             });
}

r2cclResult_t r2cclAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                            r2cclDataType_t datatype, r2cclComm_t comm, r2cclRequest_t* request) {
  return run("r2cclAllToAll", Collective::all_to_all, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject*) { return take_count(call, count, true); });
}

r2cclResult_t r2cclGather(const void* sendbuff, void* recvbuff, size_t count,
                          r2cclDataType_t datatype, int root, r2cclComm_t comm,
                          r2cclRequest_t* request) {
  return run("r2cclGather", Collective::gather, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_root(call, root, object));
               return take_count(call, count, true);
             });
}

r2cclResult_t r2cclScatter(const void* sendbuff, void* recvbuff, size_t count,
                           r2cclDataType_t datatype, int root, r2cclComm_t comm,
                           r2cclRequest_t* request) {
  return run("r2cclScatter", Collective::scatter, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_root(call, root, object));
               return take_count(call, count, true);
             });
}

r2cclResult_t r2cclAllGatherV(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                              const size_t displs[], r2cclDataType_t datatype, r2cclComm_t comm,
                              r2cclRequest_t* request) {
  return run("r2cclAllGatherV", Collective::all_gather, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject*) {
               R2CCL_RETURN_IF_ERROR(take_layout(call, {"recvcounts", recvcounts},
                                                 {"displs", displs}, call.key.blocks));
               return check_apart(call, call.key.blocks, "displs");
             });
}

r2cclResult_t r2cclReduceScatterV(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                  r2cclDataType_t datatype, r2cclRedOp_t op, r2cclComm_t comm,
                                  r2cclRequest_t* request) {
  return run(
      "r2cclReduceScatterV", Collective::reduce_scatter, sendbuff, recvbuff, datatype, comm,
      request, [&](Call& call, CommObject* object) {
        R2CCL_RETURN_IF_ERROR(take_reduction(call, op, object));
        return take_layout(call, {"recvcounts", recvcounts}, {"displs", nullptr}, call.key.blocks);
      });
}

r2cclResult_t r2cclGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                           const size_t recvcounts[], const size_t displs[],
                           r2cclDataType_t datatype, int root, r2cclComm_t comm,
                           r2cclRequest_t* request) {
  return run("r2cclGatherV", Collective::gather, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_root(call, root, object));
               R2CCL_RETURN_IF_ERROR(take_count(call, sendcount, false));
               R2CCL_RETURN_IF_ERROR(take_rooted_counts(call, {"recvcounts", recvcounts},
                                                        {"displs", displs}, sendcount, "sendcount",
                                                        object->communicator->rank()));
               return check_apart(call, call.key.blocks, "displs");
             });
}

r2cclResult_t r2cclScatterV(const void* sendbuff, const size_t sendcounts[], const size_t displs[],
                            void* recvbuff, size_t recvcount, r2cclDataType_t datatype, int root,
                            r2cclComm_t comm, r2cclRequest_t* request) {
  return run("r2cclScatterV", Collective::scatter, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject* object) {
               R2CCL_RETURN_IF_ERROR(take_root(call, root, object));
               R2CCL_RETURN_IF_ERROR(take_count(call, recvcount, false));
               return take_rooted_counts(call, {"sendcounts", sendcounts}, {"displs", displs},
                                         recvcount, "recvcount", object->communicator->rank());
             });
}

r2cclResult_t r2cclAllToAllV(const void* sendbuff, const size_t sendcounts[],
                             const size_t sdispls[], void* recvbuff, const size_t recvcounts[],
                             const size_t rdispls[], r2cclDataType_t datatype, r2cclComm_t comm,
                             r2cclRequest_t* request) {
  return run("r2cclAllToAllV", Collective::all_to_all, sendbuff, recvbuff, datatype, comm, request,
             [&](Call& call, CommObject* object) -> Status {
               R2CCL_RETURN_IF_ERROR(take_layout(call, {"sendcounts", sendcounts},
                                                 {"sdispls", sdispls}, call.key.blocks));
               R2CCL_RETURN_IF_ERROR(take_layout(call, {"recvcounts", recvcounts},
                                                 {"rdispls", rdispls}, call.key.received));
               R2CCL_RETURN_IF_ERROR(check_apart(call, call.key.received, "rdispls"));
               const auto self = static_cast<size_t>(object->communicator->rank().value());
               const uint64_t sent = call.key.blocks.counts[self];
               const uint64_t received = call.key.received.counts[self];
               if (sent == received) return {};
               return {Code::invalid_argument,
                       std::string(call.function) + ": this rank sends " + std::to_string(sent) +
                           " elements to itself and expects " + std::to_string(received)};
             });
}

r2cclResult_t r2cclBarrier(r2cclComm_t comm, r2cclRequest_t* request) {
  return run("r2cclBarrier", Collective::barrier, nullptr, nullptr, r2cclInt32, comm, request,
             [](Call&, CommObject*) { return Status(); });
}

}  // extern "C"
