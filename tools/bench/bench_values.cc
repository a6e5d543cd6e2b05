#include "tools/bench/bench_values.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "tools/bench/periodic_values.h"

namespace r2ccl::tools {
namespace {

constexpr uint32_t kSumLimit = 1u << 24;  // float32 counts exactly up to here

// Chris Wellons' low-bias 32-bit mixer, reduced to operations that the compiler vectorises well.
constexpr uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

constexpr uint32_t seed_of(uint64_t iteration) {
  return mix(static_cast<uint32_t>(iteration) * 0x9e3779b9u +
             static_cast<uint32_t>(iteration >> 32) + 1);
}

constexpr uint32_t hash_of(size_t element, uint32_t seed) {
  return mix(static_cast<uint32_t>(element) +
             static_cast<uint32_t>(static_cast<uint64_t>(element) >> 32) * 0x27d4eb2fu + seed);
}

// Returns a factor that carries the values into the high bits, so that the check covers all bits of
// wider types. The factor is odd, so that no bit of the sum gets lost.
template <typename T>
constexpr T scale() {
  if constexpr (std::is_same_v<T, float>) return 1;
  if constexpr (std::is_same_v<T, int32_t>) return 127;                     // sums below 2^31
  if constexpr (std::is_same_v<T, double>) return (1u << 28) + 1;           // sums below 2^53
  if constexpr (std::is_same_v<T, int64_t>) return (int64_t{1} << 38) + 1;  // sums below 2^63
}

// Element values for a multiplier of a, m, and of b, n: one rank's input has m = 1 and n = w[r],
// the sum of all ranks has m = p and n = sum(w). The weights are reversed for every other element,
// by chance, so that a maximum does not always come from the same rank.
struct Pattern {
  uint32_t seed;
  uint32_t a_mask;
  int32_t m;
  int32_t n;
  int32_t n_turned;
  size_t first = 0;  // the element that index 0 stands for

  template <typename T>
  T at(size_t element) const {
    uint32_t hash = hash_of(first + element, seed);
    auto a = static_cast<int32_t>(hash & a_mask);
    auto b = static_cast<int32_t>(1 + (hash >> 30));
    int32_t weight = (hash & (1u << 29)) != 0 ? n_turned : n;
    return static_cast<T>(m * a + weight * b) * scale<T>();
  }
};

template <typename T>
void fill_as(void* buffer, size_t count, Pattern pattern) {
  T* out = static_cast<T*>(buffer);
  for (size_t i = 0; i < count; ++i) out[i] = pattern.at<T>(i);
}

// With a divisor, divides the complete sum once in the element's own type, as avg is defined.
template <typename T>
uint64_t count_wrong_as(const void* buffer, size_t count, Pattern pattern, int32_t divisor) {
  const T* in = static_cast<const T*>(buffer);
  uint64_t wrong = 0;
  if (divisor == 1) {
    for (size_t i = 0; i < count; ++i) wrong += in[i] == pattern.at<T>(i) ? 0 : 1;
  } else {
    for (size_t i = 0; i < count; ++i) {
      wrong += in[i] == pattern.at<T>(i) / static_cast<T>(divisor) ? 0 : 1;
    }
  }
  return wrong;
}

uint64_t count_wrong(const void* buffer, size_t count, r2cclDataType_t type, Pattern pattern,
                     int32_t divisor) {
  switch (type) {
    case r2cclInt32:
      return count_wrong_as<int32_t>(buffer, count, pattern, divisor);
    case r2cclInt64:
      return count_wrong_as<int64_t>(buffer, count, pattern, divisor);
    case r2cclFloat32:
      return count_wrong_as<float>(buffer, count, pattern, divisor);
    case r2cclFloat64:
      return count_wrong_as<double>(buffer, count, pattern, divisor);
    default:
      break;
  }
  return count;
}

// Returns whether the values of a pattern serve the type and the reduction.
bool has_pattern(r2cclDataType_t type, r2cclRedOp_t redop) {
  const bool wide =
      type == r2cclInt32 || type == r2cclInt64 || type == r2cclFloat32 || type == r2cclFloat64;
  return wide && (redop == r2cclSum || redop == r2cclMax || redop == r2cclMin || redop == r2cclAvg);
}

PeriodicValues periodic(int ranks, r2cclDataType_t type, r2cclRedOp_t redop) {
  constexpr int kFirstBitwise = static_cast<int>(ReduceOp::band);
  const int number = redop >= r2cclBand ? redop - r2cclBand + kFirstBitwise : redop;
  return {ranks, static_cast<DataType>(type), static_cast<ReduceOp>(number)};
}

}  // namespace

BenchValues::BenchValues(int ranks) : ranks_(ranks) {
  R2CCL_CHECK(ranks >= 1 && ranks <= kRanksMax);
  // One rank's value stays within room: half of it for a, half for b * w with b up to 4.
  uint32_t room = kSumLimit / static_cast<uint32_t>(ranks);
  a_mask_ = std::bit_floor(room / 2) - 1;
  uint32_t stride = room / 8 / static_cast<uint32_t>(ranks);
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(ranks); ++rank) {
    weights_.push_back(static_cast<int32_t>(1 + rank * stride + mix(rank) % stride));
  }
  turn_ = 1 + static_cast<int32_t>(stride * static_cast<uint32_t>(ranks));
  for (int32_t weight : weights_) weight_sum_ += weight;
  weight_max_ = *std::max_element(weights_.begin(), weights_.end());
  weight_min_ = *std::min_element(weights_.begin(), weights_.end());
}

void BenchValues::fill(void* buffer, size_t count, r2cclDataType_t type, r2cclRedOp_t redop,
                       int rank, uint64_t iteration) const {
  if (!has_pattern(type, redop)) {
    return periodic(ranks_, type, redop).fill(buffer, count, rank, iteration);
  }
  int32_t weight = weights_[static_cast<size_t>(rank)];
  Pattern pattern{seed_of(iteration), a_mask_, 1, weight, turn_ - weight};
  switch (type) {
    case r2cclInt32:
      return fill_as<int32_t>(buffer, count, pattern);
    case r2cclInt64:
      return fill_as<int64_t>(buffer, count, pattern);
    case r2cclFloat32:
      return fill_as<float>(buffer, count, pattern);
    case r2cclFloat64:
      return fill_as<double>(buffer, count, pattern);
    default:
      break;
  }
}

uint64_t BenchValues::count_wrong_reduced(const void* buffer, size_t count, r2cclDataType_t type,
                                          r2cclRedOp_t redop, uint64_t iteration,
                                          size_t first) const {
  if (!has_pattern(type, redop)) {
    return periodic(ranks_, type, redop).count_wrong_reduced(buffer, count, iteration, first);
  }
  Pattern pattern{seed_of(iteration), a_mask_, 1, 0, 0, first};
  int32_t divisor = 1;
  switch (redop) {
    case r2cclAvg:
      divisor = ranks_;
      [[fallthrough]];
    case r2cclSum:
      pattern.m = ranks_;
      pattern.n = weight_sum_;
      pattern.n_turned = ranks_ * turn_ - weight_sum_;
      break;
    case r2cclMax:
      pattern.n = weight_max_;
      pattern.n_turned = turn_ - weight_min_;
      break;
    case r2cclMin:
      pattern.n = weight_min_;
      pattern.n_turned = turn_ - weight_max_;
      break;
    default:
      break;
  }
  return count_wrong(buffer, count, type, pattern, divisor);
}

uint64_t BenchValues::count_wrong_copied(const void* buffer, size_t count, r2cclDataType_t type,
                                         r2cclRedOp_t redop, int rank, uint64_t iteration,
                                         size_t first) const {
  if (!has_pattern(type, redop)) {
    return periodic(ranks_, type, redop).count_wrong_copied(buffer, count, rank, iteration, first);
  }
  int32_t weight = weights_[static_cast<size_t>(rank)];
  Pattern pattern{seed_of(iteration), a_mask_, 1, weight, turn_ - weight, first};
  return count_wrong(buffer, count, type, pattern, 1);
}

}  // namespace r2ccl::tools
