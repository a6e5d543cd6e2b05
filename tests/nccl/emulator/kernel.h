// A launch of NCCL's kernel for collectives.
#pragma once

#include "device_functions.h"
#include "work_format.h"

namespace r2ccl::emulated {

// Does the work of all blocks. Returns early if NCCL aborts its kernels.
void run_kernel(const WorkFormat& format, const DeviceFunctions& functions, const char* parameters,
                unsigned blocks);

}  // namespace r2ccl::emulated
