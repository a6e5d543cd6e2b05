// Reads any bytes as the text of a drain request: the parser refuses it, or reads it and writes it
// again.
#include <span>
#include <string_view>

#include "base/check.h"
#include "protocol/admin/drain.h"
#include "runtime/admin/drain_desk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto question = r2ccl::decode_drain_question(bytes); question.ok()) {
    const auto again = r2ccl::decode_drain_question(r2ccl::encode(question.value()));
    R2CCL_CHECK(again.ok() && again.value() == question.value());
  }
  if (const auto answer = r2ccl::decode_drain_answer(bytes); answer.ok()) {
    const auto again = r2ccl::decode_drain_answer(
        r2ccl::encode_drain_answer(answer.value().number, answer.value().tally));
    R2CCL_CHECK(again.ok() && again.value().tally == answer.value().tally);
  }
  (void)r2ccl::parse_drain_request(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
