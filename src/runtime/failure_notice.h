// The notice by which a rank tells another that its communicator has failed, and why.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"

namespace r2ccl {

inline constexpr size_t kFailureTextBytesMax = 2000;

struct Failure {
  // A call that does not match is every rank's error, so its code goes with it; of everything else
  // the receiver learns that a remote rank failed.
  Status why;
  bool departed = false;  // a rank left while another waited for it
  friend bool operator==(const Failure&, const Failure&) = default;
};

// The body of a notice of kind `failure` or `job_failure`.
std::vector<std::byte> encode(const Failure& failure);
// The ranks may be any numbers.
Failure decode_failure(std::span<const std::byte> body);

}  // namespace r2ccl
