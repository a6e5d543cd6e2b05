#include "runtime/bootstrap/rank_list_codec.h"

#include <algorithm>
#include <cstdint>

namespace r2ccl {

void put_ranks(ByteWriter& out, const std::vector<Rank>& ranks) {
  const size_t told = std::min(ranks.size(), kRanksToldMax);
  out.put(static_cast<uint8_t>(told));
  for (size_t i = 0; i < told; ++i) out.put(static_cast<uint32_t>(ranks[i].value()));
}

std::vector<Rank> get_ranks(ByteReader& in) {
  const size_t told = in.get<uint8_t>();
  std::vector<Rank> ranks;
  if (told > kRanksToldMax || told * sizeof(uint32_t) > in.remaining()) return ranks;
  while (ranks.size() < told) ranks.emplace_back(static_cast<int32_t>(in.get<uint32_t>()));
  return ranks;
}

}  // namespace r2ccl
