// Prints how many GB/s of input each set of reduction kernels takes that this processor can run,
// and the ratio of the time to that of a memcpy of one input. Each row is one type and operation on
// segments of 256 KB, as an executor reduces them: `cached` reuses one segment of staging and of
// the user's buffer, `streamed` walks through a buffer of 64 MB with one segment of staging. The
// median of 15 rounds; the kernels take turns in each round.
//   cmake --build --preset release --target reduce_bench && build/reduce_bench
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "runtime/collective/reduce_kernels.h"

namespace r2ccl {
namespace {

constexpr size_t kSegment = size_t{256} << 10;
constexpr size_t kBuffer = size_t{64} << 20;
constexpr size_t kBytesPerRound = size_t{64} << 20;
constexpr int kRounds = 15;

using Segment = std::function<void(std::byte* user, std::byte* staging)>;

// Returns the time in ns that `segment` takes for kBytesPerRound.
double time_of(const Segment& segment, std::span<std::byte> buffer, std::byte* staging) {
  SystemClock clock;
  const int64_t start = clock.now();
  for (size_t done = 0; done < kBytesPerRound; done += kSegment) {
    segment(buffer.data() + done % buffer.size(), staging);
  }
  return static_cast<double>(clock.now() - start);
}

double least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

// Prints one row: the rate of memcpy, then of each set of kernels.
void compare(const char* name, const std::vector<Segment>& subjects, std::span<std::byte> buffer) {
  std::vector<std::byte> staging(kSegment);
  std::vector<std::vector<double>> times(subjects.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      times[i].push_back(time_of(subjects[i], buffer, staging.data()));
    }
  }
  std::printf("%-28s", name);
  const double copy = least(times[0]);
  for (const std::vector<double>& of_subject : times) {
    const double ns = least(of_subject);
    std::printf(" %6.1f (%4.2f)", static_cast<double>(kBytesPerRound) / ns, ns / copy);
  }
  std::printf("\n");
}

const std::vector<DataType> kTypes{DataType::int32, DataType::int64, DataType::float32,
                                   DataType::float64};

void compare_all(const char* place, std::span<std::byte> buffer) {
  for (const DataType type : kTypes) {
    const uint64_t count = kSegment / size_of(type);
    std::vector<Segment> divisions{
        [](std::byte* user, std::byte* staging) { std::memcpy(user, staging, kSegment); }};
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      std::vector<Segment> subjects(divisions.begin(), divisions.begin() + 1);
      for (const ReduceKernels& kernels : reduce_kernels()) {
        subjects.push_back([=](std::byte* user, std::byte* staging) {
          kernels.reduce(type, op, user, user, staging, count);
        });
      }
      char name[64];
      std::snprintf(name, sizeof(name), "%s %s %s", place, to_string(type), to_string(op));
      compare(name, subjects, buffer);
    }
    for (const ReduceKernels& kernels : reduce_kernels()) {
      divisions.push_back(
          [=](std::byte* user, std::byte*) { kernels.divide(type, user, count, 3); });
    }
    char name[64];
    std::snprintf(name, sizeof(name), "%s %s divide", place, to_string(type));
    compare(name, divisions, buffer);
  }
}

void run() {
  std::printf("%-28s %13s", "GB/s (time / memcpy's)", "memcpy");
  for (const ReduceKernels& kernels : reduce_kernels()) std::printf(" %13s", kernels.target);
  std::printf("\n");
  std::vector<std::byte> buffer(kBuffer, std::byte{1});
  compare_all("cached", std::span(buffer).first(kSegment));
  compare_all("streamed", buffer);
}

}  // namespace
}  // namespace r2ccl

int main() {
  r2ccl::run();
}
