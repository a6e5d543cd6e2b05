#include "sim/cluster/all_reduce_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace r2ccl::sim {
namespace {

int64_t value(int rank, uint64_t element, int iteration) {
  return rank * 1'000'003 + static_cast<int64_t>(element) * 17 + iteration * 7919;
}

int64_t sum_of_all(int64_t size, uint64_t element, int iteration) {
  return size * value(0, element, iteration) + 1'000'003 * (size * (size - 1) / 2);
}

}  // namespace

AllReduceJob::AllReduceJob(Cluster& cluster, uint64_t count, Algorithm algorithm)
    : cluster_(cluster), count_(count), algorithm_(algorithm) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    buffers_.emplace_back(count);
    results_.emplace_back(count);
  }
  done_.resize(static_cast<size_t>(cluster.size()));
}

AllReduceJob::~AllReduceJob() {
  abandon();
  // After the error of one rank, others may still run.
  if (error_.empty() && finished()) return;
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    SimRank& node = cluster_.node(rank);
    if (!node.left()) node.runtime->abort("the job is gone");
  }
}

void AllReduceJob::start(int iterations) {
  iterations_ = iterations;
  operations_.resize(static_cast<size_t>(iterations));
  for (int rank = 0; rank < cluster_.size(); ++rank) next(rank);
  cluster_.wake_all();
}

bool AllReduceJob::finished() const {
  return !error_.empty() ||
         std::ranges::all_of(done_, [this](int done) { return done >= iterations_; });
}

void AllReduceJob::next(int rank) {
  const auto r = static_cast<size_t>(rank);
  const int iteration = done_[r];
  for (uint64_t i = 0; i < count_; ++i) buffers_[r][i] = value(rank, i, iteration);
  TimeNs& began = operations_[static_cast<size_t>(iteration)].began;
  began = std::min(began, cluster_.now());
  Operation call;
  call.key.collective = Collective::all_reduce;
  call.key.algorithm = algorithm_;
  call.key.type = DataType::int64;
  call.key.op = ReduceOp::sum;
  call.key.rank_count = cluster_.size();
  call.key.count = count_;
  call.input = reinterpret_cast<const std::byte*>(buffers_[r].data());
  call.output = reinterpret_cast<std::byte*>(results_[r].data());
  call.done = [this, rank, at = cluster_.now()](const Status& status) {
    if (abandoned_) return;
    if (status.ok()) return finish(rank, at);
    if (error_.empty()) error_ = status.message();
  };
  cluster_.node(rank).runtime->start(std::move(call));
}

void AllReduceJob::finish(int rank, TimeNs began) {
  const auto r = static_cast<size_t>(rank);
  last_ = cluster_.now() - began;
  longest_ = std::max(longest_, last_);
  TimeNs& ended = operations_[static_cast<size_t>(done_[r])].ended;
  ended = std::max(ended, cluster_.now());
  for (uint64_t i = 0; i < count_; ++i) {
    if (results_[r][i] != sum_of_all(cluster_.size(), i, done_[r])) ++wrong_;
  }
  checked_ += count_;
  std::memset(results_[r].data(), 0xee, count_ * sizeof(int64_t));
  if (++done_[r] < iterations_) next(rank);
}

}  // namespace r2ccl::sim
