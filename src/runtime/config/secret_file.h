// A file that holds a secret.
#pragma once

#include <string>

#include "base/status.h"
#include "protocol/wire/locked_bytes.h"

namespace r2ccl {

inline constexpr size_t kSecretTextBytesMin = 16;
inline constexpr size_t kSecretTextBytesMax = 4096;

// Returns the file's content without the end of its line: empty when the file holds none, longer
// than the maximum when the file does. Never blocks. Fails when the file is not regular, when its
// owner is neither this process's user nor root, or when its group or others can read or write it.
Result<LockedBytes> read_secret_file(const std::string& name);

// Creates the file `name` with that content and an end of line, readable only by this user. Fails
// when the file exists.
Status write_secret_file(const std::string& name, const LockedBytes& text);

}  // namespace r2ccl
