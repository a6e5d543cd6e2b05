// The checks of a C call's arguments. An error names the function and the argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "api/handles.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/link/user_memory.h"

namespace r2ccl::api {

// Returns the most elements that an address space holds.
uint64_t elements_max(DataType type);

Status check_buffer(const char* function, const char* name, const void* buffer, uint64_t count,
                    DataType type);

// Returns memory that this rank's part of the call cannot access. The memory of a call in place is
// written.
std::optional<BadMemory> find_bad_buffers(const CommObject& comm, const void* send,
                                          uint64_t send_bytes, const void* receive,
                                          uint64_t receive_bytes);

// Checks a rank of the communicator; `what` is the argument's name.
Status check_peer(const char* function, const char* what, int rank, const CommObject* comm);

}  // namespace r2ccl::api

// Returns an error to the C caller of the enclosing function.
#define R2CCL_TRY(expression)                                          \
  do {                                                                 \
    if (::r2ccl::Status try_status = (expression); !try_status.ok()) { \
      return ::r2ccl::api::result_of(try_status);                      \
    }                                                                  \
  } while (0)
