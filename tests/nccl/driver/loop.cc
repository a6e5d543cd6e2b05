// AllReduce again and again, each element checked: the load for faults and benchmarks. Several
// communicators reduce at the same time. Prints one line of JSON, and writes the times of all
// operations into a file of the job's folder.
#include <algorithm>
#include <fstream>
#include <memory>

#include "base/json_writer.h"
#include "job.h"

namespace driver {
namespace {

using nccl::DataType;
using nccl::functions;
using nccl::RedOp;

constexpr size_t kStallsShown = 100;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

struct Timing {
  Clock::time_point begin;
  double latency_s = 0;
};

// Returns the value below which a share of the sorted latencies is.
double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(last * share + 0.5)];
}

// One communicator's part of an operation.
class Part {
 public:
  Part(const Job& job, int number, size_t count)
      : job_(job), comm_(job, number), input_(count), output_(count), count_(count) {}

  // `last`: this rank's last element.
  void prepare(uint32_t round, uint32_t last) {
    for (size_t i = 0; i + 1 < count_; ++i) input_[i] = value(job_.rank, i, round);
    input_[count_ - 1] = last;
    std::fill_n(output_.data(), count_, 0xa5a5a5a5u);
  }
  void start() {
    check(functions().all_reduce(input_.data(), output_.data(), count_, DataType::kUint32,
                                 RedOp::kSum, comm_.handle(), stream_.handle()),
          "ncclAllReduce");
  }
  void wait() { comm_.wait(stream_, job_.patience); }
  size_t wrong(uint32_t round) {
    size_t wrong = 0;
    for (size_t i = 0; i + 1 < count_; ++i) {
      wrong += output_[i] != sum_of_values(job_.ranks, i, round);
    }
    return wrong;
  }
  uint32_t last() { return output_[count_ - 1]; }
  void destroy() { comm_.destroy(); }

 private:
  const Job& job_;
  Communicator comm_;
  Stream stream_;
  DeviceArray<uint32_t> input_;
  DeviceArray<uint32_t> output_;
  const size_t count_;
};

class Loop {
 public:
  explicit Loop(const Job& job)
      : job_(job), count_(std::max<size_t>(job.bytes / sizeof(uint32_t), 1)) {
    for (int number = 0; number < job.communicators; ++number) {
      parts_.push_back(std::make_unique<Part>(job, number, count_));
    }
    began_ = Clock::now();
  }

  void run() {
    while (!stops_) run_once();
  }
  void destroy() {
    for (const auto& part : parts_) part->destroy();
  }

  size_t wrong() const { return wrong_; }
  std::string json() const;
  // Writes a line for each operation: its begin on the monotonic clock and its duration, in s.
  // Python's time.monotonic() reads the same clock.
  void write_times(const std::string& path) const {
    std::ofstream file(path);
    file.precision(9);
    for (const Timing& timing : timings_) {
      file << std::fixed << std::chrono::duration<double>(timing.begin.time_since_epoch()).count()
           << ' ' << timing.latency_s << '\n';
    }
  }

 private:
  // The last element tells when to stop, because the ranks' clocks would not agree: rank 0 puts 1
  // in it, the others 0.
  void run_once() {
    const auto round = static_cast<uint32_t>(timings_.size() * parts_.size());
    const uint32_t last = job_.rank == 0 && is_over() ? 1 : 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->prepare(round + static_cast<uint32_t>(i), last);
    }
    const auto begin = Clock::now();
    for (const auto& part : parts_) part->start();
    for (const auto& part : parts_) part->wait();
    timings_.push_back({begin, seconds_between(begin, Clock::now())});
    for (size_t i = 0; i < parts_.size(); ++i) {
      wrong_ += parts_[i]->wrong(round + static_cast<uint32_t>(i));
      wrong_ += parts_[i]->last() > 1;
    }
    stops_ = parts_.front()->last() != 0;
  }

  bool is_over() const {
    const bool by_count =
        job_.iterations != 0 && timings_.size() + 1 >= static_cast<size_t>(job_.iterations);
    return by_count || (job_.seconds > 0 && seconds_between(began_, Clock::now()) >= job_.seconds);
  }

  const Job& job_;
  const size_t count_;
  std::vector<std::unique_ptr<Part>> parts_;
  Clock::time_point began_;
  std::vector<Timing> timings_;
  size_t wrong_ = 0;
  bool stops_ = false;
};

std::string Loop::json() const {
  std::vector<double> sorted;
  double total = 0;
  for (const Timing& timing : timings_) {
    sorted.push_back(timing.latency_s);
    total += timing.latency_s;
  }
  std::sort(sorted.begin(), sorted.end());
  const double stall_s = job_.stall_ms / 1e3;
  const auto stalls = sorted.end() - std::lower_bound(sorted.begin(), sorted.end(), stall_s);
  const double bytes =
      static_cast<double>(count_ * sizeof(uint32_t) * timings_.size() * parts_.size());
  r2ccl::JsonWriter json;
  json.begin_object()
      .field("test", "loop")
      .field("rank", job_.rank)
      .field("ranks", job_.ranks)
      .field("bytes", static_cast<uint64_t>(count_ * sizeof(uint32_t)))
      .field("iterations", static_cast<uint64_t>(timings_.size()))
      .field("wrong_elements", static_cast<uint64_t>(wrong_))
      .field("seconds", seconds_between(began_, Clock::now()))
      .field("median_us", percentile(sorted, 0.5) * 1e6)
      .field("p99_us", percentile(sorted, 0.99) * 1e6)
      .field("max_us", percentile(sorted, 1) * 1e6)
      .field("algbw_mb_s", total > 0 ? bytes / total / 1e6 : 0.0)
      .field("stalls", static_cast<uint64_t>(stalls));
  // The longest operations, with the time since the loop's begin.
  json.key("stalled").begin_array();
  size_t shown = 0;
  for (const Timing& timing : timings_) {
    if (timing.latency_s < stall_s || ++shown > kStallsShown) continue;
    json.begin_object()
        .field("at_s", seconds_between(began_, timing.begin))
        .field("ms", timing.latency_s * 1e3)
        .end_object();
  }
  json.end_array();
  // Python's time.monotonic() reads the same clock, so a fault's time can be compared with these.
  json.field("began_ns",
             static_cast<uint64_t>(began_.time_since_epoch() / std::chrono::nanoseconds(1)));
  json.end_object();
  return json.text();
}

}  // namespace

void test_loop(const Job& job, Checks& checks) {
  if (job.seconds <= 0 && job.iterations == 0)
    throw Broken("a loop needs --seconds or --iterations");
  Loop loop(job);
  std::printf("rank %d: the loop begins\n", job.rank);
  std::fflush(stdout);
  loop.run();
  checks.expect(loop.wrong() == 0, std::to_string(loop.wrong()) + " elements are wrong");
  std::printf("%s\n", loop.json().c_str());
  loop.write_times(job.folder + "/times" + std::to_string(job.rank));
  loop.destroy();
}

}  // namespace driver
