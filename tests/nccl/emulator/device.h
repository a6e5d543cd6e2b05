// The device that the emulator shows to NCCL: an A100 of 108 multiprocessors, which is all that
// NCCL asks about before it chooses how to work.
#pragma once

namespace r2ccl::emulated {

// CUDA's results, of which the emulator has few.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;

// CUDA 12.1: below 12.2 NCCL takes host memory from cudaHostAlloc, and below 12.3 it does not ask
// for events at the end of a launch. NCCL for CUDA 13 takes this driver too.
inline constexpr int kDriverVersion = 12010;

inline constexpr int kComputeMajor = 8;
inline constexpr int kComputeMinor = 0;
inline constexpr char kBusId[] = "0000:51:00.0";

// Returns an attribute by CUDA's number.
int device_attribute(int attribute);
const char* error_text(int error);

}  // namespace r2ccl::emulated
