// The C edge: types and reductions, and the operations that a user makes.
#include "api/reductions.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "api/calls.h"
#include "api/errors.h"
#include "runtime/link/user_memory.h"

namespace r2ccl::api {
namespace {

// The numbers of operations that a user made are above those of all others. A number is not used
// again before all others have been.
constexpr int kFirstMade = 0x10000;
constexpr uint64_t kNumbers = r2cclMaxRedOp - kFirstMade;
std::atomic<uint64_t> made_in_all{0};

int next_number() {
  const uint64_t before = made_in_all.fetch_add(1, std::memory_order_relaxed);
  return kFirstMade + static_cast<int>(before % kNumbers);
}

bool was_made(r2cclRedOp_t op) {
  return op >= kFirstMade &&
         static_cast<uint64_t>(op - kFirstMade) < made_in_all.load(std::memory_order_relaxed);
}

Status wrong(const char* function, const std::string& what) {
  return {Code::invalid_argument, std::string(function) + ": " + what};
}

template <typename All>
std::string names_of(const All& all) {
  std::string names;
  for (const auto one : all) {
    const char* const before = names.empty() ? "" : one == all.back() ? " and " : ", ";
    names += std::string(before) + to_string(one);
  }
  return names;
}

std::optional<ReduceOp> built_in(r2cclRedOp_t op) {
  switch (op) {
    case r2cclSum:
      return ReduceOp::sum;
    case r2cclProd:
      return ReduceOp::prod;
    case r2cclMax:
      return ReduceOp::max;
    case r2cclMin:
      return ReduceOp::min;
    case r2cclAvg:
      return ReduceOp::avg;
    case r2cclBand:
      return ReduceOp::band;
    case r2cclBor:
      return ReduceOp::bor;
    case r2cclBxor:
      return ReduceOp::bxor;
    default:
      return std::nullopt;
  }
}

Status no_reduction(const char* function, r2cclRedOp_t op) {
  const std::string number = "reduction " + std::to_string(static_cast<int>(op));
  if (was_made(op)) {
    return wrong(function, number +
                               " is no operation of this communicator: it was destroyed, or made "
                               "for another communicator");
  }
  return wrong(function, number +
                             " is not supported; sum, prod, max, min, avg, band, bor, bxor and the "
                             "results of r2cclRedOpCreatePreMulSum are");
}

// Reads one element at any alignment.
Status read_scalar(const char* function, const void* from, DataType type, Scalar& scalar) {
  if (from == nullptr) return wrong(function, "scalar is NULL");
  const std::span memory(static_cast<const std::byte*>(from), size_of(type));
  if (find_bad_memory(memory, Access::read)) {
    return wrong(function, "scalar is memory that this process cannot read");
  }
  std::memcpy(scalar.data(), from, memory.size());
  return {};
}

Result<Reduction> made_reduction(const char* function, r2cclRedOp_t op, DataType type,
                                 CommObject* comm) {
  PreMulSum made;
  {
    const std::lock_guard lock(comm->mutex);
    const auto found = comm->reductions.find(op);
    if (found == comm->reductions.end()) return no_reduction(function, op);
    made = found->second;
  }
  if (made.type != type) {
    return wrong(function, "reduction " + std::to_string(static_cast<int>(op)) + " was made for " +
                               to_string(made.type) + ", the call is for " + to_string(type) +
                               ": make one for each type");
  }
  Reduction reduction{ReduceOp::premulsum, made.scalar};
  if (made.source != nullptr) {
    R2CCL_RETURN_IF_ERROR(read_scalar(function, made.source, type, reduction.scalar));
  }
  return reduction;
}

}  // namespace

Result<DataType> check_type(const char* function, r2cclDataType_t type) {
  const auto number = static_cast<unsigned>(type);
  for (const DataType known : kDataTypes) {
    if (static_cast<unsigned>(known) == number) return known;
  }
  return wrong(function, "data type " + std::to_string(static_cast<int>(type)) +
                             " is not supported; " + names_of(kDataTypes) + " are");
}

Result<Reduction> check_reduction(const char* function, r2cclRedOp_t op, DataType type,
                                  CommObject* comm) {
  const std::optional<ReduceOp> known = built_in(op);
  if (!known) return made_reduction(function, op, type, comm);
  if (!supports(type, *known)) {
    return wrong(function, std::string("bitwise ") + (to_string(*known) + 1) + " of " +
                               to_string(type) + " is not supported: use an integer type");
  }
  return Reduction{*known, {}};
}

}  // namespace r2ccl::api

using r2ccl::Status;
using r2ccl::api::CommObject;
using r2ccl::api::PreMulSum;

extern "C" {

r2cclResult_t r2cclRedOpCreatePreMulSum(r2cclRedOp_t* op, const void* scalar,
                                        r2cclDataType_t datatype, r2cclScalarResidence_t residence,
                                        r2cclComm_t handle) {
  constexpr const char* kName = "r2cclRedOpCreatePreMulSum";
  // A caller may pass a number that the enum does not have.
  const int type_number = datatype;
  const int when = residence;
  return r2ccl::api::with_comm(kName, handle, [&](CommObject* comm) -> r2cclResult_t {
    using r2ccl::api::result_of;
    using r2ccl::api::wrong;
    if (op == nullptr) return result_of(wrong(kName, "op is NULL"));
    const auto type = r2ccl::api::check_type(kName, static_cast<r2cclDataType_t>(type_number));
    if (!type.ok()) return result_of(type.status());
    if (when != r2cclScalarDevice && when != r2cclScalarHostImmediate) {
      return result_of(wrong(kName, "residence is " + std::to_string(when) +
                                        ", it must be r2cclScalarDevice or "
                                        "r2cclScalarHostImmediate"));
    }
    PreMulSum made{type.value(), {}, when == r2cclScalarDevice ? scalar : nullptr};
    const Status read = r2ccl::api::read_scalar(kName, scalar, made.type, made.scalar);
    if (!read.ok()) return result_of(read);
    const std::lock_guard lock(comm->mutex);
    int number = r2ccl::api::next_number();
    while (!comm->reductions.emplace(number, made).second) number = r2ccl::api::next_number();
    *op = static_cast<r2cclRedOp_t>(number);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclRedOpDestroy(r2cclRedOp_t op, r2cclComm_t handle) {
  constexpr const char* kName = "r2cclRedOpDestroy";
  return r2ccl::api::with_comm(kName, handle, [&](CommObject* comm) -> r2cclResult_t {
    using r2ccl::api::result_of;
    if (r2ccl::api::built_in(op)) {
      return result_of(r2ccl::api::wrong(
          kName,
          "reduction " + std::to_string(static_cast<int>(op)) + " is built in and has no end"));
    }
    const std::lock_guard lock(comm->mutex);
    if (comm->reductions.erase(op) == 0) return result_of(r2ccl::api::no_reduction(kName, op));
    return r2cclSuccess;
  });
}

}  // extern "C"
