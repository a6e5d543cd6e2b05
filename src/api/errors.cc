#include "api/errors.h"

#include <cstdio>
#include <new>
#include <system_error>

#include "runtime/config/no_thread.h"

namespace r2ccl::api {
namespace {

constexpr bool same(Code code, r2cclResult_t result) {
  return static_cast<int>(code) == static_cast<int>(result);
}
static_assert(same(Code::ok, r2cclSuccess) && same(Code::system, r2cclSystemError) &&
              same(Code::internal, r2cclInternalError) &&
              same(Code::invalid_argument, r2cclInvalidArgument) &&
              same(Code::invalid_usage, r2cclInvalidUsage) &&
              same(Code::remote, r2cclRemoteError) && same(Code::in_progress, r2cclInProgress) &&
              same(Code::timeout, r2cclTimeout) && same(Code::aborted, r2cclAborted));

KeptError& last() noexcept {
  thread_local KeptError error;
  return error;
}

}  // namespace

void KeptError::set(Code error, std::string_view message) noexcept {
  code = error;
  rank_count = 0;
  const size_t length = std::min(message.size(), text.size() - 1);
  std::copy_n(message.begin(), length, text.begin());
  text[length] = '\0';
}

void KeptError::set(const Status& error) noexcept {
  set(error.code(), error.message());
  rank_count = error.ranks().size();
  for (size_t i = 0; i < std::min(rank_count, ranks.size()); ++i) {
    ranks[i] = error.ranks()[i].value();
  }
}

const KeptError& last_error() noexcept {
  return last();
}

r2cclResult_t result_of(const Status& status) noexcept {
  if (!status.ok()) last().set(status);
  return static_cast<r2cclResult_t>(status.code());
}

r2cclResult_t error(Code code, std::string_view message) noexcept {
  last().set(code, message);
  return static_cast<r2cclResult_t>(code);
}

r2cclResult_t error_of(const char* function, const std::exception& caught) noexcept {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&caught) != nullptr;
  const auto* refused = dynamic_cast<const std::system_error*>(&caught);
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "%s: %s%s", function,
                memory ? "out of memory" : caught.what(),
                refused != nullptr ? thread_advice(*refused) : "");
  return error(memory || refused != nullptr ? Code::system : Code::internal, text.data());
}

}  // namespace r2ccl::api
