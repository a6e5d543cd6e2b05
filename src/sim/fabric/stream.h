// One direction of a simulated TCP connection, without time: what the writer has put in, what is on
// its way, what has arrived and what the reader has taken.
//
// Both ends share one buffer, because a packet needs only say which bytes it carries: the bytes
// wait in the ring from write() to read(), copied once in and once out. Loss is repaired by going
// back to the first byte that was not acknowledged, which is all of TCP that an observer of a path
// can see.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace r2ccl::sim {

struct StreamLimits {
  uint64_t send_buffer_bytes = 256 * 1024;     // written and not yet acknowledged
  uint64_t receive_buffer_bytes = 256 * 1024;  // arrived and not yet read
  uint64_t in_flight_bytes = 128 * 1024;       // sent and not yet acknowledged
  uint64_t segment_bytes = 16 * 1024;          // sent at once; the grain of sharing a NIC
};

// Bytes [offset, offset + length) of a stream. The end of a stream counts as one byte more.
struct Segment {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// What the receiver's kernel tells the sender's: all bytes below `acknowledged` have arrived, and
// bytes below `edge` have room.
struct StreamAck {
  uint64_t acknowledged = 0;
  uint64_t edge = 0;
  bool duplicate = false;  // the segment that it answers had arrived before (D-SACK)
};

class Stream {
 public:
  Stream(const StreamLimits& limits, uint32_t unsent_low_water);

  // The writing process.
  size_t write(std::span<const iovec> slices);  // 0: no room now
  bool writable() const;
  uint64_t unsent() const { return end() - next_; }
  void finish() { finished_ = true; }

  // The sender's kernel.
  uint64_t sendable() const;
  Segment take_segment();  // sendable() is not zero
  // True when the writer may have more room or the sender more to send.
  bool on_ack(const StreamAck& ack);
  // Retransmits from the first unacknowledged byte, one segment until an answer comes.
  void on_timeout();
  bool window_closed() const { return next_ < end() && next_ >= edge_ && next_ == acknowledged_; }
  bool in_flight() const { return next_ > acknowledged_; }
  // Something was sent, or cannot be sent, and an answer is missing.
  bool awaits_answer() const { return in_flight() || window_closed(); }
  bool all_acknowledged() const { return acknowledged_ == end(); }
  // As a kernel would count with selective acknowledgements: going back once repairs one packet.
  PacketCounts packets() const;

  // The receiver's kernel. True when bytes (or the end) became readable.
  bool on_segment(const Segment& segment);
  StreamAck make_ack();
  // The reader has made so much room that the sender should hear of it without being asked.
  bool window_update_due() const;
  uint64_t delivered() const { return delivered_; }
  uint64_t written() const { return written_; }

  // The reading process.
  uint64_t readable_bytes() const;
  bool ended() const { return delivered_ > written_ && read_ == written_; }
  size_t read(std::span<const iovec> slices);
  uint64_t taken() const { return read_; }
  uint64_t arrived() const { return std::min(delivered_, written_); }
  // Bytes from `offset` on, which have been written and not taken, without taking them.
  void peek(uint64_t offset, std::span<std::byte> into) const;

  // One byte that has been written and not taken is another one.
  void change(uint64_t offset, std::byte mask) { ring_[offset & (ring_.size() - 1)] ^= mask; }

  // Nothing beyond byte `offset` is ever delivered.
  void cut_at(uint64_t offset) { cut_at_ = offset; }
  bool cut_reached() const { return delivered_ >= cut_at_; }

 private:
  uint64_t end() const { return written_ + (finished_ ? 1 : 0); }
  size_t room() const;
  void make_ring(uint64_t bytes);
  void copy_in(const std::byte* from, size_t bytes);

  StreamLimits limits_;
  uint64_t unsent_low_water_;
  std::vector<std::byte> ring_;  // bytes [read_, written_); a power of two long

  // In the order read_ <= delivered_ <= next highest sent <= end(); acknowledged_ <= delivered_.
  uint64_t read_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t delivered_ = 0;
  uint64_t next_ = 0;  // first byte to send; goes back when something was lost
  uint64_t written_ = 0;
  bool finished_ = false;

  uint64_t edge_;             // the sender's view of the receiver's room
  uint64_t advertised_;       // the edge in the last acknowledgement sent
  uint64_t recover_ = 0;      // no second going back before this byte is acknowledged
  bool one_segment_ = false;  // after a timeout, until an answer comes
  uint64_t highest_sent_ = 0;
  uint64_t retransmissions_ = 0;
  uint64_t spurious_ = 0;
  bool repeated_ = false;       // the last segment had arrived before
  bool repair_counts_ = false;  // nothing says yet that the last repair was in vain
  uint64_t cut_at_ = UINT64_MAX;
};

}  // namespace r2ccl::sim
