// The life of communicators: splits, many of them one after the other, an abort by the program, and
// a rank that leaves.
#include <dirent.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "job.h"

namespace driver {
namespace {

using nccl::DataType;
using nccl::functions;
using nccl::RedOp;
using nccl::Result;

constexpr size_t kCount = 50'000;

void start_sum(const Communicator& comm, DeviceArray<uint32_t>& array, const Stream& stream) {
  check(functions().all_reduce(array.data(), array.data(), kCount, DataType::kUint32, RedOp::kSum,
                               comm.handle(), stream.handle()),
        "ncclAllReduce");
}

// Adds the numbers of the communicator's ranks and checks each element.
void expect_sums(const Job& job, const Communicator& comm, const std::string& what, uint32_t round,
                 Checks& checks) {
  const Stream stream;
  DeviceArray<uint32_t> array(kCount);
  const int rank = comm.rank();
  for (size_t i = 0; i < kCount; ++i) array[i] = value(rank, i, round);
  start_sum(comm, array, stream);
  comm.wait(stream, job.patience);
  size_t wrong = 0;
  for (size_t i = 0; i < kCount; ++i) {
    wrong += array[i] != sum_of_values(comm.ranks(), i, round);
  }
  checks.expect(wrong == 0, what + ": " + std::to_string(wrong) + " elements are wrong");
}

// Checks that the ranks of a communicator are these ranks of the job, in this order.
void expect_members(const Job& job, const Communicator& comm, const std::vector<int>& members,
                    const std::string& what, Checks& checks) {
  const Stream stream;
  DeviceArray<int32_t> own(1);
  DeviceArray<int32_t> all(members.size());
  own[0] = job.rank;
  check(functions().all_gather(own.data(), all.data(), 1, DataType::kInt32, comm.handle(),
                               stream.handle()),
        "ncclAllGather");
  comm.wait(stream, job.patience);
  bool same = comm.ranks() == static_cast<int>(members.size());
  for (size_t i = 0; i < members.size() && same; ++i) same = all[i] == members[i];
  checks.expect(same, what + ": it has other ranks");
}

// Counts this process's descriptors or threads, once no more than `most` are left or some time has
// passed: a plugin may close its connections after the communicator.
size_t count_after_rest(const char* folder, size_t most) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  for (;;) {
    const auto count =
        static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
    if (count <= most || Clock::now() > deadline) return count;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

void test_splits(const Job& job, Checks& checks) {
  Communicator parent(job, 0);
  std::vector<int> backwards;
  std::vector<int> alike;  // with the parity of this rank
  for (int rank = 0; rank < job.ranks; ++rank) {
    backwards.insert(backwards.begin(), rank);
    if (rank % 2 == job.rank % 2) alike.push_back(rank);
  }
  Communicator reversed(parent, 0, job.ranks - job.rank);
  Communicator parity(parent, job.rank % 2, job.rank);
  Communicator alone(parent, job.rank == 0 ? 0 : nccl::kNoColor, 0);
  expect_members(job, reversed, backwards, "the split backwards", checks);
  expect_members(job, parity, alike, "the split by parity", checks);
  checks.expect((alone.handle() != nullptr) == (job.rank == 0), "a rank without a color has one");
  for (uint32_t round = 0; round < 3; ++round) {
    expect_sums(job, reversed, "the split backwards", round, checks);
    expect_sums(job, parity, "the split by parity", round, checks);
    expect_sums(job, parent, "the parent", round, checks);
  }
  if (alone.handle() != nullptr) {
    expect_sums(job, alone, "the split of rank 0", 0, checks);
    alone.destroy();
  }
  parity.destroy();
  expect_sums(job, reversed, "the split backwards, after another has ended", 3, checks);
  reversed.destroy();
  expect_sums(job, parent, "the parent, after its splits have ended", 3, checks);
  parent.destroy();
}

void test_cycles(const Job& job, Checks& checks) {
  size_t descriptors = 0;
  size_t threads = 0;
  for (int cycle = 0; cycle < job.cycles; ++cycle) {
    Communicator comm(job, cycle);
    Communicator split(comm, 0, job.rank);
    const auto round = static_cast<uint32_t>(cycle);
    expect_sums(job, comm, "communicator " + std::to_string(cycle), round, checks);
    expect_sums(job, split, "split " + std::to_string(cycle), round, checks);
    split.destroy();
    comm.destroy();
    if (cycle != 1) continue;
    // The first communicators have made those that stay.
    descriptors = count_after_rest("/proc/self/fd", SIZE_MAX);
    threads = count_after_rest("/proc/self/task", SIZE_MAX);
  }
  const size_t open = count_after_rest("/proc/self/fd", descriptors);
  const size_t running = count_after_rest("/proc/self/task", threads);
  checks.expect(open <= descriptors, std::to_string(open) + " descriptors are open, after " +
                                         std::to_string(descriptors));
  checks.expect(running <= threads,
                std::to_string(running) + " threads run, after " + std::to_string(threads));
}

// The last rank never joins an operation. The others abort, and all meet again.
void test_abort(const Job& job, Checks& checks) {
  const Stream stream;
  {
    Communicator comm(job, 0);
    expect_sums(job, comm, "before the abort", 0, checks);
    DeviceArray<uint32_t> array(kCount);
    if (job.rank + 1 < job.ranks) start_sum(comm, array, stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const bool waits = !stream.is_idle();
    checks.expect(waits == (job.rank + 1 < job.ranks), "the operation has ended early");
    comm.abort();
    stream.wait();
  }
  Communicator again(job, 1);
  expect_sums(job, again, "after the abort", 1, checks);
  again.destroy();
}

// The last rank leaves within a series of operations. The others must see an error, not wait.
void test_leave(const Job& job, Checks& checks) {
  constexpr int kOperations = 20, kOperationsOfTheLeaver = 10;
  const Stream stream;
  Communicator comm(job, 0);
  DeviceArray<uint32_t> array(kCount);
  for (int i = 0; i < kOperations; ++i) {
    if (i == kOperationsOfTheLeaver && job.rank + 1 == job.ranks) {
      std::printf("rank %d: leaves; %d checks, %d failed\n", job.rank, checks.made(),
                  checks.failed());
      std::fflush(stdout);
      std::_Exit(checks.failed() == 0 ? 0 : 1);
    }
    try {
      start_sum(comm, array, stream);
      comm.wait(stream, job.patience);
    } catch (const Broken& error) {
      // The leaver may end its last operation, and leave, before its neighbours have all of its
      // bytes.
      checks.expect(i + 1 >= kOperationsOfTheLeaver,
                    std::string("an early error: ") + error.what());
      const Result result = comm.async_error();
      checks.expect(result != Result::kSuccess && result != Result::kInProgress,
                    std::string("no error of the communicator: ") + error.what());
      comm.abort();
      stream.wait();
      return;
    }
  }
  checks.expect(false, "no operation has failed");
}

}  // namespace driver
