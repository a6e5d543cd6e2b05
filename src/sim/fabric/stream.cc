#include "sim/fabric/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr uint64_t kPacketPayload = 1448;

uint64_t packets_of(uint64_t bytes) {
  return (bytes + kPacketPayload - 1) / kPacketPayload;
}

}  // namespace

Stream::Stream(const StreamLimits& limits, uint32_t unsent_low_water, RingPool& rings)
    : limits_(limits),
      unsent_low_water_(unsent_low_water),
      rings_(&rings),
      edge_(limits.receive_buffer_bytes),
      advertised_(limits.receive_buffer_bytes),
      congestion_window_(limits.initial_window_bytes) {}

size_t Stream::room() const {
  const uint64_t held = written_ - acknowledged_;
  if (finished_ || held >= limits_.send_buffer_bytes) return 0;
  uint64_t room = limits_.send_buffer_bytes - held;
  if (unsent_low_water_ > 0) {
    if (unsent() >= unsent_low_water_) return 0;
    // Linux overshoots the mark by the buffer that it is filling, too.
    room = std::min(room, std::max(unsent_low_water_ - unsent(), limits_.segment_bytes));
  }
  return room;
}

bool Stream::writable() const {
  // Like Linux: a third of the buffer must be free, so that a writer is not woken for a few bytes.
  return room() > 0 && 3 * (written_ - acknowledged_) <= 2 * limits_.send_buffer_bytes;
}

size_t Stream::write(std::span<const iovec> slices) {
  size_t left = room();
  const uint64_t before = written_;
  for (const iovec& slice : slices) {
    const size_t bytes = std::min(left, slice.iov_len);
    make_ring(written_ - read_ + bytes);
    copy_in(static_cast<const std::byte*>(slice.iov_base), bytes);
    left -= bytes;
    if (left == 0) break;
  }
  return written_ - before;
}

uint64_t Stream::sendable() const {
  const uint64_t limit = std::min({end(), edge_, acknowledged_ + congestion_window_});
  return limit > next_ ? limit - next_ : 0;
}

Segment Stream::take_segment(TimeNs now) {
  const Segment segment{next_, std::min(sendable(), limits_.segment_bytes)};
  R2CCL_CHECK(segment.length > 0);
  next_ += segment.length;
  if (next_ > highest_sent_ && timed_end_ == 0) {
    timed_end_ = next_;
    timed_at_ = now;
  }
  if (next_ > highest_sent_) packets_sent_ += packets_of(next_ - highest_sent_);
  highest_sent_ = std::max(highest_sent_, next_);
  return segment;
}

PacketCounts Stream::packets() const {
  PacketCounts counts;
  counts.sent = packets_sent_ + retransmissions_;
  counts.retransmitted = retransmissions_;
  counts.spurious = spurious_;
  counts.delivered = packets_delivered_;
  return counts;
}

void Stream::time_round_trip(TimeNs now) {
  if (timed_end_ == 0 || acknowledged_ < timed_end_) return;
  timed_end_ = 0;
  const TimeNs sample = std::max<TimeNs>(now - timed_at_, 1);
  smoothed_round_trip_ = smoothed_round_trip_ == 0
                             ? sample
                             : smoothed_round_trip_ + (sample - smoothed_round_trip_) / 8;
  least_round_trip_ = least_round_trip_ == 0 ? sample : std::min(least_round_trip_, sample);
}

bool Stream::on_ack(const StreamAck& ack, TimeNs now) {
  const bool opened = ack.edge > edge_;
  edge_ = std::max(edge_, ack.edge);
  if (ack.duplicate && std::exchange(repair_counts_, false)) ++spurious_;
  if (ack.acknowledged > acknowledged_) {
    grow_window(ack.acknowledged - acknowledged_);
    packets_delivered_ += packets_of(ack.acknowledged - acknowledged_);
    acknowledged_ = ack.acknowledged;
    next_ = std::max(next_, acknowledged_);
    time_round_trip(now);
    return true;
  }
  // A second acknowledgement for the same byte while later bytes are on their way: a segment was
  // lost.
  const bool repeated = ack.acknowledged == acknowledged_ && next_ > acknowledged_ && !opened;
  if (repeated && acknowledged_ >= recover_) {
    recover_ = next_;
    shrink_window();
    next_ = acknowledged_;
    timed_end_ = 0;
    ++retransmissions_;
    repair_counts_ = true;
    return true;
  }
  return opened;
}

void Stream::on_timeout() {
  if (next_ == acknowledged_) return;
  recover_ = std::max(recover_, next_);
  shrink_window();
  congestion_window_ = std::min(congestion_window_, limits_.segment_bytes);
  next_ = acknowledged_;
  timed_end_ = 0;
  ++retransmissions_;
  repair_counts_ = true;
}

void Stream::grow_window(uint64_t acknowledged) {
  // Like Linux: slow start grows the window to twice the bytes in flight.
  const bool slow_start = congestion_window_ < slow_start_threshold_;
  const uint64_t needed = (slow_start ? 2 : 1) * (next_ - acknowledged_ + kPacketPayload);
  if (needed <= congestion_window_) return;
  congestion_window_ +=
      slow_start ? acknowledged : kPacketPayload * acknowledged / congestion_window_ + 1;
  congestion_window_ = std::min(congestion_window_, limits_.send_buffer_bytes);
}

void Stream::shrink_window() {
  slow_start_threshold_ = std::max((next_ - acknowledged_) / 2, 2 * kPacketPayload);
  congestion_window_ = slow_start_threshold_;
}

bool Stream::on_segment(const Segment& segment) {
  const uint64_t before = delivered_;
  if (segment.offset <= delivered_) {
    const uint64_t segment_end = std::min(segment.offset + segment.length, cut_at_);
    delivered_ = std::max(delivered_, segment_end);
  }
  repeated_ = delivered_ == before && segment.offset + segment.length <= delivered_;
  return delivered_ > before;
}

StreamAck Stream::make_ack() {
  advertised_ = read_ + limits_.receive_buffer_bytes;
  return {delivered_, advertised_, std::exchange(repeated_, false)};
}

bool Stream::window_update_due() const {
  return read_ + limits_.receive_buffer_bytes >= advertised_ + limits_.receive_buffer_bytes / 4;
}

uint64_t Stream::readable_bytes() const {
  return arrived() - read_;
}

void Stream::keep_in_place(uint64_t end, std::span<const std::byte> bytes) {
  R2CCL_CHECK(end <= written_ && (in_place_.empty() || in_place_.back().end <= end - bytes.size()));
  in_place_.push_back({end - bytes.size(), end, bytes.data()});
}

std::span<const std::byte> Stream::next_in_place(size_t most) {
  while (!in_place_.empty() && in_place_.front().end <= read_) in_place_.pop_front();
  if (in_place_.empty() || in_place_.front().begin > read_) return {};
  const InPlace& next = in_place_.front();
  const uint64_t bytes = std::min({uint64_t{most}, next.end - read_, readable_bytes()});
  return {next.bytes + (read_ - next.begin), bytes};
}

// Takes bytes from the ring, up to those in place.
size_t Stream::take_plain(const iovec& slice) {
  uint64_t bytes = std::min<uint64_t>(readable_bytes(), slice.iov_len);
  if (!in_place_.empty()) bytes = std::min(bytes, in_place_.front().begin - read_);
  peek(read_, {static_cast<std::byte*>(slice.iov_base), bytes});
  read_ += bytes;
  return bytes;
}

size_t Stream::skip(size_t most) {
  const size_t bytes = next_in_place(most).size();
  read_ += bytes;
  on_taken();
  return bytes;
}

void Stream::on_taken() {
  if (read_ == written_) rings_->give(std::exchange(ring_, {}));
}

// Grows the ring to hold `bytes`, keeping its content.
void Stream::make_ring(uint64_t bytes) {
  if (bytes <= ring_.size) return;
  RingPool::Ring grown = rings_->take(std::max(bytes, ring_size_));
  const uint64_t size = ring_size_ = grown.size;
  for (uint64_t at = read_; at < written_;) {
    const uint64_t from = at & (ring_.size - 1);
    const uint64_t to = at & (size - 1);
    const uint64_t run = std::min({written_ - at, ring_.size - from, size - to});
    std::memcpy(grown.bytes.get() + to, ring_.bytes.get() + from, run);
    at += run;
  }
  rings_->give(std::exchange(ring_, std::move(grown)));
}

void Stream::copy_in(const std::byte* from, size_t bytes) {
  while (bytes > 0) {
    const uint64_t at = written_ & (ring_.size - 1);
    const size_t run = std::min<size_t>(bytes, ring_.size - at);
    std::memcpy(ring_.bytes.get() + at, from, run);
    written_ += run;
    from += run;
    bytes -= run;
  }
}

void Stream::peek(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const uint64_t at = offset & (ring_.size - 1);
    const size_t run = std::min<size_t>(into.size(), ring_.size - at);
    std::memcpy(into.data(), ring_.bytes.get() + at, run);
    offset += run;
    into = into.subspan(run);
  }
}

}  // namespace r2ccl::sim
