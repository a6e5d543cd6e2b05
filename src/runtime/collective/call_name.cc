#include "runtime/collective/call_name.h"

#include <utility>

#include "base/printable.h"

namespace r2ccl {
namespace {

std::string& next_name() {
  thread_local std::string name;
  return name;
}

}  // namespace

void set_call_name(const std::string& name) {
  next_name() = printable_text(name, kNameBytesMax);
}

std::string take_call_name() {
  return std::exchange(next_name(), std::string());
}

}  // namespace r2ccl
