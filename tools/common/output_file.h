// Files that a command writes at its end. The command checks at its start that it can write them.
#pragma once

#include <string>

#include "base/status.h"

namespace r2ccl::tools {

// Returns an error that names `option` if `path` cannot be written. Accepts an empty path and "-"
// (standard output). Keeps the content of an existing file, and leaves no new file behind.
Status check_writable(const std::string& option, const std::string& path);

// Writes the file, or standard output for "-", whose errors show at the end of the command. Leaves
// no part of the text where it cannot write all of it.
Status write_text(const std::string& path, const std::string& text);

// Replaces the file as a whole, so that a reader sees the old text or the new one. A failure leaves
// the old file as it was. Everybody may read the new one. Refuses a path that is no regular file.
Status replace_file(const std::string& path, const std::string& text);

}  // namespace r2ccl::tools
