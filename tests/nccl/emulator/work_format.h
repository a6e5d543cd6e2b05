// Reads NCCL's structs for kernels. Only this class knows where their members are.
#pragma once

#include <string>
#include <vector>

#include "layout.h"
#include "work.h"

namespace r2ccl::emulated {

// The members of a connection that a kernel uses.
struct ConnectionFormat {
  Field buffers, tail, head, step, step_bytes, fifo;
  Field fifo_mode, fifo_offset, fifo_bytes;
  size_t fifo_entry_bytes = 0;
  size_t bytes = 0;          // of a connection
  Field senders, receivers;  // of a peer: its connections
};

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
  Field in_comm(const std::string& member) const { return layout_.field(comm_ + "." + member); }

  const Layout& layout_;
  const int version_;
  std::string comm_;  // the name of the communicator's struct in this version

  struct {
    Field comm, channel_mask, storage, works_mask, works;
    size_t bytes;
  } parameters_;
  struct {
    Field next, is_extended, type, function, first_offset, works;
    size_t bytes;
  } batch_;
  struct {
    Field rank, ranks, buffer_bytes, point_to_point_step_bytes, abort_flag, channels;
  } in_comm_;
  struct {
    Field peers, ring, tree, work_counter;
    Field previous, next, ring_ranks, index, up, down;
    size_t bytes;
  } channel_;
  struct {
    Field first_channel, last_channel, root, input, output, argument, argument_is_pointer;
    Field counts[3], chunk_grains[3];
    Field has_registered_buffer, has_network_buffer;
    size_t bytes;
  } collective_;
  struct Direction {
    Field memory, bytes, peer, channels, chunk_bytes, is_ll;
  };
  struct {
    Direction send, receive;
    Field channel_base, channels;
    size_t bytes;
  } point_to_point_;
  ConnectionFormat connection_;

  static Transfer transfer(const char* work, const Direction& direction);
};

}  // namespace r2ccl::emulated
