// Redirects the CUDA runtime that is linked into NCCL to the functions of the same names in the
// emulator.
#pragma once

#include "loaded_library.h"

namespace r2ccl::emulated {

// Writes a jump at the start of each function cudaNAME of the library, in the memory of this
// process alone. Functions that the emulator does not have end the process when they are called.
void redirect_runtime(const LoadedLibrary& nccl);

}  // namespace r2ccl::emulated
