#pragma once

#include "device_functions.h"
#include "primitives.h"
#include "reduction.h"
#include "work_format.h"

namespace r2ccl::emulated {

// A collective over the channel's ring. Blocks and places are counted in elements.
class RingCollective {
 public:
  RingCollective(const WorkFormat& format, const Channel& channel, const DeviceFunction& function,
                 const CollectiveWork& work, const Reduction& reduction);
  // Throws Aborted.
  void run();

 private:
  void all_reduce(int64_t begin);
  void all_gather(int64_t begin, int64_t count);
  void reduce_scatter(int64_t begin, int64_t count);
  void broadcast(int64_t begin, int64_t count);
  void reduce(int64_t begin, int64_t count);
  // Returns the place of a rank's block in a buffer of all ranks, by its position in the ring.
  int64_t block_of(int position) const;

  const Channel& channel_;
  const DeviceFunction& function_;
  const CollectiveWork& work_;
  const size_t element_bytes_;
  const ChannelPart part_;
  Primitives primitives_;
};

}  // namespace r2ccl::emulated
