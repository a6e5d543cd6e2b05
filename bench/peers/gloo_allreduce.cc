// AllReduce of float32 sums over Gloo, striped by hand: one context with its own thread per NIC,
// each reducing its share of the buffer. Timed as `r2ccl bench` times it.
//
// usage: RANK=r WORLD_SIZE=p gloo_allreduce DIRECTORY NIC,NIC,... BYTES:WARMUP:ITERATIONS...
// prints "BYTES WRONG microseconds..." per size. DIRECTORY: empty, seen by all ranks.
//
// With BYTES:for:SECONDS rank 0 prints one line for each operation as it ends: its start and its
// end, in seconds of the monotonic clock.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

double monotonic_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

// Runs one piece of work on every stripe's thread and waits for all.
class Stripes {
 public:
  explicit Stripes(size_t count) {
    for (size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~Stripes() {
    run(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }
  void run(std::function<void(size_t)> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    left_ = threads_.size();
    ++round_;
    changed_.notify_all();
    if (work_) done_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  void serve(size_t stripe) {
    for (size_t round = 1;; ++round) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return round_ >= round; });
      if (!work_) return;
      auto work = work_;
      lock.unlock();
      work(stripe);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_, done_;
  std::function<void(size_t)> work_;
  size_t left_ = 0, round_ = 0;
};

template <typename T>
void all_reduce(const Context& context, T* in, T* out, size_t count,
                void (*reduce)(void*, const void*, const void*, size_t)) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction(reduce);
  gloo::allreduce(options);
}

class Job {
 public:
  Job(int rank, int ranks, std::vector<Context> contexts)
      : rank_(rank), ranks_(ranks), contexts_(std::move(contexts)), stripes_(contexts_.size()) {}

  void measure(size_t bytes, int warmup, int iterations) {
    in_.assign(bytes / sizeof(float), 1);
    out_.assign(in_.size(), 0);
    double wrong = static_cast<double>(count_wrong());
    for (int i = 0; i < warmup; ++i) reduce();
    gloo::BarrierOptions barrier(contexts_[0]);
    gloo::barrier(barrier);
    std::vector<double> starts, ends;
    for (int i = 0; i < iterations; ++i) {
      starts.push_back(monotonic_us());
      reduce();
      ends.push_back(monotonic_us());
    }
    for (std::vector<double>* times : {&starts, &ends}) {
      all_reduce(contexts_[0], times->data(), times->data(), times->size(), &gloo::max<double>);
    }
    all_reduce(contexts_[0], &wrong, &wrong, 1, &gloo::sum<double>);
    if (rank_ != 0) return;
    std::printf("%zu %.0f", bytes, wrong);
    for (int i = 0; i < iterations; ++i) std::printf(" %.1f", ends[i] - starts[i]);
    std::printf("\n");
    std::fflush(stdout);
  }

  void run_for(size_t bytes, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto text_of = [](Clock::time_point time) {
      return std::chrono::duration<double>(time.time_since_epoch()).count();
    };
    in_.assign(bytes / sizeof(float), 1);
    out_.assign(in_.size(), 0);
    gloo::BarrierOptions barrier(contexts_[0]);
    gloo::barrier(barrier);
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    // All ranks must make the same operations, so only rank 0 reads its clock.
    for (float go = 1; go > 0;) {
      const auto start = Clock::now();
      reduce();
      if (rank_ == 0) {
        std::printf("%.6f %.6f\n", text_of(start), text_of(Clock::now()));
        std::fflush(stdout);
      }
      go = rank_ == 0 && Clock::now() >= end ? 0.0f : 1.0f;
      all_reduce(contexts_[0], &go, &go, 1, &gloo::min<float>);
    }
  }

 private:
  void reduce() {
    stripes_.run([this](size_t stripe) {
      size_t begin = in_.size() * stripe / contexts_.size();
      size_t end = in_.size() * (stripe + 1) / contexts_.size();
      all_reduce(contexts_[stripe], in_.data() + begin, out_.data() + begin, end - begin,
                 &gloo::sum<float>);
    });
  }

  size_t count_wrong() {
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = static_cast<float>(rank_ + int(i % 1000));
    reduce();
    size_t wrong = 0;
    for (size_t i = 0; i < out_.size(); ++i) {
      wrong += out_[i] != static_cast<float>(ranks_ * (ranks_ - 1) / 2 + ranks_ * int(i % 1000));
    }
    return wrong;
  }

  int rank_, ranks_;
  std::vector<Context> contexts_;
  Stripes stripes_;
  std::vector<float> in_, out_;
};

Context connect(int rank, int ranks, const std::string& directory, const std::string& nic) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = nic;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore files(directory);
  gloo::rendezvous::PrefixStore store(nic, files);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return context;
}

int number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : -1;
}

}  // namespace

int main(int argc, char** argv) {
  int rank = number_from("RANK"), ranks = number_from("WORLD_SIZE");
  if (argc < 4 || rank < 0 || ranks < 1) return 2;
  std::vector<Context> contexts;
  std::istringstream nics(argv[2]);
  for (std::string nic; std::getline(nics, nic, ',');) {
    contexts.push_back(connect(rank, ranks, argv[1], nic));
  }
  Job job(rank, ranks, std::move(contexts));
  for (int i = 3; i < argc; ++i) {
    size_t bytes = 0;
    int warmup = 0, iterations = 0;
    double seconds = 0;
    if (std::sscanf(argv[i], "%zu:for:%lf", &bytes, &seconds) == 2) {
      job.run_for(bytes, seconds);
      continue;
    }
    if (std::sscanf(argv[i], "%zu:%d:%d", &bytes, &warmup, &iterations) != 3) return 2;
    job.measure(bytes, warmup, iterations);
  }
  return 0;
}
