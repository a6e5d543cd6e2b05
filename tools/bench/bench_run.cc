#include "tools/bench/bench_run.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

namespace r2ccl::tools {
namespace {

// The time between two agreements whether to continue: short enough to stop in time, long enough
// not to affect the result.
constexpr TimeNs kBatch = 250 * kMillisecond;
constexpr int64_t kBatchOperationsMax = 10'000;

// Returns a number of this machine's run since it was switched on.
int64_t machine_number() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return static_cast<int64_t>(std::hash<std::string>()(boot_id) / 2);
}

}  // namespace

Bench::Bench(const BenchOptions& options, BenchComm* comm, const Clock& clock,
             BenchProgress* progress)
    : options_(options),
      comm_(comm),
      clock_(clock),
      progress_(progress),
      values_(std::min(comm->ranks(), BenchValues::kRanksMax)) {
  const uint64_t bytes = whole_bytes(
      options, *std::max_element(options.sizes.begin(), options.sizes.end()), comm->ranks());
  in_ = std::make_unique<std::byte[]>(bytes);
  out_ = std::make_unique<std::byte[]>(bytes);
}

Status Bench::measure(uint64_t bytes, bool in_place) {
  bytes = whole_bytes(options_, bytes, comm_->ranks());
  runs_.push_back({bytes, bytes / type_bytes(options_.type), in_place, {}, 0, 0});
  current_in_place_ = in_place;
  fill_input();
  R2CCL_RETURN_IF_ERROR(run_warmup());
  R2CCL_RETURN_IF_ERROR(comm_->barrier());
  ready_ = clock_.now();
  R2CCL_RETURN_IF_ERROR(options_.duration_s > 0 ? run_for_duration()
                                                : run_batch(options_.iterations, true));
  return combine_over_ranks();
}

Status Bench::run_warmup() {
  return run_batch(options_.warmup, false);
}

Status Bench::run_for_duration() {
  TimeNs begin = clock_.now();
  auto duration = static_cast<TimeNs>(options_.duration_s * 1e9);
  int64_t batch = 1;
  for (;;) {
    TimeNs batch_begin = clock_.now();
    R2CCL_RETURN_IF_ERROR(run_batch(static_cast<int>(batch), true));
    TimeNs now = clock_.now();
    // Only agreed numbers decide, so that all ranks decide alike.
    const bool told_to_end =
        !options_.until_file.empty() && access(options_.until_file.c_str(), F_OK) == 0;
    std::vector<int64_t> agreed = {told_to_end ? duration : now - begin, now - batch_begin};
    R2CCL_RETURN_IF_ERROR(comm_->agree_on_max(&agreed));
    ready_ = clock_.now();
    if (agreed[0] >= duration) return Status::ok_status();
    int64_t each = std::max<int64_t>(agreed[1] / batch, 1);
    TimeNs left = std::min(kBatch, duration - agreed[0]);
    batch = std::clamp<int64_t>(left / each, 1, kBatchOperationsMax);
  }
}

Status Bench::run_batch(int operations, bool timed) {
  for (int i = 0; i < operations; ++i) R2CCL_RETURN_IF_ERROR(run_one(timed));
  return Status::ok_status();
}

Status Bench::run_one(bool timed) {
  BenchRun& run = current();
  ++iteration_;
  if (options_.check) {
    fill_input();
    ready_ = clock_.now();
    // Ranks fill at different speeds; the wait for the slowest filler is not the network's time.
    R2CCL_RETURN_IF_ERROR(comm_->barrier());
  }
  TimeNs start = clock_.now();
  R2CCL_RETURN_IF_ERROR(comm_->run(options_, input(), out_.get(), run.count));
  TimeNs end = clock_.now();
  if (timed) run.operations.push_back({start, end - start, end - ready_});
  ready_ = end;
  progress_->operations.fetch_add(1, std::memory_order_relaxed);
  if (!options_.check) return Status::ok_status();
  uint64_t wrong = count_wrong();
  const uint64_t checked = result_count();
  run.checked_elements += checked;
  run.wrong_elements += wrong;
  progress_->checked_elements.fetch_add(checked, std::memory_order_relaxed);
  progress_->wrong_elements.fetch_add(wrong, std::memory_order_relaxed);
  return Status::ok_status();
}

void Bench::fill_input() {
  values_.fill(input(), current().count, options_.type, options_.redop, comm_->rank(), iteration_);
}

uint64_t Bench::part_count() const {
  return runs_.back().count / static_cast<uint64_t>(comm_->ranks());
}

uint64_t Bench::result_count() const {
  const bool is_root = comm_->rank() == options_.root;
  switch (options_.collective) {
    case Collective::barrier:
      return 0;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return part_count();
    case Collective::reduce:
    case Collective::gather:
      return is_root ? runs_.back().count : 0;
    default:
      return runs_.back().count;
  }
}

uint64_t Bench::count_wrong() const {
  const uint64_t count = result_count();
  if (count == 0) return 0;
  const uint64_t own_part = static_cast<uint64_t>(comm_->rank()) * part_count();
  switch (options_.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return count_wrong_reduced(count, 0);
    case Collective::reduce_scatter:
      return count_wrong_reduced(count, own_part);
    case Collective::broadcast:
      return count_wrong_copied(0, count, options_.root, 0);
    case Collective::scatter:
      return count_wrong_copied(0, count, options_.root, own_part);
    case Collective::sendrecv:
    case Collective::tagged:
      return count_wrong_copied(0, count, (comm_->rank() + comm_->ranks() - 1) % comm_->ranks(), 0);
    case Collective::all_gather:
    case Collective::gather:
      return count_wrong_parts(0);
    case Collective::alltoall:
      return count_wrong_parts(own_part);
    case Collective::barrier:
      break;
  }
  return 0;
}

uint64_t Bench::count_wrong_reduced(uint64_t count, uint64_t first) const {
  return values_.count_wrong_reduced(out_.get(), count, options_.type, options_.redop, iteration_,
                                     first);
}

uint64_t Bench::count_wrong_copied(uint64_t at, uint64_t count, int rank, uint64_t first) const {
  return values_.count_wrong_copied(out_.get() + at * type_bytes(options_.type), count,
                                    options_.type, options_.redop, rank, iteration_, first);
}

uint64_t Bench::count_wrong_parts(uint64_t first) const {
  uint64_t wrong = 0;
  for (int from = 0; from < comm_->ranks(); ++from) {
    wrong +=
        count_wrong_copied(static_cast<uint64_t>(from) * part_count(), part_count(), from, first);
  }
  return wrong;
}

Status Bench::combine_over_ranks() {
  BenchRun& run = current();
  R2CCL_RETURN_IF_ERROR(combine_times(&run));
  std::vector<int64_t> sums = {static_cast<int64_t>(run.checked_elements),
                               static_cast<int64_t>(run.wrong_elements)};
  R2CCL_RETURN_IF_ERROR(comm_->agree_on_sum(&sums));
  run.checked_elements = static_cast<uint64_t>(sums[0]);
  run.wrong_elements = static_cast<uint64_t>(sums[1]);
  return Status::ok_status();
}

Status Bench::combine_times(BenchRun* run) {
  const int64_t machine = machine_number();
  std::vector<int64_t> machines = {machine, -machine};
  R2CCL_RETURN_IF_ERROR(comm_->agree_on_max(&machines));
  const bool one_clock = machines[0] == -machines[1];
  std::vector<int64_t> times;
  for (const TimedOperation& operation : run->operations) {
    const TimeNs start = one_clock ? operation.start : 0;
    times.insert(times.end(), {start, start + operation.duration, operation.gap});
    run->total += operation.duration;
  }
  times.push_back(run->total);
  R2CCL_RETURN_IF_ERROR(comm_->agree_on_max(&times));
  run->total = times.back();
  for (size_t i = 0; i < run->operations.size(); ++i) {
    run->operations[i].duration = times[3 * i + 1] - times[3 * i];
    run->operations[i].gap = times[3 * i + 2];
  }
  return Status::ok_status();
}

}  // namespace r2ccl::tools
