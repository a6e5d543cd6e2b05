// Highway's foreach_target.h includes this file once for each instruction set. Only Highway's
// headers are used: its library, which would choose among the sets, is a shared one in Debian, and
// this library depends on nothing that frameworks do not already have. find_kernels() chooses
// instead. A processor with SSSE3 alone is older than any that this library is for.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/collective/reduce_kernels.cc"
// Highway's own assertions call its library.
#undef HWY_IS_DEBUG_BUILD
#define HWY_IS_DEBUG_BUILD 0
// Virtual machines often hide these instructions, and no reduction needs them.
#undef HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_PCLMUL_AES
#include "runtime/collective/reduce_kernels.h"

#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"

HWY_BEFORE_NAMESPACE();
namespace r2ccl::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Neither the user's alignment nor the type of staging memory is known, so memory is bytes.
#if HWY_TARGET == HWY_SCALAR
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
  hn::TFromD<D> value;
  std::memcpy(&value, from, sizeof(value));
  return hn::Set(d, value);
}

template <class D>
HWY_INLINE void store(D, hn::Vec<D> vector, std::byte* to) {
  const hn::TFromD<D> value = hn::GetLane(vector);
  std::memcpy(to, &value, sizeof(value));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
  const hn::Repartition<uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(from)));
}

template <class D>
HWY_INLINE void store(D, hn::Vec<D> vector, std::byte* to) {
  const hn::Repartition<uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, vector), bytes, reinterpret_cast<uint8_t*>(to));
}
#endif

// Processors and compilers differ in the NaN that a sum makes of two, so every such NaN becomes the
// same one.
struct Sum {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    using T = hn::TFromD<D>;
    if constexpr (std::is_integral_v<T>) {
      const hn::RebindToUnsigned<D> wrapping;
      return hn::BitCast(d, hn::Add(hn::BitCast(wrapping, a), hn::BitCast(wrapping, b)));
    } else {
      const V sum = hn::Add(a, b);
      const V nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
      return hn::IfThenElse(hn::IsNaN(sum), nan, sum);
    }
  }
};

// Equal values differ at most in the sign of zero: And prefers +0, Or prefers -0.
struct Max {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) {
      return hn::Max(a, b);
    } else {
      const V unequal = hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
      return hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), unequal);
    }
  }
};

struct Min {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) {
      return hn::Min(a, b);
    } else {
      const V unequal = hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
      return hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), unequal);
    }
  }
};

// The last elements, less than a vector of them, go through a vector too: scalar code would need a
// second definition of each operation.
template <class Op, typename T>
void reduce_typed(std::byte* dst, const std::byte* a, const std::byte* b, uint64_t count) {
  const hn::ScalableTag<T> d;
  const size_t bytes = count * sizeof(T);
  const size_t step = hn::Lanes(d) * sizeof(T);
  size_t at = 0;
  for (; at + 2 * step <= bytes; at += 2 * step) {
    const auto low = Op::apply(d, load(d, a + at), load(d, b + at));
    const auto high = Op::apply(d, load(d, a + at + step), load(d, b + at + step));
    store(d, low, dst + at);
    store(d, high, dst + at + step);
  }
  for (size_t size; at < bytes; at += size) {
    size = HWY_MIN(step, bytes - at);
    std::byte in_a[hn::MaxLanes(d) * sizeof(T)] = {}, in_b[sizeof(in_a)] = {};
    std::memcpy(in_a, a + at, size);
    std::memcpy(in_b, b + at, size);
    store(d, Op::apply(d, load(d, in_a), load(d, in_b)), in_a);
    std::memcpy(dst + at, in_a, size);
  }
}

template <typename T>
void reduce_with(ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
                 uint64_t count) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return reduce_typed<Sum, T>(dst, a, b, count);
    case ReduceOp::max:
      return reduce_typed<Max, T>(dst, a, b, count);
    case ReduceOp::min:
      return reduce_typed<Min, T>(dst, a, b, count);
  }
  R2CCL_CHECK(false);
}

void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
            uint64_t count) {
  switch (type) {
    case DataType::int32:
      return reduce_with<int32_t>(op, dst, a, b, count);
    case DataType::int64:
      return reduce_with<int64_t>(op, dst, a, b, count);
    case DataType::float32:
      return reduce_with<float>(op, dst, a, b, count);
    case DataType::float64:
      return reduce_with<double>(op, dst, a, b, count);
  }
  R2CCL_CHECK(false);
}

// The compiler makes vectors of this loop where the processor divides vectors.
template <typename T>
void divide_typed(std::byte* dst, uint64_t count, int32_t divisor) {
  // A double holds every int32, and a quotient of two is further from the next integer than the
  // rounding error. Processors divide doubles faster than integers.
  using Exact = std::conditional_t<std::is_same_v<T, int32_t>, double, T>;
  const Exact by = static_cast<Exact>(divisor);
  for (uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, dst + i * sizeof(T), sizeof(T));
    value = static_cast<T>(static_cast<Exact>(value) / by);
    std::memcpy(dst + i * sizeof(T), &value, sizeof(T));
  }
}

void divide(DataType type, std::byte* dst, uint64_t count, int32_t divisor) {
  switch (type) {
    case DataType::int32:
      return divide_typed<int32_t>(dst, count, divisor);
    case DataType::int64:
      return divide_typed<int64_t>(dst, count, divisor);
    case DataType::float32:
      return divide_typed<float>(dst, count, divisor);
    case DataType::float64:
      return divide_typed<double>(dst, count, divisor);
  }
  R2CCL_CHECK(false);
}

}  // namespace

// A function, because an initialised constant could need instructions that the processor lacks.
ReduceKernels kernels();
ReduceKernels kernels() {
  return {hwy::TargetName(HWY_TARGET), reduce, divide};
}

}  // namespace r2ccl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <vector>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace r2ccl {
namespace {

#if HWY_ARCH_X86
// Highway lets the compiler use these instructions in all kernels of the target.
bool has_sse4() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2");
}

bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() {
  return has_sse4() && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx3() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

std::vector<ReduceKernels> find_kernels() {
  std::vector<ReduceKernels> found;
#if HWY_ARCH_X86
#if (HWY_TARGETS & HWY_AVX3) && HWY_STATIC_TARGET != HWY_AVX3
  if (has_avx3()) found.push_back(N_AVX3::kernels());
#endif
#if (HWY_TARGETS & HWY_AVX2) && HWY_STATIC_TARGET != HWY_AVX2
  if (has_avx2()) found.push_back(N_AVX2::kernels());
#endif
#if (HWY_TARGETS & HWY_SSE4) && HWY_STATIC_TARGET != HWY_SSE4
  if (has_sse4()) found.push_back(N_SSE4::kernels());
#endif
#endif
  found.push_back(HWY_STATIC_DISPATCH(kernels)());
  return found;
}

}  // namespace

std::span<const ReduceKernels> reduce_kernels() {
  static const std::vector<ReduceKernels> kernels = find_kernels();
  return kernels;
}

}  // namespace r2ccl
#endif  // HWY_ONCE
