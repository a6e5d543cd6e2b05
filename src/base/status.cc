#include "base/status.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace r2ccl {
namespace {

// A value that is never destroyed, because errors with static storage may refer to it, and that
// takes no memory of the heap.
template <typename T>
union Lasting {
  template <typename... Args>
  explicit Lasting(Args&&... args) : value{std::forward<Args>(args)...} {}
  ~Lasting() {}  // NOLINT(modernize-use-equals-default): `= default` would be deleted
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;
  const T value;
};

}  // namespace

const Status::Words& Status::no_words() noexcept {
  static const Lasting<Words> none;
  return none.value;
}

Status Status::out_of_memory(Code code) noexcept {
  // At most 15 bytes, which std::string keeps inside itself.
  static const Lasting<Words> words(std::string("out of memory"), std::vector<Rank>());
  Status status;
  status.code_ = code;
  status.words_ = std::shared_ptr<const Words>(std::shared_ptr<void>(), &words.value);
  return status;
}

Status Status::in_any_case(Code code, const char* text) noexcept {
  try {
    return Status(code, text);
  } catch (const std::bad_alloc&) {
    return out_of_memory(code);
  }
}

Status system_error(const std::string& what, int error) {
  char buffer[128];
  // This is the GNU form of strerror_r: thread-safe, returns the text.
  std::string text = what + ": " + strerror_r(error, buffer, sizeof buffer);
  if (error == EMFILE) text += " (raise the limit: ulimit -n)";
  return {Code::system, std::move(text)};
}

}  // namespace r2ccl
