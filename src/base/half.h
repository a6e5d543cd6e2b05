// The two 16-bit floating-point types as bits: conversion of one value, in integer arithmetic, for
// values that are computed or checked one by one. Reductions have kernels of their own.
#pragma once

#include <bit>
#include <cstdint>

namespace r2ccl {

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa.
constexpr float from_float16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// Returns the nearest float16, of two equally near ones the even one. A NaN becomes a quiet NaN.
constexpr uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t result = 0;
  if (magnitude > 0x7f800000) {
    result = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x47800000) {  // 2^16
    result = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the least normal number
    result = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else if (const uint32_t shift = 126 - (magnitude >> 23); shift <= 24) {
    // Counts units of 2^-24, the least subnormal number.
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    result = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
  }
  return static_cast<uint16_t>(sign | result);
}

// bfloat16: the upper half of a float32.
constexpr float from_bfloat16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

// Rounds as to_float16().
constexpr uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace r2ccl
