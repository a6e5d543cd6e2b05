// One end of a connection between two ranks on a channel: a ring of eight buffers ("steps") that
// NCCL's proxy, or the other rank, fills or empties.
#pragma once

#include <cstdint>

#include "waiting.h"
#include "work_format.h"

namespace r2ccl::emulated {

// Counts steps. The sender publishes the step that it has written as the tail, the receiver the one
// that it has read as the head. With the protocol LL the tail stays where it is: flags between the
// data mark the lines that have arrived.
class Connection {
 public:
  // `memory` is NCCL's struct. A kernel begins at a multiple of `steps_in_chunk`, because the one
  // before may have ended within a chunk.
  Connection(const ConnectionFormat& format, const Channel& channel, char* memory,
             Protocol protocol, uint64_t steps_in_chunk);

  uint64_t step() const { return step_; }
  // Returns the buffer of the current step.
  char* buffer() const;
  int64_t step_bytes() const { return step_bytes_; }

  void wait_until_free(uint64_t steps) const;     // for the sender
  void wait_until_written(uint64_t steps) const;  // for the receiver
  // Tells NCCL's proxy how many bytes the step will have.
  void announce(int64_t bytes) const;
  void publish_written(uint64_t steps);  // the sender's advance
  void publish_read(uint64_t steps);     // the receiver's
  void advance(uint64_t steps) { step_ += steps; }
  // Repeats the head: the first kernel of a connection must show it.
  void publish_head() const;

  // Stores the step for the next kernel.
  void save() const;
  Waiting waiting() const { return Waiting(abort_flag_); }

 private:
  char* fifo_entry() const;
  static uint64_t load(const uint64_t* counter);
  static void store(uint64_t* counter, uint64_t value);

  const ConnectionFormat* format_;
  const volatile uint32_t* abort_flag_;
  char* memory_;
  char* buffers_;
  char* fifo_;
  uint64_t* tail_;
  uint64_t* head_;
  uint64_t step_;
  int64_t step_bytes_;
};

}  // namespace r2ccl::emulated
