// The NCCL that this process runs, with everything that the emulator knows about it.
#pragma once

#include <string>
#include <unordered_map>

#include "device_functions.h"
#include "layout.h"
#include "loaded_library.h"
#include "work_format.h"

namespace r2ccl::emulated {

class NcclInMemory {
 public:
  // Returns the only one: a process has one CUDA runtime, and its functions have no other argument
  // to find it by. The first call loads NCCL.
  static const NcclInMemory& get();

  const Layout& layout() const { return layout_; }
  // Ends the process if this is not one of NCCL's kernels for collectives.
  void expect_kernel(const void* function) const;
  // Does the work of a kernel, on the thread of its stream.
  void run_kernel(const char* parameters, unsigned blocks) const;

 private:
  NcclInMemory();

  Layout layout_;
  LoadedLibrary library_;
  int version_;
  WorkFormat format_;
  DeviceFunctions functions_;
  std::unordered_map<const void*, std::string> kernels_;  // their names, for messages
};

}  // namespace r2ccl::emulated
