#include "ring.h"

#include <algorithm>

#include "report.h"

namespace r2ccl::emulated {
namespace {

constexpr int64_t kNone = Operation::kNone;

// Collectives without a reduction count bytes.
size_t ring_element_bytes(const DeviceFunction& function) {
  const bool moves_only = function.collective == Collective::kAllGather ||
                          function.collective == Collective::kBroadcast;
  return moves_only ? 1 : element_bytes(function.type);
}

// NCCL gives sizes of chunks in grains.
int64_t ring_grain(const DeviceFunction& function) {
  const int64_t grain_bytes = function.protocol == Protocol::kLl ? 16 : 512;
  return grain_bytes / static_cast<int64_t>(ring_element_bytes(function));
}

Primitives::Setup ring_setup(const Channel& channel, const DeviceFunction& function,
                             const CollectiveWork& work) {
  // A pipeline of chunks in one direction has larger steps than the exchange of all ranks.
  const bool is_pipeline =
      function.collective == Collective::kBroadcast || function.collective == Collective::kReduce;
  Primitives::Setup setup;
  setup.from = {channel.ring.previous};
  setup.to = {channel.ring.next};
  setup.protocol = function.protocol;
  setup.slices_in_chunk = is_pipeline ? 1 : 2;
  setup.steps_in_slice = is_pipeline ? 1 : 2;
  setup.step_bytes = channel.simple_step_bytes;
  setup.element_bytes = ring_element_bytes(function);
  setup.input = work.input;
  setup.output = work.output;
  return setup;
}

}  // namespace

RingCollective::RingCollective(const WorkFormat& format, const Channel& channel,
                               const DeviceFunction& function, const CollectiveWork& work,
                               const Reduction& reduction)
    : channel_(channel),
      function_(function),
      work_(work),
      element_bytes_(ring_element_bytes(function)),
      part_(work.part_of(channel.number, ring_grain(function))),
      primitives_(format, channel, ring_setup(channel, function, work), reduction) {}

void RingCollective::run() {
  const bool is_all_reduce = function_.collective == Collective::kAllReduce;
  const int64_t chunk = is_all_reduce ? channel_.ranks * part_.chunk : part_.chunk;
  for (int64_t done = 0; done < part_.count; done += chunk) {
    const int64_t begin = part_.offset + done;
    const int64_t count = std::min(chunk, part_.count - done);
    switch (function_.collective) {
      case Collective::kAllReduce:
        all_reduce(begin);
        break;
      case Collective::kAllGather:
        all_gather(begin, count);
        break;
      case Collective::kReduceScatter:
        reduce_scatter(begin, count);
        break;
      case Collective::kBroadcast:
        broadcast(begin, count);
        break;
      case Collective::kReduce:
        reduce(begin, count);
        break;
      case Collective::kPointToPoint:
      case Collective::kAllGatherV:
        unsupported("this collective over a ring");
    }
  }
}

int64_t RingCollective::block_of(int position) const {
  return channel_.ring.ranks[position] * part_.whole_count;
}

// Each rank begins with a chunk of its own: it goes round and is summed up, then once more to tell
// all ranks.
void RingCollective::all_reduce(int64_t begin) {
  const int ranks = channel_.ranks;
  const int own = channel_.ring.index;
  const int64_t left = part_.offset + part_.count - begin;
  int64_t chunk = part_.chunk;
  if (left < ranks * chunk) {
    // The last chunks are shorter, in units of 16 bytes.
    const int64_t unit = 16 / static_cast<int64_t>(element_bytes_);
    const int64_t even = (left + ranks - 1) / ranks;
    chunk = (even + unit - 1) / unit * unit;
  }
  const auto operate = [&](int which, bool adds, bool receives, bool sends, bool stores,
                           bool completes = false) {
    const int64_t offset = which % ranks * chunk;
    const int64_t count = std::max<int64_t>(std::min(chunk, left - offset), 0);
    primitives_.run({adds ? begin + offset : kNone, receives, sends,
                     stores ? begin + offset : kNone, count, completes});
  };
  operate(own + ranks - 1, true, false, true, false);
  for (int i = 2; i < ranks; ++i) operate(own + ranks - i, true, true, true, false);
  operate(own, true, true, true, true, true);
  for (int i = 1; i < ranks - 1; ++i) operate(own + ranks - i, false, true, true, true);
  operate(own + 1, false, true, false, true);
}

void RingCollective::all_gather(int64_t begin, int64_t count) {
  const int ranks = channel_.ranks;
  const bool is_in_place = work_.input == work_.output + block_of(0);
  const int64_t own = is_in_place ? kNone : begin + block_of(0);
  primitives_.run({begin, false, true, own, count});
  for (int i = 1; i < ranks - 1; ++i) {
    primitives_.run({kNone, true, true, begin + block_of(ranks - i), count});
  }
  primitives_.run({kNone, true, false, begin + block_of(1), count});
}

void RingCollective::reduce_scatter(int64_t begin, int64_t count) {
  const int ranks = channel_.ranks;
  primitives_.run({begin + block_of(ranks - 1), false, true, kNone, count});
  for (int i = 2; i < ranks; ++i) {
    primitives_.run({begin + block_of(ranks - i), true, true, kNone, count});
  }
  primitives_.run({begin + block_of(0), true, false, begin, count, true});
}

void RingCollective::broadcast(int64_t begin, int64_t count) {
  if (channel_.ring.ranks[0] == work_.root) {
    const bool is_in_place = work_.input == work_.output;
    primitives_.run({begin, false, true, is_in_place ? kNone : begin, count});
  } else if (channel_.ring.ranks[1] == work_.root) {
    primitives_.run({kNone, true, false, begin, count});
  } else {
    primitives_.run({kNone, true, true, begin, count});
  }
}

void RingCollective::reduce(int64_t begin, int64_t count) {
  if (channel_.ring.previous == work_.root) {
    primitives_.run({begin, false, true, kNone, count});
  } else if (channel_.rank == work_.root) {
    primitives_.run({begin, true, false, begin, count, true});
  } else {
    primitives_.run({begin, true, true, kNone, count});
  }
}

}  // namespace r2ccl::emulated
