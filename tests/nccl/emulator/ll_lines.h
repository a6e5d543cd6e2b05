// The lines of NCCL's protocol LL (low latency): 16 bytes {data, flag, data, flag} of 4 bytes each.
// The receiver polls the flags, which are the step and 1, so the data need no other signal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "connection.h"

namespace r2ccl::emulated {

inline constexpr size_t kLlDataBytes = 8;  // in a line

// Returns the lines for so many bytes of data.
size_t ll_lines(size_t bytes);
// Returns the bytes that the step will have in the buffer.
int64_t ll_message_bytes(const Connection& sender, size_t lines);

// Waits for each line. Throws Aborted.
void read_ll(const Connection& receiver, size_t lines, char* data);
void write_ll(const Connection& sender, size_t lines, const char* data);

}  // namespace r2ccl::emulated
