#include <string>
#include <string_view>

#include "base/check.h"
#include "base/printable.h"
#include "runtime/bootstrap/process_handle.h"
#include "testing/fuzz.h"

namespace r2ccl {

bool fuzz_process_handle(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const auto key = key_of_handle(text);
  const std::string_view list[] = {text, text};
  const auto found = find_own_handle(list);
  R2CCL_CHECK(!found.ok() && found.status().code() == Code::invalid_argument);
  R2CCL_CHECK(is_printable(found.status().message()));
  R2CCL_CHECK(!key || text.size() <= kProcessHandleMax);
  return key.has_value();
}

}  // namespace r2ccl
