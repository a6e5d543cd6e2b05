// One direction of a simulated TCP connection, without time: the bytes that the writer has put in,
// the bytes on their way, the bytes that have arrived, and the bytes that the reader has taken.
//
// Both ends share one buffer, so a packet only names its bytes: the bytes wait in the ring from
// write() to read(), copied once in and once out. A loss is repaired by going back to the first
// unacknowledged byte. An observer of a path sees no more of TCP than that.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "sim/fabric/ring_pool.h"
#include "transport/transport.h"

namespace r2ccl::sim {

// Linux: the sizes that tcp_wmem and tcp_rmem let a socket's buffers grow to.
inline constexpr uint64_t kGrownBufferBytes = 6 * 1024 * 1024;

struct StreamLimits {
  uint64_t send_buffer_bytes = 256 * 1024;     // written and not yet acknowledged
  uint64_t receive_buffer_bytes = 256 * 1024;  // arrived and not yet read
  uint64_t initial_window_bytes = 14'480;      // ten packets (RFC 6928)
  uint64_t segment_bytes = 16 * 1024;          // sent at once; the unit of sharing a NIC
};

// Bytes [offset, offset + length) of a stream. The end of a stream counts as one more byte.
struct Segment {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// The receiver's kernel tells the sender's that all bytes below `acknowledged` have arrived, and
// that bytes below `edge` have room.
struct StreamAck {
  uint64_t acknowledged = 0;
  uint64_t edge = 0;
  bool duplicate = false;  // the segment that it answers had arrived before (D-SACK)
};

class Stream {
 public:
  // `rings`: where it gets memory while it holds bytes; must outlive it.
  Stream(const StreamLimits& limits, uint32_t unsent_low_water, RingPool& rings);

  // --- the writing process ---
  size_t write(std::span<const iovec> slices);  // 0: no room now
  // The reader gets the last `bytes.size()` bytes up to `end` from where they are. They were
  // written, and must stay until the reader has them, or until release().
  void keep_in_place(uint64_t end, std::span<const std::byte> bytes);
  void release() noexcept { in_place_.clear(); }
  bool writable() const;
  uint64_t unsent() const { return end() - next_; }
  uint64_t unacknowledged() const { return written_ - std::min(acknowledged_, written_); }
  void finish() { finished_ = true; }

  // --- the sender's kernel ---
  uint64_t sendable() const;
  Segment take_segment(TimeNs now);  // requires sendable() > 0
  uint64_t congestion_window() const { return congestion_window_; }
  // Returns true when the writer may have more room or the sender more to send.
  bool on_ack(const StreamAck& ack, TimeNs now);
  // Retransmits from the first unacknowledged byte, one segment at a time until an answer arrives.
  void on_timeout();
  bool window_closed() const { return next_ < end() && next_ >= edge_ && next_ == acknowledged_; }
  bool in_flight() const { return next_ > acknowledged_; }
  // Returns true when a byte was sent, or cannot be sent, and an answer is missing.
  bool awaits_answer() const { return in_flight() || window_closed(); }
  bool all_acknowledged() const { return acknowledged_ == end(); }
  // Counts as a kernel with selective acknowledgements would: going back once repairs one packet.
  PacketCounts packets() const;
  TimeNs smoothed_round_trip() const { return smoothed_round_trip_; }  // 0: not known
  TimeNs least_round_trip() const { return least_round_trip_; }        // 0: not known

  // --- the receiver's kernel ---
  // Returns true when bytes (or the end) became readable.
  bool on_segment(const Segment& segment);
  StreamAck make_ack();
  // Returns true when the reader has made so much room that the receiver should tell the sender
  // unasked.
  bool window_update_due() const;
  uint64_t delivered() const { return delivered_; }
  uint64_t written() const { return written_; }

  // --- the reading process ---
  uint64_t readable_bytes() const;
  bool ended() const { return delivered_ > written_ && read_ == written_; }
  // Ends before bytes that are in place, unless it begins with such. Calls `fetch` with each
  // memory of the writer that it reads.
  template <typename Fetch>
  size_t read(std::span<const iovec> slices, const Fetch& fetch);
  size_t read(std::span<const iovec> slices) {
    return read(slices, [](std::span<const std::byte>) {});
  }
  // Drops bytes that are in place and come next; returns how many.
  size_t skip(size_t most);
  uint64_t taken() const { return read_; }
  uint64_t arrived() const { return std::min(delivered_, written_); }
  // Copies bytes from `offset` on without taking them. Requires that they have been written and not
  // taken.
  void peek(uint64_t offset, std::span<std::byte> into) const;

  // Changes one byte. Requires that it has been written and not taken.
  void change(uint64_t offset, std::byte mask) { ring_.bytes[offset & (ring_.size - 1)] ^= mask; }

  // Delivers no byte from `offset` on.
  void cut_at(uint64_t offset) { cut_at_ = offset; }
  bool cut_reached() const { return delivered_ >= cut_at_; }

 private:
  struct InPlace {
    uint64_t begin = 0;
    uint64_t end = 0;
    const std::byte* bytes = nullptr;
  };
  // The memory of the bytes from read_ on, at most `most`, that are in place; empty: none.
  std::span<const std::byte> next_in_place(size_t most);
  size_t take_plain(const iovec& slice);
  void on_taken();
  void time_round_trip(TimeNs now);
  void grow_window(uint64_t acknowledged);
  void shrink_window();
  uint64_t end() const { return written_ + (finished_ ? 1 : 0); }
  size_t room() const;
  void make_ring(uint64_t bytes);
  void copy_in(const std::byte* from, size_t bytes);

  StreamLimits limits_;
  uint64_t unsent_low_water_;
  RingPool* rings_;
  uint64_t ring_size_ = 0;  // of the last ring: the next one need not grow to it again
  RingPool::Ring ring_;     // bytes [read_, written_); empty, or a power of two long

  std::deque<InPlace> in_place_;  // in order, and not read yet

  // In the order read_ <= delivered_ <= next highest sent <= end(); acknowledged_ <= delivered_.
  uint64_t read_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t delivered_ = 0;
  uint64_t next_ = 0;  // first byte to send; goes back after a loss
  uint64_t written_ = 0;
  bool finished_ = false;

  uint64_t edge_;         // the sender's view of the receiver's room
  uint64_t advertised_;   // the edge in the last acknowledgement sent
  uint64_t recover_ = 0;  // no second going back before this byte is acknowledged
  // Bytes that may be sent and not yet acknowledged: NewReno's slow start and congestion avoidance
  // (RFC 5681, RFC 6582), up to the send buffer. It grows only while the sender uses it
  // (RFC 7661).
  uint64_t congestion_window_;
  uint64_t slow_start_threshold_ = UINT64_MAX;
  uint64_t highest_sent_ = 0;
  // A small segment is a packet of its own: a stream of few bytes delivers packets, too.
  uint64_t packets_sent_ = 0;
  uint64_t packets_delivered_ = 0;  // <= packets_sent_
  // One byte at a time is timed, and none that was sent twice (Karn and Partridge, SIGCOMM 1987).
  uint64_t timed_end_ = 0;  // 0: none
  TimeNs timed_at_ = 0;
  TimeNs smoothed_round_trip_ = 0;
  TimeNs least_round_trip_ = 0;
  uint64_t retransmissions_ = 0;
  uint64_t spurious_ = 0;
  bool repeated_ = false;       // the last segment had arrived before
  bool repair_counts_ = false;  // no answer yet shows that the last repair was in vain
  uint64_t cut_at_ = UINT64_MAX;
};

template <typename Fetch>
size_t Stream::read(std::span<const iovec> slices, const Fetch& fetch) {
  const uint64_t before = read_;
  bool plain = false;
  for (const iovec& slice : slices) {
    auto* into = static_cast<std::byte*>(slice.iov_base);
    size_t left = slice.iov_len;
    while (left > 0 && readable_bytes() > 0) {
      const std::span<const std::byte> source = next_in_place(left);
      if (!source.empty() && plain) break;
      if (!source.empty()) {
        fetch(source);
        std::memcpy(into, source.data(), source.size());
        read_ += source.size();
      } else {
        plain = true;
      }
      const size_t bytes = source.empty() ? take_plain({into, left}) : source.size();
      into += bytes;
      left -= bytes;
    }
    if (left > 0) break;
  }
  on_taken();
  return read_ - before;
}

}  // namespace r2ccl::sim
