#pragma once

#include <cstdint>
#include <initializer_list>

namespace r2ccl {

// Returns a hash of small integers by the finaliser of splitmix64 (Steele, Lea, Flood 2014): every
// input bit reaches every output bit. It is never 0, so that 0 can mean "none".
constexpr uint64_t hash_of(std::initializer_list<uint64_t> fields) {
  uint64_t hash = 0;
  for (const uint64_t field : fields) {
    uint64_t x = hash + 0x9e3779b97f4a7c15u + field;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    hash = x ^ (x >> 31);
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace r2ccl
