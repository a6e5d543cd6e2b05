// Prints how many GB/s of input each set of reduction kernels takes that this processor can run, and
// the ratio of the time to that of a memcpy of one input; in the last column, how many 10^9 elements
// the fastest set takes in a second. Each row is one type and operation on
// segments of 256 KB, as an executor reduces them: `cached` reuses one segment of staging and of
// the user's buffer, `streamed` walks through a buffer of 64 MB with one segment of staging. The
// least time of 15 rounds; the kernels take turns in each round. Arguments choose types.
//   cmake --build --preset release --target reduce_bench && build/reduce_bench float16 float32
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/reduction/reduce_kernels.h"

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
void compare(const std::string& name, DataType type, const std::vector<Segment>& subjects,
             std::span<std::byte> buffer) {
  std::vector<std::byte> staging(kSegment);
  std::vector<std::vector<double>> times(subjects.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      times[i].push_back(time_of(subjects[i], buffer, staging.data()));
    }
  }
  std::printf("%-28s", name.c_str());
  const double copy = least(times[0]);
  for (const std::vector<double>& of_subject : times) {
    const double ns = least(of_subject);
    std::printf(" %6.1f (%4.2f)", static_cast<double>(kBytesPerRound) / ns, ns / copy);
  }
  const auto elements = static_cast<double>(kBytesPerRound / size_of(type));
  std::printf(" %8.2f\n", elements / least(times[1]));
}

void compare_all(const char* place, const std::vector<DataType>& types,
                 std::span<std::byte> buffer) {
  const std::vector<Segment> memcpy_only{
      [](std::byte* user, std::byte* staging) { std::memcpy(user, staging, kSegment); }};
  for (const DataType type : types) {
    const uint64_t count = kSegment / size_of(type);
    const std::string name = std::string(place) + " " + to_string(type) + " ";
    std::vector<ReduceOp> ops{ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min};
    if (supports(type, ReduceOp::band)) ops.push_back(ReduceOp::band);
    for (const ReduceOp op : ops) {
      std::vector<Segment> subjects = memcpy_only;
      for (const ReduceKernels& kernels : reduce_kernels()) {
        subjects.push_back([=](std::byte* user, std::byte* staging) {
          kernels.reduce(type, op, user, user, staging, count);
        });
      }
      compare(name + to_string(op), type, subjects, buffer);
    }
    std::vector<Segment> divisions = memcpy_only, scalings = memcpy_only;
    for (const ReduceKernels& kernels : reduce_kernels()) {
      divisions.push_back(
          [=](std::byte* user, std::byte*) { kernels.divide(type, user, count, 3); });
      scalings.push_back([=](std::byte* user, std::byte* staging) {
        kernels.scale(type, user, staging, count, Scalar{std::byte{1}});
      });
    }
    compare(name + "divide", type, divisions, buffer);
    compare(name + "scale", type, scalings, buffer);
  }
}

std::vector<DataType> chosen_types(std::span<char*> names) {
  std::vector<DataType> types;
  for (const DataType type : kDataTypes) {
    const bool named = std::any_of(names.begin(), names.end(),
                                   [&](const char* name) { return name == std::string(to_string(type)); });
    if (named || names.empty()) types.push_back(type);
  }
  return types;
}

void run(const std::vector<DataType>& types) {
  std::printf("%-28s %13s", "GB/s (time / memcpy's)", "memcpy");
  for (const ReduceKernels& kernels : reduce_kernels()) std::printf(" %13s", kernels.target);
  std::printf(" %8s\n", "10^9/s");
  std::vector<std::byte> buffer(kBuffer, std::byte{1});
  compare_all("cached", types, std::span(buffer).first(kSegment));
  compare_all("streamed", types, buffer);
}

}  // namespace
}  // namespace r2ccl

int main(int argc, char** argv) {
  r2ccl::run(r2ccl::chosen_types(std::span(argv + 1, static_cast<size_t>(argc - 1))));
}
