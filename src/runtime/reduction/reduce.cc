#include "runtime/reduction/reduce.h"

#include <cfenv>

#include "base/check.h"
#include "runtime/reduction/reduce_kernels.h"

namespace r2ccl {
namespace {

const ReduceKernels& fastest() {
  static const ReduceKernels kernels = reduce_kernels().front();
  return kernels;
}

// Reductions run in the thread that drives, which may be a caller's: a thread that flushes denormal
// numbers, rounds otherwise or traps must get the same bits as any other.
class DefaultFloatMode {
 public:
  explicit DefaultFloatMode(bool needed) : needed_(needed) {
    if (!needed_) return;
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatMode() {
    if (needed_) std::fesetenv(&before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  const bool needed_;
  std::fenv_t before_;
};

}  // namespace

void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* a, const std::byte* b,
            uint64_t count) {
  R2CCL_CHECK(supports(type, op));
  const DefaultFloatMode mode(!is_integer(type));
  fastest().reduce(type, op, dst, a, b, count);
}

void accumulate(const Accumulation& how, std::byte* dst, const std::byte* own,
                const std::byte* received, uint64_t count) {
  R2CCL_CHECK(has_wide_form(how.type, how.op));
  R2CCL_CHECK(how.divisor == 1 || how.result == Form::half);
  const DefaultFloatMode mode(true);
  fastest().accumulate(how, dst, own, received, count);
}

void widen(DataType type, std::byte* dst, const std::byte* src, uint64_t count) {
  R2CCL_CHECK(is_half(type));
  const DefaultFloatMode mode(true);
  fastest().widen(type, dst, src, count);
}

void narrow(DataType type, std::byte* dst, const std::byte* src, uint64_t count) {
  R2CCL_CHECK(is_half(type));
  const DefaultFloatMode mode(true);
  fastest().narrow(type, dst, src, count);
}

void divide(DataType type, std::byte* dst, uint64_t count, int32_t divisor) {
  // Integers may be divided as floating-point numbers.
  const DefaultFloatMode mode(true);
  fastest().divide(type, dst, count, divisor);
}

void scale(DataType type, std::byte* dst, const std::byte* src, uint64_t count,
           const Scalar& scalar) {
  const DefaultFloatMode mode(!is_integer(type));
  fastest().scale(type, dst, src, count, scalar);
}

}  // namespace r2ccl
