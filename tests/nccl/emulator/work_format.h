// Reads NCCL's structs for kernels into values, with the rules that differ between versions.
#pragma once

#include <vector>

#include "layout.h"
#include "struct_formats.h"
#include "work.h"

namespace r2ccl::emulated {

class WorkFormat {
 public:
  WorkFormat(const Layout& layout, int version);

  Parameters parameters(const char* block) const;
  Channel channel(const char* comm, int number) const;
  Batch batch(const Parameters& parameters, size_t index) const;
  // Returns copies of the batch's works, each as NCCL stored it.
  std::vector<std::vector<char>> works(const Parameters& parameters, const Batch& batch) const;
  CollectiveWork collective(const char* work) const;
  PointToPointWork point_to_point(const char* work) const;
  // Counts works that are done, for NCCL's profiler.
  void count_works(const Channel& channel, size_t count) const;

  const ConnectionFormat& connection() const { return connection_; }
  // Up to 2.27 the parts of a transfer are on its channels in bit-reversed order.
  bool reverses_parts() const { return version_ < 22800; }
  // Up to 2.23 the argument of an average of integers has no bit for the sign of their type.
  bool average_has_sign_bit() const { return version_ >= 22400; }

 private:
  static Transfer transfer(const char* work, const TransferFormat& format);

  const int version_;
  const ParametersFormat parameters_;
  const BatchFormat batch_;
  const CommFormat comm_;
  const ChannelFormat channel_;
  const CollectiveFormat collective_;
  const PointToPointFormat point_to_point_;
  const ConnectionFormat connection_;
};

}  // namespace r2ccl::emulated
