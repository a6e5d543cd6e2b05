#include "reduction.h"

#include <cstring>
#include <type_traits>

#include "base/half.h"
#include "report.h"

namespace r2ccl::emulated {
namespace {

// The two 16-bit types, computed as float and rounded after each operation.
struct Float16 {
  uint16_t bits;
  explicit operator float() const { return from_float16(bits); }
  static Float16 rounded(float value) { return {to_float16(value)}; }
};
struct Bfloat16 {
  uint16_t bits;
  explicit operator float() const { return from_bfloat16(bits); }
  static Bfloat16 rounded(float value) { return {to_bfloat16(value)}; }
};

template <typename T, typename Function>
void for_each_pair(char* target, const char* a, const char* b, int64_t count, Function function) {
  auto* out = reinterpret_cast<T*>(target);
  const auto* left = reinterpret_cast<const T*>(a);
  const auto* right = reinterpret_cast<const T*>(b);
  for (int64_t i = 0; i < count; ++i) out[i] = function(left[i], right[i]);
}

// NCCL finds the greatest or the least of integers as the least of unsigned numbers: the mask,
// which it XORs into both, turns the order around and corrects it for signed types.
template <typename T>
void combine_integers(Operator op, uint64_t argument, char* target, const char* a, const char* b,
                      int64_t count) {
  const T mask = static_cast<T>(argument);
  switch (op) {
    case Operator::kProduct:
      return for_each_pair<T>(target, a, b, count, [](T x, T y) { return static_cast<T>(x * y); });
    case Operator::kMinMax:
      return for_each_pair<T>(target, a, b, count, [mask](T x, T y) {
        return static_cast<T>(x ^ mask) < static_cast<T>(y ^ mask) ? x : y;
      });
    case Operator::kSum:
    case Operator::kPreMulSum:
    case Operator::kSumPostDiv:
      return for_each_pair<T>(target, a, b, count, [](T x, T y) { return static_cast<T>(x + y); });
  }
}

// `Wide` is the type that computes: T itself, or float for the 16-bit types. For floats the lowest
// bit of the argument asks for the greatest.
template <typename T, typename Wide = T>
void combine_floats(Operator op, uint64_t argument, char* target, const char* a, const char* b,
                    int64_t count) {
  const auto narrow = [](Wide value) {
    if constexpr (std::is_same_v<T, Wide>) {
      return value;
    } else {
      return T::rounded(value);
    }
  };
  const bool greatest = (argument & 1) != 0;
  switch (op) {
    case Operator::kProduct:
      return for_each_pair<T>(target, a, b, count, [narrow](T x, T y) {
        return narrow(static_cast<Wide>(x) * static_cast<Wide>(y));
      });
    case Operator::kMinMax:
      return for_each_pair<T>(target, a, b, count, [greatest](T x, T y) {
        return (static_cast<Wide>(x) > static_cast<Wide>(y)) == greatest ? x : y;
      });
    case Operator::kSum:
    case Operator::kPreMulSum:
    case Operator::kSumPostDiv:
      return for_each_pair<T>(target, a, b, count, [narrow](T x, T y) {
        return narrow(static_cast<Wide>(x) + static_cast<Wide>(y));
      });
  }
}

template <typename T, typename Wide = T>
void multiply(uint64_t factor_bits, char* elements, int64_t count) {
  T factor;
  std::memcpy(&factor, &factor_bits, sizeof factor);
  auto* each = reinterpret_cast<T*>(elements);
  for (int64_t i = 0; i < count; ++i) {
    const Wide product = static_cast<Wide>(each[i]) * static_cast<Wide>(factor);
    if constexpr (std::is_same_v<T, Wide>) {
      each[i] = product;
    } else {
      each[i] = T::rounded(product);
    }
  }
}

// The lowest bit of the argument says that the type is signed.
template <typename Unsigned>
void divide(uint64_t argument, char* elements, int64_t count) {
  using Signed = std::make_signed_t<Unsigned>;
  const uint64_t divisor = argument >> 1;
  auto* each = reinterpret_cast<Unsigned*>(elements);
  for (int64_t i = 0; i < count; ++i) {
    if ((argument & 1) != 0) {
      each[i] = static_cast<Unsigned>(static_cast<Signed>(each[i]) / static_cast<Signed>(divisor));
    } else {
      each[i] = static_cast<Unsigned>(each[i] / static_cast<Unsigned>(divisor));
    }
  }
}

}  // namespace

size_t element_bytes(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  unsupported("this data type");
}

void Reduction::combine(char* target, const char* a, const char* b, int64_t count) const {
  switch (type_) {
    case DataType::kInt8:
    case DataType::kUint8:
      return combine_integers<uint8_t>(op_, argument_, target, a, b, count);
    case DataType::kInt32:
    case DataType::kUint32:
      return combine_integers<uint32_t>(op_, argument_, target, a, b, count);
    case DataType::kInt64:
    case DataType::kUint64:
      return combine_integers<uint64_t>(op_, argument_, target, a, b, count);
    case DataType::kFloat16:
      return combine_floats<Float16, float>(op_, argument_, target, a, b, count);
    case DataType::kBfloat16:
      return combine_floats<Bfloat16, float>(op_, argument_, target, a, b, count);
    case DataType::kFloat32:
      return combine_floats<float>(op_, argument_, target, a, b, count);
    case DataType::kFloat64:
      return combine_floats<double>(op_, argument_, target, a, b, count);
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      unsupported("a reduction of 8-bit floating-point numbers");
  }
}

void Reduction::prepare(char* elements, int64_t count) const {
  if (!prepares()) return;
  switch (type_) {
    case DataType::kFloat16:
      return multiply<Float16, float>(argument_, elements, count);
    case DataType::kBfloat16:
      return multiply<Bfloat16, float>(argument_, elements, count);
    case DataType::kFloat32:
      return multiply<float>(argument_, elements, count);
    case DataType::kFloat64:
      return multiply<double>(argument_, elements, count);
    default:
      unsupported("a pre-multiplied sum of this type");
  }
}

void Reduction::finish(char* elements, int64_t count) const {
  if (op_ != Operator::kSumPostDiv) return;
  switch (element_bytes(type_)) {
    case 1:
      return divide<uint8_t>(argument_, elements, count);
    case 4:
      return divide<uint32_t>(argument_, elements, count);
    default:
      return divide<uint64_t>(argument_, elements, count);
  }
}

}  // namespace r2ccl::emulated
