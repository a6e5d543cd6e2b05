// Files that a command writes at its end: better to know at its start that it cannot.
#pragma once

#include <string>

#include "base/status.h"

namespace r2ccl::tools {

// An error that names `option` when `path` could not be written. Empty and "-" (standard output)
// can; what the file holds stays, and none is left where none was.
Status check_writable(const std::string& option, const std::string& path);

Status write_text(const std::string& path, const std::string& text);

}  // namespace r2ccl::tools
