// NCCL's numbers of its device functions.
#pragma once

#include <cstddef>
#include <vector>

#include "layout.h"
#include "loaded_library.h"
#include "work.h"

namespace r2ccl::emulated {

// NCCL numbers the functions that it has compiled: a table in its data maps each combination of
// collective, operator, type, algorithm and protocol, in the order of nested loops, to a number.
// This inverts the table. Combinations that compute alike, as signed and unsigned sums, share a
// number.
class DeviceFunctions {
 public:
  DeviceFunctions(const Layout& layout, const LoadedLibrary& library, int version);

  const DeviceFunction& at(size_t number) const;

 private:
  void add_rows(Collective collective, int operators, int types, int algorithms);
  void add_row(const DeviceFunction& function);

  const int* rows_;  // the numbers by row, -1 where NCCL has no such function
  size_t row_ = 0;
  std::vector<DeviceFunction> functions_;
  std::vector<bool> is_known_;
};

}  // namespace r2ccl::emulated
