#include "device_functions.h"

#include <string>

#include "report.h"

namespace r2ccl::emulated {
namespace {

constexpr int kProtocols = 3;

// The collectives without a tree have no row for one: their algorithms begin with the ring.
Algorithm algorithm_of(Collective collective, int index) {
  if (collective == Collective::kAllReduce) {
    return index <= 1 ? static_cast<Algorithm>(index) : Algorithm::kOther;
  }
  return index == 0 ? Algorithm::kRing : Algorithm::kOther;
}

}  // namespace

DeviceFunctions::DeviceFunctions(const Layout& layout, const LoadedLibrary& library, int version)
    : rows_(static_cast<const int*>(library.data("ncclDevFuncRowToId"))) {
  if (rows_ == nullptr) fail("this NCCL has no table of device functions");
  const int types = static_cast<int>(layout.constant("ncclNumTypes"));
  const int operators = static_cast<int>(layout.constant("ncclNumDevRedOps"));
  const int without_reduction = version < 22300 ? 3 : 4;  // PAT came with 2.23
  add_row({Collective::kPointToPoint, Operator::kSum, DataType::kUint8, Algorithm::kRing,
           Protocol::kSimple});
  add_rows(Collective::kAllGather, 1, 1, without_reduction);
  add_rows(Collective::kBroadcast, 1, 1, 1);
  if (layout.has_struct("ncclDevWorkBcast")) add_rows(Collective::kAllGatherV, 1, 1, 1);
  add_rows(Collective::kAllReduce, operators, types, 6);
  add_rows(Collective::kReduce, operators, types, 1);
  add_rows(Collective::kReduceScatter, operators, types, without_reduction);
  log(LogLevel::kStart, std::to_string(row_) + " rows name " + std::to_string(functions_.size()) +
                            " device functions");
}

void DeviceFunctions::add_rows(Collective collective, int operators, int types, int algorithms) {
  for (int op = 0; op < operators; ++op) {
    for (int type = 0; type < types; ++type) {
      for (int algorithm = 0; algorithm < algorithms; ++algorithm) {
        for (int protocol = 0; protocol < kProtocols; ++protocol) {
          add_row({collective, static_cast<Operator>(op), static_cast<DataType>(type),
                   algorithm_of(collective, algorithm), static_cast<Protocol>(protocol)});
        }
      }
    }
  }
}

void DeviceFunctions::add_row(const DeviceFunction& function) {
  const int number = rows_[row_++];
  if (number < 0) return;
  const auto at = static_cast<size_t>(number);
  if (at >= functions_.size()) {
    functions_.resize(at + 1);
    is_known_.resize(at + 1);
  }
  if (is_known_[at]) return;
  functions_[at] = function;
  is_known_[at] = true;
}

const DeviceFunction& DeviceFunctions::at(size_t number) const {
  if (number >= functions_.size() || !is_known_[number]) {
    unsupported("device function " + std::to_string(number));
  }
  return functions_[number];
}

}  // namespace r2ccl::emulated
