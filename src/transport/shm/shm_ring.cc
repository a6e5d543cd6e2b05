#include "transport/shm/shm_ring.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace r2ccl {
namespace {

// An end publishes its index after so many bytes, so that the other end copies at the same time.
constexpr size_t kPieceBytes = 32 * 1024;

// Walks over the bytes of slices.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> slices) : slices_(slices) {}

  // Returns the next bytes in one piece, at most `most`; empty at the end.
  std::span<std::byte> next(size_t most) {
    while (!slices_.empty() && slices_.front().iov_len == offset_) {
      slices_ = slices_.subspan(1);
      offset_ = 0;
    }
    if (slices_.empty()) return {};
    const iovec& slice = slices_.front();
    const size_t count = std::min(most, slice.iov_len - offset_);
    std::byte* const begin = static_cast<std::byte*>(slice.iov_base) + offset_;
    offset_ += count;
    return {begin, count};
  }

  void drop(size_t bytes) {
    while (bytes > 0) {
      const size_t dropped = next(bytes).size();
      R2CCL_CHECK(dropped > 0);
      bytes -= dropped;
    }
  }

 private:
  std::span<const iovec> slices_;
  size_t offset_ = 0;  // in the first slice
};

// Returns true once for each sleep of the other end.
bool take_waiting(std::atomic<uint32_t>& waiting) {
  return waiting.load(std::memory_order_relaxed) != 0 &&
         waiting.exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace

ShmRingWriter::Moved ShmRingWriter::write(std::span<const iovec> slices) {
  const uint64_t used = head_ - state_->tail.load(std::memory_order_acquire);
  if (used > bytes_) return {.index = ShmIndex::impossible, .bytes = 0, .wake = false};
  if (used == 0 && origin_ != head_) {
    // The reader looks at the origin only while it has bytes to read.
    origin_ = head_;
    state_->origin.store(origin_, std::memory_order_relaxed);
  }
  Moved moved;
  Cursor cursor(slices);
  const size_t space = bytes_ - static_cast<size_t>(used);
  size_t unpublished = 0;
  while (moved.bytes < space) {
    const size_t at = static_cast<size_t>(head_ - origin_) & (bytes_ - 1);
    const auto piece =
        cursor.next(std::min({space - moved.bytes, bytes_ - at, kPieceBytes - unpublished}));
    if (piece.empty()) break;
    std::memcpy(ring_ + at, piece.data(), piece.size());
    head_ += piece.size();
    moved.bytes += piece.size();
    unpublished += piece.size();
    if (unpublished < kPieceBytes) continue;
    state_->head.store(head_, std::memory_order_release);
    unpublished = 0;
  }
  R2CCL_CHECK(moved.bytes <= space);
  if (moved.bytes == 0) return moved;
  state_->head.store(head_, std::memory_order_release);
  moved.wake = wake();
  return moved;
}

size_t ShmRingWriter::space() const {
  const uint64_t used = head_ - state_->tail.load(std::memory_order_acquire);
  return used > bytes_ ? 0 : bytes_ - static_cast<size_t>(used);
}

bool ShmRingWriter::wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return take_waiting(state_->reader_waiting);
}

bool ShmRingWriter::has_space() const {
  const uint64_t used = head_ - state_->tail.load(std::memory_order_acquire);
  return used <= bytes_ / 2 || used > bytes_;
}

ShmRingReader::Moved ShmRingReader::read(std::span<const iovec> slices, size_t most, size_t from) {
  if (head_ - tail_ > bytes_) return {.index = ShmIndex::impossible, .bytes = 0, .wake = false};
  const uint64_t there = std::min<uint64_t>(head_ - tail_, most);
  Moved moved;
  if (there == 0) return moved;
  const uint64_t origin = state_->origin.load(std::memory_order_relaxed);
  Cursor cursor(slices);
  cursor.drop(from);
  size_t unpublished = 0;
  while (moved.bytes < there) {
    const size_t at = static_cast<size_t>(tail_ - origin) & (bytes_ - 1);
    const auto piece = cursor.next(std::min(
        {static_cast<size_t>(there) - moved.bytes, bytes_ - at, kPieceBytes - unpublished}));
    if (piece.empty()) break;
    std::memcpy(piece.data(), ring_ + at, piece.size());
    tail_ += piece.size();
    moved.bytes += piece.size();
    unpublished += piece.size();
    if (unpublished < kPieceBytes) continue;
    state_->tail.store(tail_, std::memory_order_release);
    unpublished = 0;
  }
  R2CCL_CHECK(moved.bytes <= there);
  state_->tail.store(tail_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // As in has_space(): the writer sleeps until half of the ring is free.
  const uint64_t left = state_->head.load(std::memory_order_relaxed) - tail_;
  if (left <= bytes_ / 2) moved.wake = take_waiting(state_->writer_waiting);
  return moved;
}

}  // namespace r2ccl
