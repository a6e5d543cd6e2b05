// Files that a command writes at its end. The command checks at its start that it can write them.
#pragma once

#include <string>

#include "base/status.h"

namespace r2ccl::tools {

// Returns an error that names `option` if `path` cannot be written. Accepts an empty path and "-"
// (standard output). Keeps the content of an existing file, and leaves no new file behind.
Status check_writable(const std::string& option, const std::string& path);

Status write_text(const std::string& path, const std::string& text);

}  // namespace r2ccl::tools
