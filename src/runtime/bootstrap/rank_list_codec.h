// The ranks at fault that go with an error's text.
//
//   number of ranks(1), at most 32; each of them(4)
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

inline constexpr size_t kRanksToldMax = 32;

// Truncates the list to its bound.
void put_ranks(ByteWriter& out, const std::vector<Rank>& ranks);
// The ranks may be any numbers. Returns none, and reads their number alone, when that is too large.
std::vector<Rank> get_ranks(ByteReader& in);

}  // namespace r2ccl
