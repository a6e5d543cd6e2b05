// Every collective through the public header, against a reference that this file computes from the
// words of that header. All results are exact, so float bits compare.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "job.h"

namespace job {
namespace {

using Vector = std::vector<float>;
constexpr float kUnset = -7;
constexpr int kRanks = 4;
const std::vector<size_t> kCounts = {0, 1, 5, 1003, 100'003};

// Returns element i of the input of a rank.
float value(int rank, size_t i) {
  return static_cast<float>((static_cast<size_t>(rank) * 7919 + i * 31) % 1013);
}

Vector input_of(int rank, size_t count) {
  Vector input(count);
  for (size_t i = 0; i < count; ++i) input[i] = value(rank, i);
  return input;
}

float sum_over(int ranks, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

void expect_equal(const Vector& got, const Vector& right, const std::string& what) {
  if (got.size() != right.size()) throw Broken(what + ": another size");
  const auto [at, expected] = std::ranges::mismatch(got, right);
  if (at == got.end()) return;
  throw Broken(what + ": element " + std::to_string(at - got.begin()) + " is " +
               std::to_string(*at) + ", not " + std::to_string(*expected));
}

std::vector<size_t> starts_of(const std::vector<size_t>& counts) {
  std::vector<size_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), size_t{0});
  return starts;
}

size_t total(const std::vector<size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

// Runs body(comm, count) on each rank for each count.
void run_for_counts(const std::function<void(Comm&, size_t)>& body) {
  Job job(kRanks);
  job.run({[&](Comm& comm) {
    for (const size_t count : kCounts) body(comm, count);
    check(comm.destroy(), "destroy");
  }});
}

TEST(Collectives, ReduceGivesTheRootTheSum) {
  run_for_counts([](Comm& comm, size_t count) {
    for (int root = 0; root < kRanks; ++root) {
      const Vector input = input_of(comm.rank(), count);
      const bool is_root = comm.rank() == root;
      Vector output(is_root ? count : 0, kUnset);
      check(r2cclReduce(input.data(), is_root ? output.data() : nullptr, count, r2cclFloat32,
                        r2cclSum, root, comm.handle(), nullptr),
            "reduce");
      Vector right(output.size());
      for (size_t i = 0; i < right.size(); ++i) right[i] = sum_over(kRanks, i);
      expect_equal(output, right, "Reduce");
      expect_equal(input, input_of(comm.rank(), count), "input of Reduce");
      Vector both = input;
      check(r2cclReduce(both.data(), is_root ? both.data() : nullptr, count, r2cclFloat32, r2cclSum,
                        root, comm.handle(), nullptr),
            "reduce in place");
      expect_equal(both, is_root ? right : input, "Reduce in place");
    }
  });
}

TEST(Collectives, AllGatherGivesEachRankAllBlocks) {
  run_for_counts([](Comm& comm, size_t count) {
    const Vector input = input_of(comm.rank(), count);
    Vector right;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Vector block = input_of(rank, count);
      right.insert(right.end(), block.begin(), block.end());
    }
    Vector output(right.size(), kUnset);
    check(r2cclAllGather(input.data(), output.data(), count, r2cclFloat32, comm.handle(), nullptr),
          "all-gather");
    expect_equal(output, right, "AllGather");
    Vector both(right.size(), kUnset);
    float* own = both.data() + static_cast<size_t>(comm.rank()) * count;
    std::ranges::copy(input, own);
    check(r2cclAllGather(own, both.data(), count, r2cclFloat32, comm.handle(), nullptr),
          "all-gather in place");
    expect_equal(both, right, "AllGather in place");
  });
}

TEST(Collectives, ReduceScatterGivesEachRankItsBlock) {
  run_for_counts([](Comm& comm, size_t count) {
    const Vector input = input_of(comm.rank(), count * kRanks);
    const size_t begin = static_cast<size_t>(comm.rank()) * count;
    Vector right(count);
    for (size_t i = 0; i < count; ++i) right[i] = sum_over(kRanks, begin + i);
    Vector output(count, kUnset);
    check(r2cclReduceScatter(input.data(), output.data(), count, r2cclFloat32, r2cclSum,
                             comm.handle(), nullptr),
          "reduce-scatter");
    expect_equal(output, right, "ReduceScatter");
    Vector both = input;
    check(r2cclReduceScatter(both.data(), both.data() + begin, count, r2cclFloat32, r2cclSum,
                             comm.handle(), nullptr),
          "reduce-scatter in place");
    Vector all = input;  // the other blocks stay
    std::ranges::copy(right, all.begin() + static_cast<ptrdiff_t>(begin));
    expect_equal(both, all, "ReduceScatter in place");
  });
}

TEST(Collectives, AllToAllTransposesTheBlocks) {
  run_for_counts([](Comm& comm, size_t count) {
    const Vector input = input_of(comm.rank(), count * kRanks);
    Vector right;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < count; ++i) {
        right.push_back(value(rank, static_cast<size_t>(comm.rank()) * count + i));
      }
    }
    Vector output(right.size(), kUnset);
    check(r2cclAllToAll(input.data(), output.data(), count, r2cclFloat32, comm.handle(), nullptr),
          "all-to-all");
    expect_equal(output, right, "AllToAll");
  });
}

TEST(Collectives, GatherAndScatterAreInverse) {
  run_for_counts([](Comm& comm, size_t count) {
    for (int root = 0; root < kRanks; ++root) {
      const bool is_root = comm.rank() == root;
      const Vector input = input_of(comm.rank(), count);
      Vector all(is_root ? count * kRanks : 0, kUnset);
      check(
          r2cclGather(input.data(), all.data(), count, r2cclFloat32, root, comm.handle(), nullptr),
          "gather");
      Vector right;
      for (int rank = 0; is_root && rank < kRanks; ++rank) {
        const Vector block = input_of(rank, count);
        right.insert(right.end(), block.begin(), block.end());
      }
      expect_equal(all, right, "Gather");
      Vector own(count, kUnset);
      check(r2cclScatter(all.data(), own.data(), count, r2cclFloat32, root, comm.handle(), nullptr),
            "scatter");
      expect_equal(own, input, "Scatter");
      if (is_root) std::fill_n(all.begin() + static_cast<ptrdiff_t>(root * count), count, 0.f);
      float* place = is_root ? all.data() + static_cast<size_t>(root) * count : own.data();
      if (is_root) std::ranges::copy(input, place);
      check(r2cclGather(place, is_root ? all.data() : nullptr, count, r2cclFloat32, root,
                        comm.handle(), nullptr),
            "gather in place");
      expect_equal(all, right, "Gather in place");
    }
  });
}

// Blocks of different sizes, in another order on each rank, with gaps that must stay.
TEST(Collectives, WithUnequalBlocksPutThemWhereTheCallerSays) {
  Job job(kRanks);
  job.run({[](Comm& comm) {
    const std::vector<size_t> counts = {3, 0, 50'001, 17};
    constexpr size_t kRoom = 50'010;
    std::vector<size_t> displs;
    for (int rank = 0; rank < kRanks; ++rank) {
      displs.push_back(static_cast<size_t>((rank + comm.rank()) % kRanks) * kRoom);
    }
    const auto self = static_cast<size_t>(comm.rank());
    const Vector input = input_of(comm.rank(), counts[self]);
    Vector right(kRoom * kRanks, kUnset);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      std::ranges::copy(input_of(rank, counts[r]),
                        right.begin() + static_cast<ptrdiff_t>(displs[r]));
    }
    Vector output(right.size(), kUnset);
    check(r2cclAllGatherV(input.data(), output.data(), counts.data(), displs.data(), r2cclFloat32,
                          comm.handle(), nullptr),
          "all-gather-v");
    expect_equal(output, right, "AllGatherV");
    for (int root = 0; root < kRanks; ++root) {
      const bool is_root = comm.rank() == root;
      std::ranges::fill(output, kUnset);
      check(r2cclGatherV(input.data(), counts[self], is_root ? output.data() : nullptr,
                         is_root ? counts.data() : nullptr, is_root ? displs.data() : nullptr,
                         r2cclFloat32, root, comm.handle(), nullptr),
            "gather-v");
      if (is_root) expect_equal(output, right, "GatherV");
      Vector own(counts[self], kUnset);
      check(r2cclScatterV(is_root ? output.data() : nullptr, is_root ? counts.data() : nullptr,
                          is_root ? displs.data() : nullptr, own.data(), counts[self], r2cclFloat32,
                          root, comm.handle(), nullptr),
            "scatter-v");
      expect_equal(own, input, "ScatterV");
    }
    const std::vector<size_t> starts = starts_of(counts);
    const Vector whole = input_of(comm.rank(), total(counts));
    Vector sum(counts[self], kUnset);
    Vector right_sum(counts[self]);
    for (size_t i = 0; i < right_sum.size(); ++i) right_sum[i] = sum_over(kRanks, starts[self] + i);
    check(r2cclReduceScatterV(whole.data(), sum.data(), counts.data(), r2cclFloat32, r2cclSum,
                              comm.handle(), nullptr),
          "reduce-scatter-v");
    expect_equal(sum, right_sum, "ReduceScatterV");
    check(comm.destroy(), "destroy");
  }});
}

size_t pair_count(int from, int to) {
  return static_cast<size_t>((from * 5 + to * 3) % 4) * 9001;
}

TEST(Collectives, AllToAllWithUnequalCountsMovesEachPairsOwn) {
  Job job(kRanks);
  job.run({[](Comm& comm) {
    std::vector<size_t> sent;
    std::vector<size_t> received;
    for (int rank = 0; rank < kRanks; ++rank) {
      sent.push_back(pair_count(comm.rank(), rank));
      received.push_back(pair_count(rank, comm.rank()));
    }
    Vector right;
    for (int rank = 0; rank < kRanks; ++rank) {
      size_t begin = 0;
      for (int to = 0; to < comm.rank(); ++to) begin += pair_count(rank, to);
      for (size_t i = 0; i < pair_count(rank, comm.rank()); ++i) {
        right.push_back(value(rank, begin + i));
      }
    }
    const Vector input = input_of(comm.rank(), total(sent));
    Vector output(total(received), kUnset);
    check(r2cclAllToAllV(input.data(), sent.data(), nullptr, output.data(), received.data(),
                         nullptr, r2cclFloat32, comm.handle(), nullptr),
          "all-to-all-v");
    expect_equal(output, right, "AllToAllV");
    check(comm.destroy(), "destroy");
  }});
}

// Ranks 0 and 1 disagree about a count, and all ranks learn it. `call` gets the counts to state;
// rank `receiver` must not take a block of another size. The other ranks may have ended their
// parts, because small blocks are copied when they are sent: they learn it in their next call.
void expect_mismatch(int receiver,
                     const std::function<r2cclResult_t(Comm&, std::vector<size_t>)>& call) {
  Job job(3);
  job.run({[&](Comm& comm) {
    std::vector<size_t> counts = {4, 0, 9};
    if (comm.rank() == 1) counts[0] = 5;
    r2cclResult_t result = call(comm, counts);
    EXPECT_TRUE(comm.rank() != receiver || result != r2cclSuccess);
    if (result == r2cclSuccess) result = r2cclBarrier(comm.handle(), nullptr);
    EXPECT_TRUE(result == r2cclInvalidUsage || result == r2cclRemoteError) << result;
    EXPECT_NE(std::string(r2cclGetLastError(comm.handle())).find("match"), std::string::npos)
        << r2cclGetLastError(comm.handle());
    (void)comm.destroy();
  }});
}

TEST(Collectives, FindThatRanksDisagreeAboutCounts) {
  expect_mismatch(1, [](Comm& comm, std::vector<size_t> counts) {
    Vector send(20);
    Vector receive(20);
    return r2cclAllGatherV(send.data(), receive.data(), counts.data(), nullptr, r2cclFloat32,
                           comm.handle(), nullptr);
  });
  // Rank 0 and rank 1 disagree, one of them expects nothing.
  expect_mismatch(0, [](Comm& comm, std::vector<size_t>) {
    Vector send(20);
    Vector receive(20);
    const std::vector<size_t> none = {0, 0, 0};
    std::vector<size_t> sent = none;
    if (comm.rank() == 1) sent[0] = 3;
    return r2cclAllToAllV(send.data(), sent.data(), nullptr, receive.data(), none.data(), nullptr,
                          r2cclFloat32, comm.handle(), nullptr);
  });
  // The first message of both is as long: only the counts of the pair tell.
  expect_mismatch(0, [](Comm& comm, std::vector<size_t>) {
    constexpr size_t kMessage = 65'536;
    Vector send(2 * kMessage);
    Vector receive(2 * kMessage);
    std::vector<size_t> sent = {0, 0, 0};
    std::vector<size_t> expected = sent;
    if (comm.rank() == 1) sent[0] = 2 * kMessage;
    if (comm.rank() == 0) expected[1] = kMessage;
    return r2cclAllToAllV(send.data(), sent.data(), nullptr, receive.data(), expected.data(),
                          nullptr, r2cclFloat32, comm.handle(), nullptr);
  });
  expect_mismatch(0, [](Comm& comm, std::vector<size_t> counts) {
    Vector send(20);
    Vector receive(20);
    const size_t own = counts[static_cast<size_t>(comm.rank())] + (comm.rank() == 1 ? 2 : 0);
    return r2cclGatherV(send.data(), own, receive.data(), counts.data(), nullptr, r2cclFloat32, 0,
                        comm.handle(), nullptr);
  });
}

bool said(const std::string& words) {
  return std::string(r2cclGetLastError(nullptr)).find(words) != std::string::npos;
}

TEST(Collectives, RefuseWrongArgumentsInWords) {
  Job job(2);
  job.run({[](Comm& comm) {
    Vector send(40);
    Vector receive(40);
    const std::vector<size_t> counts = {3, 4};
    const std::vector<size_t> overlapping = {0, 2};
    const std::vector<size_t> huge = {SIZE_MAX / 4, 1};
    const r2cclComm_t handle = comm.handle();
    const auto all_gather_v = [&](const size_t* c, const size_t* d) {
      return r2cclAllGatherV(send.data(), receive.data(), c, d, r2cclFloat32, handle, nullptr);
    };
    const auto expect_refused = [](r2cclResult_t result, const std::string& words) {
      EXPECT_EQ(result, r2cclInvalidArgument);
      EXPECT_TRUE(said(words)) << r2cclGetLastError(nullptr);
    };
    expect_refused(all_gather_v(nullptr, nullptr), "recvcounts is NULL");
    expect_refused(all_gather_v(counts.data(), overlapping.data()),
                   "displs makes the blocks of ranks 0 and 1 overlap");
    expect_refused(all_gather_v(huge.data(), nullptr), "recvcounts[0] is ");
    expect_refused(r2cclAllGather(send.data(), send.data() + 1, 3, r2cclFloat32, handle, nullptr),
                   "overlap; in place means");
    expect_refused(r2cclAllToAll(send.data(), send.data(), 3, r2cclFloat32, handle, nullptr),
                   "this call cannot be in place");
    expect_refused(
        r2cclAllGather(send.data(), receive.data(), SIZE_MAX / 8, r2cclFloat32, handle, nullptr),
        "for each rank");
    expect_refused(
        r2cclReduce(send.data(), receive.data(), 3, r2cclFloat32, r2cclSum, 2, handle, nullptr),
        "root is 2, it must be 0 to 1");
    expect_refused(r2cclGather(send.data(), comm.rank() == 0 ? nullptr : receive.data(), 3,
                               r2cclFloat32, comm.rank() == 0 ? 0 : 7, handle, nullptr),
                   comm.rank() == 0 ? "recvbuff is NULL" : "root is 7");
    const std::vector<size_t> own = comm.rank() == 0 ? counts : std::vector<size_t>{4, 3};
    std::vector<size_t> wrong = own;
    wrong[static_cast<size_t>(comm.rank())] = 9;
    expect_refused(r2cclAllToAllV(send.data(), own.data(), nullptr, receive.data(), wrong.data(),
                                  nullptr, r2cclFloat32, handle, nullptr),
                   "elements to itself and expects 9");
    // No call has started, so both ranks still agree.
    check(r2cclAllGatherV(send.data(), receive.data(), counts.data(), nullptr, r2cclFloat32, handle,
                          nullptr),
          "a right call");
    check(comm.destroy(), "destroy");
  }});
}

}  // namespace
}  // namespace job
