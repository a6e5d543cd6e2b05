// Tables in plain text.
#pragma once

#include <string>
#include <vector>

namespace r2ccl::tools {

using TextRow = std::vector<std::string>;

// Returns the rows as left-aligned columns, two spaces between them, none at the end of a line. A
// row may be shorter than others; then its last cell may be wider than its column.
std::string layout(const std::vector<TextRow>& rows);

// Returns `text` with control characters replaced: it may come from another user's process.
std::string printable(const std::string& text);

}  // namespace r2ccl::tools
