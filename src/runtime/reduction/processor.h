// The sets of instructions that kernels may use, and this processor may lack. Highway lets the
// compiler use each whole set in all kernels of the target of that name.
#pragma once

namespace r2ccl {

// False on processors that are not x86.
bool has_sse4();
bool has_avx2();
bool has_avx3();

}  // namespace r2ccl
