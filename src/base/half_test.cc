#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace r2ccl {
namespace {

// A 16-bit type: its conversions, and the bits of its infinity.
struct Half {
  const char* name;
  float (*from)(uint16_t);
  uint16_t (*to)(float);
  uint16_t infinity;
  int mantissa_bits;
  int exponent_bias;
};

constexpr Half kHalves[] = {{"float16", from_float16, to_float16, 0x7c00, 10, 15},
                            {"bfloat16", from_bfloat16, to_bfloat16, 0x7f80, 7, 127}};

TEST(Half, EveryValueIsTheOneThatTheFormatDefines) {
  for (const Half& half : kHalves) {
    for (uint32_t bits = 0; bits < half.infinity; ++bits) {
      const int exponent = static_cast<int>(bits >> half.mantissa_bits);
      const auto mantissa = static_cast<int>(bits & ((1u << half.mantissa_bits) - 1));
      const int one = exponent == 0 ? 0 : 1 << half.mantissa_bits;
      const double value = std::ldexp(
          one + mantissa, std::max(exponent, 1) - half.exponent_bias - half.mantissa_bits);
      ASSERT_EQ(half.from(static_cast<uint16_t>(bits)), value) << half.name << " " << bits;
      ASSERT_EQ(half.from(static_cast<uint16_t>(bits | 0x8000)), -value) << half.name;
    }
    EXPECT_EQ(half.from(half.infinity), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(half.from(half.infinity + 1)));
  }
}

TEST(Half, EveryValueSurvivesTheWayThroughFloat32) {
  for (const Half& half : kHalves) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto value = static_cast<uint16_t>(bits);
      const bool nan = (bits & 0x7fff) > half.infinity;
      const auto quiet = static_cast<uint16_t>(bits | 1u << (half.mantissa_bits - 1));
      ASSERT_EQ(half.to(half.from(value)), nan ? quiet : value) << half.name << " " << bits;
    }
  }
}

// Tests the middle between two neighbours, and the float32 values beside it.
TEST(Half, RoundsToNearestAndTiesToEven) {
  for (const Half& half : kHalves) {
    for (uint32_t bits = 0; bits < half.infinity; ++bits) {
      const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
      const double above = high == half.infinity
                               ? 2.0 * half.from(low) - half.from(static_cast<uint16_t>(bits - 1))
                               : half.from(high);
      const auto middle = static_cast<float>((half.from(low) + above) / 2);
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      ASSERT_EQ(half.to(middle), bits % 2 == 0 ? low : high) << half.name << " " << bits;
      ASSERT_EQ(half.to(std::nextafter(middle, 0.0f)), low) << half.name << " " << bits;
      ASSERT_EQ(half.to(std::nextafter(middle, kInfinity)), high) << half.name << " " << bits;
      ASSERT_EQ(half.to(-middle), half.to(middle) | 0x8000) << half.name << " " << bits;
    }
  }
}

TEST(Half, TinyAndHugeValuesBecomeZeroAndInfinity) {
  using L = std::numeric_limits<float>;
  EXPECT_EQ(to_float16(L::denorm_min()), 0);
  EXPECT_EQ(to_float16(-L::min()), 0x8000);
  EXPECT_EQ(to_float16(L::max()), 0x7c00);
  EXPECT_EQ(to_float16(-L::infinity()), 0xfc00);
  EXPECT_EQ(to_bfloat16(L::max()), 0x7f80);
  EXPECT_EQ(to_bfloat16(L::denorm_min()), 0);
  EXPECT_EQ(to_float16(L::quiet_NaN()), 0x7e00);
  EXPECT_EQ(to_bfloat16(L::quiet_NaN()), 0x7fc0);
}

}  // namespace
}  // namespace r2ccl
