// Makes text from outside this process safe to show.
//
// Host names, NIC names, refusals and error texts of another rank end in logs, in r2cclGetLastError
// and on terminals. A terminal obeys escape sequences. A log reader believes line ends. Either is
// fooled by text that is drawn in another order than it is written. So every decoder passes such
// text through printable_text().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace r2ccl {

// Returns the length in bytes of the UTF-8 character at the start of `text`; 0 if there is none.
// Requires that `text` is not empty.
size_t utf8_length(std::string_view text);

// Returns `text` with a question mark in place of each byte that is not UTF-8 and of each character
// that moves a cursor, is invisible or changes the order of others. Truncates a text longer than
// `bytes_max` (at least 3) between two characters and ends it with "...". The result is never
// longer than the text, and a second call changes nothing.
std::string printable_text(std::string_view text, size_t bytes_max);
std::string printable_text(std::span<const std::byte> bytes, size_t bytes_max);

// Returns whether printable_text would leave the text as it is.
bool is_printable(std::string_view text);

}  // namespace r2ccl
