// A file that holds a secret.
#pragma once

#include <string>

#include "base/status.h"
#include "protocol/wire/locked_bytes.h"

namespace r2ccl {

inline constexpr size_t kSecretTextBytesMin = 16;
inline constexpr size_t kSecretTextBytesMax = 4096;

// Returns the file's content without its line's end; empty when there is none, one byte more than
// the maximum when it is longer. Never blocks. Fails when it is no regular file, when it belongs to
// another user than this process's or root, or when its group or others can read or write it.
Result<LockedBytes> read_secret_file(const std::string& name);

// Makes the file `name`, which only this user can read, with that content and a line's end. Fails
// when there is such a file already.
Status write_secret_file(const std::string& name, const LockedBytes& text);

}  // namespace r2ccl
