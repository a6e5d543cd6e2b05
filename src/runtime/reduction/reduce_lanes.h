// The vectors of reductions: how they are loaded and stored, the operations on them, and the kinds
// of elements. reduce_kernels.cc includes this file once for each instruction set, so its guard is
// the one that Highway has for such files.
#if defined(R2CCL_RUNTIME_REDUCTION_REDUCE_LANES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef R2CCL_RUNTIME_REDUCTION_REDUCE_LANES_H_
#undef R2CCL_RUNTIME_REDUCTION_REDUCE_LANES_H_
#else
#define R2CCL_RUNTIME_REDUCTION_REDUCE_LANES_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace r2ccl::HWY_NAMESPACE {

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

// Copies fewer bytes than a vector has, so that nothing beyond them is touched.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const std::byte* from, size_t size) {
  std::byte all[hn::MaxLanes(d) * sizeof(hn::TFromD<D>)] = {};
  std::memcpy(all, from, size);
  return load(d, all);
}

template <class D>
HWY_INLINE void store_some(D d, hn::Vec<D> vector, std::byte* to, size_t size) {
  std::byte all[hn::MaxLanes(d) * sizeof(hn::TFromD<D>)];
  store(d, vector, all);
  std::memcpy(to, all, size);
}

// The operations. Each takes the descriptor of the lanes, and one or two vectors.

// Processors and compilers differ in the NaN that they make of two, so every NaN of a sum or a
// product becomes the same one.
template <class D, class V>
HWY_INLINE V with_one_nan(D d, V v) {
  const V nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

// Integers are added, and multiplied, as unsigned ones, which wrap.
struct Sum {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) {
      return hn::Add(a, b);
    } else {
      return with_one_nan(d, hn::Add(a, b));
    }
  }
};

struct Product {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    if constexpr (!std::is_integral_v<hn::TFromD<D>>) {
      return with_one_nan(d, hn::Mul(a, b));
    } else if constexpr (sizeof(hn::TFromD<D>) > 1) {
      return hn::Mul(a, b);
    } else {
      return bytes(d, a, b);
    }
  }

 private:
  // No processor multiplies bytes. The low byte of a product needs only the low bytes of its
  // factors, so each half of a 16-bit lane gives one product.
  template <class D, class V>
  static HWY_INLINE V bytes(D d, V a, V b) {
#if HWY_TARGET == HWY_SCALAR
    (void)d;
    return hn::Mul(a, b);
#else
    const hn::Repartition<uint16_t, D> wide;
    const auto low = hn::Mul(hn::BitCast(wide, a), hn::BitCast(wide, b));
    const auto high =
        hn::Mul(hn::ShiftRight<8>(hn::BitCast(wide, a)), hn::ShiftRight<8>(hn::BitCast(wide, b)));
    return hn::BitCast(d, hn::Or(hn::And(low, hn::Set(wide, 0xff)), hn::ShiftLeft<8>(high)));
#endif
  }
};

// Equal values differ at most in the sign of zero: And prefers +0, Or prefers -0.
struct Max {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
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
  HWY_INLINE V operator()(D, V a, V b) const {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) {
      return hn::Min(a, b);
    } else {
      const V unequal = hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
      return hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), unequal);
    }
  }
};

struct BitAnd {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Xor(a, b);
  }
};

template <typename T>
struct Scale {
  T factor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return Product{}(d, a, hn::Set(d, factor));
  }
};

template <typename T>
struct Divide {
  T divisor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return hn::Div(a, hn::Set(d, divisor));
  }
};

struct DividedSum {
  float divisor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return Divide<float>{divisor}(d, Sum{}(d, a, b));
  }
};

// The kinds of elements. Each has the descriptor `D` of the vectors that are loaded and stored, and
// map(), which applies an operation to such vectors.

template <typename T>
struct Plain {
  using D = hn::ScalableTag<T>;
  template <class Op, class... V>
  static HWY_INLINE auto map(Op op, V... v) {
    return op(D(), v...);
  }
};

using Floats = hn::ScalableTag<float>;

// Kinds whose elements are computed in float32, one vector of Floats at a time, also have widen()
// and narrow(), from and to a vector of `D`. This one is float32 itself.
struct WideForm {
  using D = Floats;
  static HWY_INLINE hn::Vec<D> widen(hn::Vec<Floats> value) { return value; }
  static HWY_INLINE hn::Vec<Floats> narrow(hn::Vec<Floats> value) { return value; }
};

// float16, half a vector at a time, computed in float32. The sum, product and quotient of two
// float16 are thereby rounded correctly, because float32 has more than twice the bits.
struct Float16 {
  using D = hn::Rebind<uint16_t, Floats>;
  template <class Op, class... V>
  static HWY_INLINE hn::Vec<D> map(Op op, V... v) {
    return narrow(op(Floats(), widen(v)...));
  }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // F16C has instructions for both, and narrow() rounds to nearest even.
  using Native = hn::Rebind<hwy::float16_t, Floats>;
  static HWY_INLINE hn::Vec<Floats> widen(hn::Vec<D> half) {
    return hn::PromoteTo(Floats(), hn::BitCast(Native(), half));
  }
  static HWY_INLINE hn::Vec<D> narrow(hn::Vec<Floats> value) {
    return hn::BitCast(D(), hn::DemoteTo(Native(), value));
  }
#else
  // Highway 1.0.3 truncates here, and knows neither infinity nor NaN.
  using Words = hn::RebindToSigned<Floats>;
  static HWY_INLINE hn::Vec<Words> words(int32_t value) {
    return hn::Set(Words(), value);
  }

  // Multiplying by 2^112 turns the exponent's bias of 15 into 127, also for subnormal numbers.
  static HWY_INLINE hn::Vec<Floats> widen(hn::Vec<D> half) {
    const Words d;
    const auto bits = hn::PromoteTo(d, half);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, words(0x8000)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, words(0x7fff)));
    const auto scaled = hn::Mul(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0x1p112f));
    const auto is_finite = hn::Lt(magnitude, words(0x7c00 << 13));
    const auto wide =
        hn::IfThenElse(is_finite, hn::BitCast(d, scaled), hn::Or(magnitude, words(0x7f800000)));
    return hn::BitCast(Floats(), hn::Or(wide, sign));
  }

  // As to_float16() in base/half.h. Adding 1/2 rounds a subnormal number: the last bit of the sum
  // is worth 2^-24.
  static HWY_INLINE hn::Vec<D> narrow(hn::Vec<Floats> value) {
    const Words d;
    const hn::RebindToUnsigned<Floats> logical;
    const auto bits = hn::BitCast(d, value);
    const auto magnitude = hn::And(bits, words(0x7fffffff));
    const auto sign = hn::BitCast(
        d, hn::And(hn::ShiftRight<16>(hn::BitCast(logical, value)), hn::Set(logical, 0x8000u)));
    const auto shifted = hn::ShiftRight<13>(magnitude);
    const auto odd = hn::And(shifted, words(1));
    const auto normal =
        hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, words(0xfff - (112 << 23)))));
    const auto aligned = hn::Add(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(d, aligned), words(126 << 23));
    const auto nan = hn::Or(hn::And(shifted, words(0x3ff)), words(0x7e00));
    const auto huge = hn::IfThenElse(hn::Gt(magnitude, words(0x7f800000)), nan, words(0x7c00));
    const auto finite = hn::IfThenElse(hn::Lt(magnitude, words(113 << 23)), subnormal, normal);
    const auto half = hn::IfThenElse(hn::Lt(magnitude, words(143 << 23)), finite, huge);
    return hn::DemoteTo(D(), hn::Or(half, sign));
  }
#endif
};

// bfloat16, computed in float32 and rounded to nearest even, by integers: Highway 1.0.3 truncates,
// and the processor's own instruction flushes subnormal numbers.
struct SingleBfloat16 {
  using D = hn::Rebind<uint16_t, Floats>;
  using Words = hn::RebindToUnsigned<Floats>;
  template <class Op, class... V>
  static HWY_INLINE hn::Vec<D> map(Op op, V... v) {
    return narrow(op(Floats(), widen(v)...));
  }
  static HWY_INLINE hn::Vec<Floats> widen(hn::Vec<D> half) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), half)));
  }
  static HWY_INLINE hn::Vec<D> narrow(hn::Vec<Floats> value) {
    const hn::RebindToSigned<Floats> narrowed;
    return hn::DemoteTo(D(), hn::BitCast(narrowed, hn::ShiftRight<16>(round(value))));
  }
  // A NaN stays one: its low bits are 0, for it is a bfloat16 or the quiet NaN, so nothing carries.
  static HWY_INLINE hn::Vec<Words> round(hn::Vec<Floats> value) {
    const Words d;
    const auto bits = hn::BitCast(d, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    return hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu)));
  }
};

#if HWY_TARGET == HWY_SCALAR
using Bfloat16 = SingleBfloat16;
#else
// bfloat16, a whole vector at a time: the even elements, and then the odd ones, which already are
// where a float32 has them.
struct Bfloat16 {
  using Words = SingleBfloat16::Words;
  using D = hn::ScalableTag<uint16_t>;
  template <class Op, class... V>
  static HWY_INLINE hn::Vec<D> map(Op op, V... v) {
    const auto even = SingleBfloat16::round(op(Floats(), widen_even(v)...));
    const auto odd = SingleBfloat16::round(op(Floats(), widen_odd(v)...));
    return hn::BitCast(D(), hn::Or(hn::ShiftRight<16>(even), upper(odd)));
  }
  static HWY_INLINE hn::Vec<Words> upper(hn::Vec<Words> words) {
    return hn::And(words, hn::Set(Words(), 0xffff0000u));
  }
  static HWY_INLINE hn::Vec<Floats> widen_even(hn::Vec<D> halves) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::BitCast(Words(), halves)));
  }
  static HWY_INLINE hn::Vec<Floats> widen_odd(hn::Vec<D> halves) {
    return hn::BitCast(Floats(), upper(hn::BitCast(Words(), halves)));
  }
};
#endif

// The order of 16-bit floating-point numbers whose infinity has the bits `kInfinity`. As integers
// that mirror the negative numbers they have the right order, -0 below +0.
template <int16_t kInfinity>
struct OrderedHalf {
  using D = hn::ScalableTag<int16_t>;
  using V = hn::Vec<D>;
  template <class Op>
  static HWY_INLINE V map(Op op, V a, V b) {
    const V chosen = mirror(op(D(), mirror(a), mirror(b)));
    return hn::IfThenElse(is_nan(a), a, hn::IfThenElse(is_nan(b), b, chosen));
  }

 private:
  static HWY_INLINE V mirror(V v) {
    return hn::Xor(v, hn::And(hn::ShiftRight<15>(v), hn::Set(D(), int16_t{0x7fff})));
  }
  static HWY_INLINE auto is_nan(V v) {
    return hn::Gt(hn::And(v, hn::Set(D(), int16_t{0x7fff})), hn::Set(D(), kInfinity));
  }
};

}  // namespace r2ccl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the guard
