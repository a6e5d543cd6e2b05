#include "waiting.h"

#include <emmintrin.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace r2ccl::emulated {

void Waiting::pause() {
  constexpr int kSpins = 200, kYields = 200;
  constexpr std::chrono::microseconds kSleep{20};
  ++pauses_;
  if (pauses_ <= kSpins) {
    _mm_pause();
  } else if (pauses_ <= kSpins + kYields) {
    std::this_thread::yield();
  } else {
    if (abort_flag_ != nullptr && *abort_flag_ != 0) throw Aborted{};
    std::this_thread::sleep_for(kSleep);
  }
}

void run_together(const std::vector<std::function<void()>>& tasks) {
  std::atomic<bool> aborted{false};  // read after the threads have ended
  const auto run = [&aborted](const std::function<void()>& task) {
    try {
      task();
    } catch (const Aborted&) {
      aborted = true;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < tasks.size(); ++i) threads.emplace_back(run, std::cref(tasks[i]));
  if (!tasks.empty()) run(tasks[0]);
  for (std::thread& thread : threads) thread.join();
  if (aborted) throw Aborted{};
}

}  // namespace r2ccl::emulated
