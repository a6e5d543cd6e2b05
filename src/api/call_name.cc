#include "api/call_name.h"

#include <algorithm>
#include <array>

#include "base/printable.h"

namespace r2ccl {
namespace {

// A name in memory of its own and without a destructor: the C library ends the process when it has
// no memory to note one for a thread.
thread_local std::array<char, kNameBytesMax + 1> next_name{};  // ends with a NUL

}  // namespace

void set_call_name(const std::string& name) {
  const std::string printable = printable_text(name, kNameBytesMax);
  std::copy_n(printable.c_str(), printable.size() + 1, next_name.begin());
}

std::string take_call_name() {
  std::string name = next_name.data();
  drop_call_name();
  return name;
}

void drop_call_name() noexcept {
  next_name[0] = '\0';
}

}  // namespace r2ccl
