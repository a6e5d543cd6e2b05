// A small generator of our own (splitmix64). The standard's distributions differ between libraries,
// and a seed must give the same run everywhere.
#pragma once

#include <cstdint>

namespace r2ccl::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Returns 0 to bound - 1. The bias of the remainder does not matter for small bounds.
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  bool chance_ppm(uint64_t parts_per_million) {
    return parts_per_million > 0 && below(1'000'000) < parts_per_million;
  }

 private:
  uint64_t state_;
};

}  // namespace r2ccl::sim
