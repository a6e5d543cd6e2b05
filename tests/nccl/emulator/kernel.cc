#include "kernel.h"

#include <functional>
#include <string>
#include <vector>

#include "collectives.h"
#include "report.h"
#include "waiting.h"

namespace r2ccl::emulated {
namespace {

void run_works(const WorkFormat& format, const DeviceFunctions& functions, const Channel& channel,
               const Batch& batch, const std::vector<std::vector<char>>& works) {
  if (logs(LogLevel::kWork)) {
    log(LogLevel::kWork, "rank " + std::to_string(channel.rank) + ", channel " +
                             std::to_string(channel.number) + ": " + std::to_string(works.size()) +
                             " works of function " + std::to_string(batch.function));
  }
  if (batch.type == WorkType::kPointToPoint) {
    std::vector<PointToPointWork> transfers;
    for (const auto& work : works) transfers.push_back(format.point_to_point(work.data()));
    run_point_to_point(format, channel, transfers);
    return;
  }
  for (const auto& work : works) {
    run_collective(format, channel, functions.at(batch.function), format.collective(work.data()));
  }
}

// A block's batches are a list: each names the distance of the next.
void run_block(const WorkFormat& format, const DeviceFunctions& functions,
               const Parameters& parameters, size_t block) {
  const Channel channel = format.channel(parameters.comm, parameters.channels[block]);
  size_t index = block;
  for (;;) {
    Batch batch = format.batch(parameters, index);
    auto works = format.works(parameters, batch);
    while (batch.is_extended) {
      index += static_cast<size_t>(batch.next);
      batch = format.batch(parameters, index);
      for (auto& work : format.works(parameters, batch)) works.push_back(std::move(work));
    }
    run_works(format, functions, channel, batch, works);
    format.count_works(channel, works.size());
    if (batch.next == 0) return;
    index += static_cast<size_t>(batch.next);
  }
}

}  // namespace

void run_kernel(const WorkFormat& format, const DeviceFunctions& functions, const char* parameters,
                unsigned blocks) {
  const Parameters launch = format.parameters(parameters);
  if (launch.channels.size() != blocks) unsupported("a grid of other blocks than channels");
  std::vector<std::function<void()>> tasks;
  for (size_t block = 0; block < launch.channels.size(); ++block) {
    tasks.emplace_back([&, block] { run_block(format, functions, launch, block); });
  }
  try {
    run_together(tasks);
  } catch (const Aborted&) {
    log(LogLevel::kStart, "NCCL has aborted a kernel");
  }
}

}  // namespace r2ccl::emulated
