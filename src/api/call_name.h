// The name that the calling thread has given to its next operation.
#pragma once

#include <string>

namespace r2ccl {

inline constexpr size_t kNameBytesMax = 63;

// Makes the text printable and cuts it to its bound. An empty one takes the name back.
void set_call_name(const std::string& name);
// Returns the name and takes it back; empty: there is none.
std::string take_call_name();
void drop_call_name() noexcept;

}  // namespace r2ccl
