// Every collective, and send and receive, over sizes around NCCL's boundaries: one element, less
// than a line of 16 bytes, a page, more than a chunk, more than all buffers of a channel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "job.h"

namespace driver {
namespace {

using nccl::DataType;
using nccl::functions;
using nccl::RedOp;
using nccl::Result;

constexpr size_t kGuardElements = 16;  // behind the output: no operation may write them

class CollectiveChecks {
 public:
  CollectiveChecks(const Job& job, const Communicator& comm, Checks& checks)
      : job_(job), comm_(comm), checks_(checks) {}

  void run(size_t count) {
    all_reduce_integers(count);
    all_reduce_averages(count);
    all_reduce_doubles(count);
    all_gather(count);
    reduce_scatter(count);
    for (int root = 0; root < job_.ranks; ++root) {
      broadcast(count, root);
      reduce(count, root);
    }
    send_around_a_ring(count);
    all_to_all(count);
    several_in_a_group(count);
  }

 private:
  // Fills the input of this rank, runs the operation, and compares each element of the output.
  // `input(rank, element)` and `expected(element)` give the values; `start(in, out)` calls NCCL.
  template <typename T, typename Input, typename Start, typename Expected>
  void perform(const std::string& name, size_t input_count, size_t output_count, bool in_place,
               Input input, Start start, Expected expected) {
    ++round_;
    DeviceArray<T> output(std::max(input_count, output_count) + kGuardElements);
    DeviceArray<T> separate_input(input_count + 1);
    T* in = in_place ? output.data() : separate_input.data();
    std::memset(static_cast<void*>(output.data()), 0xa5,
                (std::max(input_count, output_count) + kGuardElements) * sizeof(T));
    for (size_t i = 0; i < input_count; ++i) in[i] = static_cast<T>(input(job_.rank, i));
    check(start(in, output.data()), name);
    comm_.wait(stream_, job_.patience);
    std::string text = name + " of " + std::to_string(output_count) + " elements: ";
    size_t wrong = 0;
    std::string first;
    for (size_t i = 0; i < output_count; ++i) {
      if (equal(output[i], expected(i))) continue;
      if (++wrong == 1) {
        first = ", the first is " + std::to_string(i) + ": " + std::to_string(output[i]) +
                " in place of " + std::to_string(expected(i));
      }
    }
    checks_.expect(wrong == 0, text + std::to_string(wrong) + " are wrong" + first);
    T untouched;
    std::memset(static_cast<void*>(&untouched), 0xa5, sizeof untouched);
    const size_t end = in_place ? std::max(input_count, output_count) : output_count;
    size_t written = 0;
    for (size_t i = end; i < end + kGuardElements; ++i) {
      written += std::memcmp(&output[i], &untouched, sizeof untouched) != 0;
    }
    checks_.expect(written == 0, text + "it wrote behind its output");
  }

  static bool equal(int32_t a, int32_t b) { return a == b; }
  static bool equal(double a, double b) { return a == b; }
  // NCCL multiplies by 1/n before it adds. Values are below 2^16, so that a wrong one differs by
  // more.
  static bool equal(float a, float b) { return std::abs(a - b) < 0.02f; }

  int32_t number(int rank, size_t i) const { return static_cast<int32_t>(value(rank, i, round_)); }
  int32_t sum(size_t i) const { return static_cast<int32_t>(sum_of_values(job_.ranks, i, round_)); }
  auto numbers() const {
    return [this](int rank, size_t i) { return number(rank, i); };
  }
  auto all_reduce_with(size_t count, DataType type, RedOp op) {
    return [=, this](const void* in, void* out) {
      return functions().all_reduce(in, out, count, type, op, comm_.handle(), stream_.handle());
    };
  }

  void all_reduce_integers(size_t count) {
    perform<int32_t>("AllReduce (sum)", count, count, false, numbers(),
                     all_reduce_with(count, DataType::kInt32, RedOp::kSum),
                     [this](size_t i) { return sum(i); });
    const auto best = [this](size_t i, bool greatest) {
      int32_t result = number(0, i);
      for (int rank = 1; rank < job_.ranks; ++rank) {
        const int32_t other = number(rank, i);
        result = greatest ? std::max(result, other) : std::min(result, other);
      }
      return result;
    };
    perform<int32_t>("AllReduce (max)", count, count, false, numbers(),
                     all_reduce_with(count, DataType::kInt32, RedOp::kMax),
                     [&](size_t i) { return best(i, true); });
    perform<int32_t>("AllReduce (min)", count, count, true, numbers(),
                     all_reduce_with(count, DataType::kInt32, RedOp::kMin),
                     [&](size_t i) { return best(i, false); });
  }

  // Averages of numbers so small that their sum does not overflow.
  void all_reduce_averages(size_t count) {
    const auto small = [this](int rank, size_t i) { return number(rank, i) / (1 << 16); };
    const auto total = [&](size_t i) {
      int32_t result = 0;
      for (int rank = 0; rank < job_.ranks; ++rank) result += small(rank, i);
      return result;
    };
    perform<int32_t>("AllReduce (average)", count, count, false, small,
                     all_reduce_with(count, DataType::kInt32, RedOp::kAvg),
                     [&](size_t i) { return total(i) / job_.ranks; });
    perform<float>("AllReduce (average of floats, in place)", count, count, true, small,
                   all_reduce_with(count, DataType::kFloat32, RedOp::kAvg), [&](size_t i) {
                     return static_cast<float>(total(i)) / static_cast<float>(job_.ranks);
                   });
  }

  void all_reduce_doubles(size_t count) {
    const auto half = [this](int rank, size_t i) { return number(rank, i) * 0.5; };
    perform<double>("AllReduce (sum of doubles)", count, count, false, half,
                    all_reduce_with(count, DataType::kFloat64, RedOp::kSum), [&](size_t i) {
                      double result = 0;
                      for (int rank = 0; rank < job_.ranks; ++rank) result += half(rank, i);
                      return result;
                    });
  }

  void all_gather(size_t count) {
    perform<int32_t>(
        "AllGather", count, count * ranks(), false, numbers(),
        [&](const void* in, void* out) {
          return functions().all_gather(in, out, count, DataType::kInt32, comm_.handle(),
                                        stream_.handle());
        },
        [&](size_t i) { return number(static_cast<int>(i / count), i % count); });
  }

  void reduce_scatter(size_t count) {
    perform<int32_t>(
        "ReduceScatter", count * ranks(), count, false, numbers(),
        [&](const void* in, void* out) {
          return functions().reduce_scatter(in, out, count, DataType::kInt32, RedOp::kSum,
                                            comm_.handle(), stream_.handle());
        },
        [&](size_t i) { return sum(static_cast<size_t>(job_.rank) * count + i); });
  }

  void broadcast(size_t count, int root) {
    perform<int32_t>(
        "Broadcast from rank " + std::to_string(root), count, count, root % 2 == 1, numbers(),
        [&](const void* in, void* out) {
          return functions().broadcast(in, out, count, DataType::kInt32, root, comm_.handle(),
                                       stream_.handle());
        },
        [&](size_t i) { return number(root, i); });
  }

  void reduce(size_t count, int root) {
    // The others' output stays as it was, so it may be no part of the check.
    perform<int32_t>(
        "Reduce to rank " + std::to_string(root), count, job_.rank == root ? count : 0, false,
        numbers(),
        [&](const void* in, void* out) {
          return functions().reduce(in, out, count, DataType::kInt32, RedOp::kSum, root,
                                    comm_.handle(), stream_.handle());
        },
        [this](size_t i) { return sum(i); });
  }

  void send_around_a_ring(size_t count) {
    const int next = (job_.rank + 1) % job_.ranks;
    const int previous = (job_.rank + job_.ranks - 1) % job_.ranks;
    perform<int32_t>(
        "a ring of Send and Recv", count, count, false, numbers(),
        [&](const void* in, void* out) {
          return in_group([&] {
            check(functions().send(in, count, DataType::kInt32, next, comm_.handle(),
                                   stream_.handle()),
                  "ncclSend");
            check(functions().recv(out, count, DataType::kInt32, previous, comm_.handle(),
                                   stream_.handle()),
                  "ncclRecv");
          });
        },
        [&](size_t i) { return number(previous, i); });
  }

  void all_to_all(size_t count) {
    perform<int32_t>(
        "Send and Recv of all to all", count * ranks(), count * ranks(), false, numbers(),
        [&](const int32_t* in, int32_t* out) {
          return in_group([&] {
            for (int peer = 0; peer < job_.ranks; ++peer) {
              const size_t offset = static_cast<size_t>(peer) * count;
              check(functions().send(in + offset, count, DataType::kInt32, peer, comm_.handle(),
                                     stream_.handle()),
                    "ncclSend");
              check(functions().recv(out + offset, count, DataType::kInt32, peer, comm_.handle(),
                                     stream_.handle()),
                    "ncclRecv");
            }
          });
        },
        [&](size_t i) {
          return number(static_cast<int>(i / count),
                        static_cast<size_t>(job_.rank) * count + i % count);
        });
  }

  void several_in_a_group(size_t count) {
    constexpr size_t kParts = 4;
    perform<int32_t>(
        "4 AllReduce in a group", count, count, false, numbers(),
        [&](const int32_t* in, int32_t* out) {
          return in_group([&] {
            for (size_t part = 0; part < kParts; ++part) {
              const size_t begin = part * count / kParts;
              const size_t end = (part + 1) * count / kParts;
              check(functions().all_reduce(in + begin, out + begin, end - begin, DataType::kInt32,
                                           RedOp::kSum, comm_.handle(), stream_.handle()),
                    "ncclAllReduce");
            }
          });
        },
        [this](size_t i) { return sum(i); });
  }

  static Result in_group(const std::function<void()>& calls) {
    check(functions().group_start(), "ncclGroupStart");
    calls();
    return functions().group_end();
  }

  size_t ranks() const { return static_cast<size_t>(job_.ranks); }

  const Job& job_;
  const Communicator& comm_;
  Checks& checks_;
  Stream stream_;
  uint32_t round_ = 0;
};

}  // namespace

void test_collectives(const Job& job, Checks& checks) {
  constexpr size_t kCounts[] = {0, 1, 3, 1000, 4096, 65'537, 262'144, 1'048'576};
  Communicator comm(job, 0);
  {
    CollectiveChecks collectives(job, comm, checks);
    for (const size_t count : kCounts) {
      if (count <= job.largest_count) collectives.run(count);
    }
  }
  checks.expect(comm.async_error() == Result::kSuccess, "the communicator has an error");
  comm.destroy();
}

}  // namespace driver
