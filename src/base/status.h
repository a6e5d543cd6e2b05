// Operating errors: the errors that a caller can act on. A fault of the network is not an error but
// an event into a state machine, and a bug is a CHECK. So a Status only says that the library could
// not provide something that the caller asked for, and why. Its words name the thing to change.
//
// Its text is shared: a copy needs no memory, so an error reaches its caller from any place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace r2ccl {

// The values equal those of r2cclResult_t, so the C edge is a cast. They are NCCL's where NCCL has
// the code, and start at 1000 where it has not.
enum class Code {
  ok = 0,
  system = 2,            // the operating system refused: sockets, memory, files
  internal = 3,          // r2ccl caught a bug of its own before it did harm
  invalid_argument = 4,  // a value that is wrong in every state
  invalid_usage = 5,     // a call that does not fit the state, or does not match the other ranks
  remote = 6,            // another rank failed, left or cannot be reached
  in_progress = 7,       // not finished yet
  timeout = 8,           // a bound that the caller set has passed
  aborted = 1000,        // the caller aborted
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : Status(code, std::move(message), {}) {}

  static Status ok_status() { return {}; }
  // Returns the error that needs no memory, for a place that has none for a text. `code` is that of
  // the error whose text is lost.
  static Status out_of_memory(Code code = Code::system) noexcept;
  // Returns the error with this text, or without it when there is no memory for it.
  static Status in_any_case(Code code, const char* text) noexcept;

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return words().message; }
  // Returns the ranks at fault, those that the error is known to name.
  const std::vector<Rank>& ranks() const { return words().ranks; }

  // Returns the same error with context of a higher layer: "context: message".
  Status with_context(const std::string& context) const {
    return ok() ? *this : with_message(context + ": " + message());
  }
  // Returns the same error in other words.
  Status with_message(std::string message) const {
    return Status(code_, std::move(message), ranks());
  }
  Status with_ranks(std::vector<Rank> ranks) const {
    return Status(code_, message(), std::move(ranks));
  }

  friend bool operator==(const Status& a, const Status& b) {
    return a.code_ == b.code_ && a.words() == b.words();
  }

 private:
  struct Words {
    std::string message;
    std::vector<Rank> ranks;
    friend bool operator==(const Words&, const Words&) = default;
  };
  Status(Code code, std::string message, std::vector<Rank> ranks)
      : code_(code),
        words_(std::make_shared<const Words>(Words{std::move(message), std::move(ranks)})) {}
  const Words& words() const { return words_ == nullptr ? no_words() : *words_; }
  static const Words& no_words() noexcept;

  Code code_ = Code::ok;
  std::shared_ptr<const Words> words_;  // null: none
};

// Returns "what: strerror(error)" with Code::system.
Status system_error(const std::string& what, int error);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by intent
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by intent
    R2CCL_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    R2CCL_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    R2CCL_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    R2CCL_CHECK(ok());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace r2ccl

// Returns an error to the caller of the enclosing function.
#define R2CCL_RETURN_IF_ERROR(expression)                        \
  do {                                                           \
    if (::r2ccl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                            \
    }                                                            \
  } while (0)
