// A handle names a process to those that may make a communicator with it. It is a text without a
// secret, which a key-value store can hold.
//
//   r2ccl1:<host name>:<process id>:<public key, 64 hexadecimal digits>
//
// The texts in their order have the processes of a host beside each other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/wire/process_key.h"

namespace r2ccl {

inline constexpr size_t kProcessHandleMax = 159;  // characters

// Returns the key of this process. A forked child has another one than its parent. Any thread.
const crypto::ProcessKey& process_key();
std::string process_handle();

// Returns the key of a process, or nothing if the text is no handle.
std::optional<crypto::PublicKey> key_of_handle(std::string_view handle);

// Returns the place of this process among the handles. An error names a text that is no handle, two
// handles of one process, or the want of this process's own.
Result<int> find_own_handle(std::span<const std::string_view> handles);

}  // namespace r2ccl
