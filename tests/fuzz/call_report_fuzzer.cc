#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "runtime/collective/call_audit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto report = r2ccl::decode_call_report(std::as_bytes(std::span(data, size)));
  if (!report.ok()) return 0;
  const auto again = r2ccl::decode_call_report(r2ccl::encode(report.value()));
  R2CCL_CHECK(again.ok() && again.value() == report.value());
  return 0;
}
