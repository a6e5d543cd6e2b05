// The NICs of a job's hosts by name, and pairs of them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "protocol/wire/byte_io.h"

namespace r2ccl {

// A NIC of a host. Ranks of one host share its NICs, so the host counts and not the rank. Without a
// name: all NICs of the host.
struct NicName {
  uint32_t host = 0;  // index into the job's table of hosts
  std::string nic;
  friend auto operator<=>(const NicName&, const NicName&) = default;
};
// Its ends are in order.
using NicPair = std::pair<NicName, NicName>;

inline NicPair pair_of(const NicName& a, const NicName& b) {
  return a < b ? NicPair(a, b) : NicPair(b, a);
}
inline bool touches(const NicPair& pair, const NicName& nic) {
  return pair.first == nic || pair.second == nic;
}
inline const NicName& opposite(const NicPair& pair, const NicName& nic) {
  return pair.first == nic ? pair.second : pair.first;
}

void put_name(ByteWriter& out, const NicName& name);
NicName get_name(ByteReader& in);

}  // namespace r2ccl
