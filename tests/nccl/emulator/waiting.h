// How the emulator's threads wait for memory that another thread or NCCL's proxy will change, and
// how they run beside each other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace r2ccl::emulated {

// Thrown when NCCL has asked its kernels to end, by the abort flag.
struct Aborted {};

// Polls with growing pauses: the machine has fewer cores than a GPU has threads.
class Waiting {
 public:
  explicit Waiting(const volatile uint32_t* abort_flag) : abort_flag_(abort_flag) {}
  // Throws Aborted.
  void pause();

 private:
  const volatile uint32_t* abort_flag_;
  int pauses_ = 0;
};

// Runs all tasks at the same time, and returns when they have ended. Throws Aborted if one did.
void run_together(const std::vector<std::function<void()>>& tasks);

}  // namespace r2ccl::emulated
