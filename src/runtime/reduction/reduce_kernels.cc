// Highway's foreach_target.h includes this file once for each instruction set. Only Highway's
// headers are used: its library, which would choose among the sets, is a shared one in Debian, and
// this library depends on nothing that frameworks do not already have. find_kernels() chooses
// instead. A processor with SSSE3 alone is older than any that this library is for.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/reduction/reduce_kernels.cc"
// Highway's own assertions call its library.
#undef HWY_IS_DEBUG_BUILD
#define HWY_IS_DEBUG_BUILD 0
// Virtual machines often hide these instructions, and no reduction needs them.
#undef HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_PCLMUL_AES
#include "runtime/reduction/reduce_kernels.h"

#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/half.h"
#include "runtime/reduction/processor.h"
#include "runtime/reduction/reduce_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace r2ccl::HWY_NAMESPACE {
namespace {

// Computes dst = op(in...) on `bytes` bytes. The last elements, less than a vector of them, go
// through a vector too: scalar code would need a second definition of each operation.
template <class Element, class Op, class... In>
void transform(Op op, uint64_t bytes, std::byte* dst, const In*... in) {
  const typename Element::D d;
  const size_t step = hn::Lanes(d) * sizeof(hn::TFromD<typename Element::D>);
  size_t at = 0;
  for (; at + 2 * step <= bytes; at += 2 * step) {
    const auto low = Element::map(op, load(d, in + at)...);
    const auto high = Element::map(op, load(d, in + at + step)...);
    store(d, low, dst + at);
    store(d, high, dst + at + step);
  }
  for (size_t size; at < bytes; at += size) {
    size = HWY_MIN(step, bytes - at);
    store_some(d, Element::map(op, load_some(d, in + at, size)...), dst + at, size);
  }
}

// Describes a type: `Lanes` adds, multiplies and divides; `Ordered` compares; `Number` is the type
// of a scalar in Lanes. Integers divide in the type `Exact`. It holds every `Value`, and a quotient
// of two values is further from the next integer than its rounding error. Processors divide
// floating-point numbers faster than integers.
template <class LanesOf, class OrderedOf, typename NumberOf, typename ValueOf = void,
          typename ExactOf = void>
struct Kind {
  using Lanes = LanesOf;
  using Ordered = OrderedOf;
  using Number = NumberOf;
  using Value = ValueOf;
  using Exact = ExactOf;
};

template <typename Unsigned, typename T, typename Exact>
using Integer = Kind<Plain<Unsigned>, Plain<T>, Unsigned, T, Exact>;

template <class Task>
void run_for(DataType type, const Task& task) {
  switch (type) {
    case DataType::int8:
      return task.template run<Integer<uint8_t, int8_t, float>>();
    case DataType::uint8:
      return task.template run<Integer<uint8_t, uint8_t, float>>();
    case DataType::int32:
      return task.template run<Integer<uint32_t, int32_t, double>>();
    case DataType::uint32:
      return task.template run<Integer<uint32_t, uint32_t, double>>();
    case DataType::int64:
      return task.template run<Integer<uint64_t, int64_t, int64_t>>();
    case DataType::uint64:
      return task.template run<Integer<uint64_t, uint64_t, uint64_t>>();
    case DataType::float16:
      return task.template run<Kind<Float16, OrderedHalf<0x7c00>, float>>();
    case DataType::float32:
      return task.template run<Kind<Plain<float>, Plain<float>, float>>();
    case DataType::float64:
      return task.template run<Kind<Plain<double>, Plain<double>, double>>();
    case DataType::bfloat16:
      return task.template run<Kind<Bfloat16, OrderedHalf<0x7f80>, float>>();
  }
  R2CCL_CHECK(false);
}

struct Reduce {
  ReduceOp op;
  std::byte* dst;
  const std::byte* a;
  const std::byte* b;
  uint64_t bytes;

  template <class K>
  void run() const {
    using Words = Plain<uint64_t>;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
      case ReduceOp::premulsum:
        return transform<typename K::Lanes>(Sum{}, bytes, dst, a, b);
      case ReduceOp::prod:
        return transform<typename K::Lanes>(Product{}, bytes, dst, a, b);
      case ReduceOp::max:
        return transform<typename K::Ordered>(Max{}, bytes, dst, a, b);
      case ReduceOp::min:
        return transform<typename K::Ordered>(Min{}, bytes, dst, a, b);
      case ReduceOp::band:
        return transform<Words>(BitAnd{}, bytes, dst, a, b);
      case ReduceOp::bor:
        return transform<Words>(BitOr{}, bytes, dst, a, b);
      case ReduceOp::bxor:
        return transform<Words>(BitXor{}, bytes, dst, a, b);
    }
    R2CCL_CHECK(false);
  }
};

template <class Task>
void run_for_half(DataType type, const Task& task) {
  if (type == DataType::float16) return task.template run<Float16>();
  R2CCL_CHECK(type == DataType::bfloat16);
  task.template run<SingleBfloat16>();
}

template <class FormOf>
constexpr size_t kBytes = sizeof(hn::TFromD<typename FormOf::D>);

struct Accumulate {
  const Accumulation& how;
  std::byte* dst;
  const std::byte* own;
  const std::byte* received;
  uint64_t count;

  template <class Half>
  void run() const {
    how.own == Form::wide ? with_own<Half, WideForm>() : with_own<Half, Half>();
  }

 private:
  template <class Half, class Own>
  void with_own() const {
    how.result == Form::wide ? with_result<Half, Own, WideForm>() : with_result<Half, Own, Half>();
  }
  template <class Half, class Own, class Result>
  void with_result() const {
    if (how.op == ReduceOp::prod) return loop<Half, Own, Result>(Product{});
    if (how.op != ReduceOp::avg || how.divisor == 1) return loop<Half, Own, Result>(Sum{});
    loop<Half, Own, Result>(DividedSum{static_cast<float>(how.divisor)});
  }

  template <class Half, class Own, class Result, class Op>
  void loop(Op op) const {
    const Floats floats;
    const typename Half::D half_d;
    const typename Own::D own_d;
    const typename Result::D result_d;
    const size_t step = hn::Lanes(floats);
    uint64_t at = 0;
    for (; at + step <= count; at += step) {
      const auto a = Own::widen(load(own_d, own + at * kBytes<Own>));
      const auto b = Half::widen(load(half_d, received + at * kBytes<Half>));
      store(result_d, Result::narrow(op(floats, a, b)), dst + at * kBytes<Result>);
    }
    if (at == count) return;
    const auto left = static_cast<size_t>(count - at);
    const auto a = Own::widen(load_some(own_d, own + at * kBytes<Own>, left * kBytes<Own>));
    const auto b =
        Half::widen(load_some(half_d, received + at * kBytes<Half>, left * kBytes<Half>));
    store_some(result_d, Result::narrow(op(floats, a, b)), dst + at * kBytes<Result>,
               left * kBytes<Result>);
  }
};

struct Conversion {
  bool widens;
  std::byte* dst;
  const std::byte* src;
  uint64_t count;

  template <class Half>
  void run() const {
    widens ? loop<Half, WideForm>() : loop<WideForm, Half>();
  }

 private:
  template <class From, class To>
  void loop() const {
    const typename From::D from_d;
    const typename To::D to_d;
    const size_t step = hn::Lanes(Floats());
    uint64_t at = 0;
    for (; at + step <= count; at += step) {
      const auto value = From::widen(load(from_d, src + at * kBytes<From>));
      store(to_d, To::narrow(value), dst + at * kBytes<To>);
    }
    if (at == count) return;
    const auto left = static_cast<size_t>(count - at);
    const auto value = From::widen(load_some(from_d, src + at * kBytes<From>, left * kBytes<From>));
    store_some(to_d, To::narrow(value), dst + at * kBytes<To>, left * kBytes<To>);
  }
};

struct Division {
  std::byte* dst;
  uint64_t bytes;
  int32_t divisor;

  template <class K>
  void run() const {
    if constexpr (std::is_integral_v<typename K::Number>) {
      divide_integers<typename K::Value, typename K::Exact>();
    } else {
      using T = typename K::Number;
      transform<typename K::Lanes>(Divide<T>{static_cast<T>(divisor)}, bytes, dst, dst);
    }
  }

 private:
  // The compiler makes vectors of this loop where the processor divides vectors.
  template <typename T, typename Exact>
  void divide_integers() const {
    const Exact by = static_cast<Exact>(divisor);
    for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
      T value;
      std::memcpy(&value, dst + at, sizeof(T));
      value = static_cast<T>(static_cast<Exact>(value) / by);
      std::memcpy(dst + at, &value, sizeof(T));
    }
  }
};

struct Scaling {
  std::byte* dst;
  const std::byte* src;
  uint64_t bytes;
  Scalar scalar;  // as Number

  template <class K>
  void run() const {
    using T = typename K::Number;
    T factor;
    std::memcpy(&factor, scalar.data(), sizeof(T));
    transform<typename K::Lanes>(Scale<T>{factor}, bytes, dst, src);
  }
};

// Returns the scalar as the type in which Lanes computes: float32 for the 16-bit types.
Scalar as_number(DataType type, Scalar scalar) {
  if (type != DataType::float16 && type != DataType::bfloat16) return scalar;
  uint16_t half;
  std::memcpy(&half, scalar.data(), sizeof(half));
  const float value = type == DataType::float16 ? from_float16(half) : from_bfloat16(half);
  std::memcpy(scalar.data(), &value, sizeof(value));
  return scalar;
}

void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
            uint64_t count) {
  run_for(type, Reduce{op, dst, a, b, count * size_of(type)});
}

void accumulate(const Accumulation& how, std::byte* dst, const std::byte* own,
                const std::byte* received, uint64_t count) {
  run_for_half(how.type, Accumulate{how, dst, own, received, count});
}

void widen(DataType type, std::byte* dst, const std::byte* src, uint64_t count) {
  run_for_half(type, Conversion{true, dst, src, count});
}

void narrow(DataType type, std::byte* dst, const std::byte* src, uint64_t count) {
  run_for_half(type, Conversion{false, dst, src, count});
}

void divide(DataType type, std::byte* dst, uint64_t count, int32_t divisor) {
  run_for(type, Division{dst, count * size_of(type), divisor});
}

void scale(DataType type, std::byte* dst, const std::byte* src, uint64_t count,
           const Scalar& scalar) {
  run_for(type, Scaling{dst, src, count * size_of(type), as_number(type, scalar)});
}

}  // namespace

// A function, because an initialised constant could need instructions that the processor lacks.
ReduceKernels kernels();
ReduceKernels kernels() {
  return {hwy::TargetName(HWY_TARGET), reduce, accumulate, widen, narrow, divide, scale};
}

}  // namespace r2ccl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <vector>

namespace r2ccl {
namespace {

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
