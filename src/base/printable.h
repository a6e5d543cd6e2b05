// Text from outside this process, made safe to show.
//
// Host names, NIC names, refusals and error texts that another rank sends end in logs, in the words
// of r2cclGetLastError and on terminals. A terminal obeys escape sequences, a log reader believes
// line ends, and a reader of either is fooled by text that is drawn in another order than it is
// written. Every decoder therefore passes such text through printable_text().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace r2ccl {

// Bytes of the UTF-8 character that `text`, which is not empty, begins with; 0: it begins with
// none.
size_t utf8_length(std::string_view text);

// Returns `text` with a question mark in place of each byte that is not UTF-8 and of each character
// that moves a cursor, hides itself or changes the order of others. Cuts what is longer than
// `bytes_max` (at least 3) between two characters and ends it with "...". The result is never
// longer than the text, and applying this again changes nothing.
std::string printable_text(std::string_view text, size_t bytes_max);
std::string printable_text(std::span<const std::byte> bytes, size_t bytes_max);

// Whether printable_text would leave it as it is.
bool is_printable(std::string_view text);

}  // namespace r2ccl
