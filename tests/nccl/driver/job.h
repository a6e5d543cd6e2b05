// One rank of a job: its communicators, its memory, and the checks of its results.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "nccl.h"

namespace driver {

using Clock = std::chrono::steady_clock;

// The command line.
struct Job {
  int rank = 0;
  int ranks = 1;
  std::string folder;  // holds the files by which the ranks find each other
  std::chrono::seconds patience{30};
  size_t bytes = 1 << 20;
  size_t largest_count = 1 << 20;
  int cycles = 3;
  double seconds = 0;  // a loop's limit; 0 for none
  int iterations = 0;  // likewise
  double stall_ms = 100;
  int communicators = 1;  // of a loop
};

// Throws Broken unless the call has succeeded.
void check(nccl::Result result, const std::string& what);
std::string text_of(nccl::Result result);

// Returns an element of a rank in a round. The values differ in all bits.
uint32_t value(int rank, size_t element, uint32_t round);
// Returns the sum over ranks 0 to `ranks` - 1, modulo 2^32.
uint32_t sum_of_values(int ranks, size_t element, uint32_t round);

class Stream {
 public:
  Stream() { cudaStreamCreate(&handle_); }
  ~Stream() { cudaStreamDestroy(handle_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  nccl::Stream handle() const { return handle_; }
  bool is_idle() const { return cudaStreamQuery(handle_) == 0; }
  void wait() const { cudaStreamSynchronize(handle_); }

 private:
  nccl::Stream handle_ = nullptr;
};

// Device memory, which the process can read and write itself.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, count * sizeof(T)) != 0) throw Broken("no memory");
    data_ = static_cast<T*>(memory);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  T& operator[](size_t element) { return data_[element]; }

 private:
  T* data_ = nullptr;
};

// The destructor aborts a communicator that was not destroyed, so that no other rank waits for it.
class Communicator {
 public:
  // Joins the job's ranks; `number` tells the job's communicators apart.
  Communicator(const Job& job, int number);
  // A split of another one; has no handle for a rank without a color.
  Communicator(const Communicator& parent, int color, int key);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  nccl::Comm handle() const { return handle_; }
  int rank() const;
  int ranks() const;
  nccl::Result async_error() const;
  // Waits for the stream's work. Throws Broken on an asynchronous error, or at the end of patience.
  void wait(const Stream& stream, std::chrono::seconds patience) const;
  void destroy();
  void abort();

 private:
  nccl::Comm handle_ = nullptr;
};

// Counts checks. A failed one is a line of output.
class Checks {
 public:
  explicit Checks(const Job& job) : rank_(job.rank) {}
  void expect(bool holds, const std::string& what);
  int failed() const { return failed_; }
  int made() const { return made_; }

 private:
  const int rank_;
  int made_ = 0;
  int failed_ = 0;
};

// The tests. Each runs in all ranks at the same time.
void test_collectives(const Job& job, Checks& checks);
void test_splits(const Job& job, Checks& checks);
void test_cycles(const Job& job, Checks& checks);
void test_abort(const Job& job, Checks& checks);
void test_leave(const Job& job, Checks& checks);
void test_loop(const Job& job, Checks& checks);

}  // namespace driver
