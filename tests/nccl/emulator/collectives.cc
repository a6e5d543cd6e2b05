#include "collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "primitives.h"
#include "report.h"
#include "ring.h"

namespace r2ccl::emulated {
namespace {

// The argument of a reduction may be in memory, where a stream's earlier work has put it.
uint64_t reduction_argument(const WorkFormat& format, const DeviceFunction& function,
                            const CollectiveWork& work) {
  uint64_t argument = work.reduction_argument;
  const bool is_average = function.op == Operator::kSumPostDiv;
  if (work.argument_is_pointer) {
    const auto* memory = reinterpret_cast<const char*>(argument);
    argument = 0;
    std::memcpy(&argument, memory, is_average ? sizeof argument : element_bytes(function.type));
  }
  if (is_average && !format.average_has_sign_bit()) {
    const bool is_signed = function.type == DataType::kInt8 || function.type == DataType::kInt32 ||
                           function.type == DataType::kInt64;
    argument = argument << 1 | (is_signed ? 1 : 0);
  }
  return argument;
}

// An AllReduce over the channel's tree: the sum goes up and the result comes down, at the same
// time.
void run_tree(const WorkFormat& format, const Channel& channel, const DeviceFunction& function,
              const CollectiveWork& work, const Reduction& reduction) {
  const int64_t grain_bytes = function.protocol == Protocol::kLl ? 16 : 512;
  const size_t bytes = element_bytes(function.type);
  const ChannelPart part = work.part_of(channel.number, grain_bytes / static_cast<int64_t>(bytes));
  const auto pass = [&](const std::vector<int>& from, const std::vector<int>& to, bool adds,
                        bool stores, bool completes) {
    Primitives::Setup setup;
    setup.from = from;
    setup.to = to;
    setup.protocol = function.protocol;
    setup.step_bytes = channel.simple_step_bytes;
    setup.element_bytes = bytes;
    setup.input = work.input;
    setup.output = work.output;
    Primitives primitives(format, channel, setup, reduction);
    for (int64_t done = 0; done < part.count; done += part.chunk) {
      const int64_t begin = part.offset + done;
      primitives.run({adds ? begin : Operation::kNone, !from.empty(), !to.empty(),
                      stores ? begin : Operation::kNone, std::min(part.chunk, part.count - done),
                      completes});
    }
  };
  const std::vector<int>& down = channel.tree.down;
  if (channel.tree.up < 0) {
    pass(down, down, true, true, true);
    return;
  }
  const std::vector<int> up = {channel.tree.up};
  run_together(
      {[&] { pass(down, up, true, false, false); }, [&] { pass(up, down, false, true, false); }});
}

// Returns which part of its transfers this channel moves.
int part_index(const WorkFormat& format, const Channel& channel, const PointToPointWork& work) {
  const int index = (channel.number - work.channel_base) & (work.channels - 1);
  if (!format.reverses_parts()) return index;
  int reversed = 0;
  for (int bit = 1; bit < work.channels; bit *= 2) {
    reversed = reversed * 2 + ((index & bit) != 0 ? 1 : 0);
  }
  return reversed;
}

// Leaves of the transfer only this channel's part.
Transfer part_of(const Transfer& transfer, int index) {
  constexpr int64_t kAlignment = 4096;
  const int64_t even = (transfer.bytes + transfer.channels - 1) / transfer.channels;
  const int64_t each = (even + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t begin = std::min(index * each, transfer.bytes);
  Transfer part = transfer;
  part.memory += begin;
  part.bytes = std::min((index + 1) * each, transfer.bytes) - begin;
  return part;
}

void run_transfer(const WorkFormat& format, const Channel& channel, const Transfer& transfer,
                  bool sends) {
  Primitives::Setup setup;
  (sends ? setup.to : setup.from) = {transfer.peer};
  setup.connection_index = 1;
  setup.protocol = transfer.is_ll ? Protocol::kLl : Protocol::kSimple;
  setup.step_bytes = channel.point_to_point_step_bytes;
  setup.input = transfer.memory;
  setup.output = transfer.memory;
  Primitives primitives(format, channel, setup, Reduction());
  int64_t done = 0;
  do {  // once also for a transfer of no bytes
    const int64_t count = std::min(transfer.chunk_bytes, transfer.bytes - done);
    primitives.run(
        {sends ? done : Operation::kNone, !sends, sends, sends ? Operation::kNone : done, count});
    done += count;
  } while (done < transfer.bytes);
}

}  // namespace

void run_collective(const WorkFormat& format, const Channel& channel,
                    const DeviceFunction& function, const CollectiveWork& work) {
  const Reduction reduction(function.op, function.type, reduction_argument(format, function, work));
  if (work.has_registered_buffer) unsupported("a registered user buffer");
  if (function.protocol == Protocol::kLl128) unsupported("the protocol LL128");
  if (function.algorithm == Algorithm::kRing) {
    RingCollective(format, channel, function, work, reduction).run();
  } else if (function.algorithm == Algorithm::kTree) {
    run_tree(format, channel, function, work, reduction);
  } else {
    unsupported("an algorithm other than ring and tree");
  }
}

void run_point_to_point(const WorkFormat& format, const Channel& channel,
                        const std::vector<PointToPointWork>& works) {
  std::vector<std::function<void()>> tasks;
  for (const PointToPointWork& work : works) {
    const int index = part_index(format, channel, work);
    const auto add = [&](const Transfer& transfer, bool sends) {
      if (index >= transfer.channels) return;
      const Transfer part = part_of(transfer, index);
      if (part.peer != channel.rank) {
        tasks.emplace_back(
            [&format, &channel, part, sends] { run_transfer(format, channel, part, sends); });
      } else if (sends) {
        const Transfer target = part_of(work.receive, index);
        std::memmove(target.memory, part.memory, static_cast<size_t>(part.bytes));
      }
    };
    add(work.receive, false);
    add(work.send, true);
  }
  run_together(tasks);
}

}  // namespace r2ccl::emulated
