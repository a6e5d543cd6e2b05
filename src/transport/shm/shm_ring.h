// A byte ring in memory that two processes share: one end writes, the other reads.
//
// Each end keeps its own index in private memory and publishes it. The other end's published index
// is foreign input: it is read once per call, and an impossible one is an error. An index counts
// all bytes since the connection was opened, so it never wraps in practice. All offsets are masked,
// so no value in the shared memory leads outside the ring.
//
// A writer that finds the ring drained goes back to its beginning. So an idle connection, or one
// whose reader keeps up, touches few pages and stays in the processor's cache.
//
// An end that is about to sleep sets its `waiting` flag and looks at the ring again; the other end
// moves its index and then looks at the flag. Full fences on both sides (Dekker's pattern) exclude
// that both miss each other. So a busy ring needs no system call.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace r2ccl {

inline constexpr size_t kShmCacheLine = 64;

// The size of a connection's ring. Only pages that were written to take memory.
inline constexpr size_t kShmRingBytes = size_t{512} << 10;

// The shared state of one ring. A line has one writer, but for the flags, which both ends change.
struct ShmRingState {
  alignas(kShmCacheLine) std::atomic<uint64_t> head;  // bytes written
  std::atomic<uint64_t> origin;      // the index whose byte lies at the ring's beginning
  std::atomic<uint64_t> references;  // made by the writer (shm_reference.h): on a polled line
  std::atomic<uint32_t> closed;      // the writing end is destroyed
  alignas(kShmCacheLine) std::atomic<uint64_t> tail;            // bytes read
  alignas(kShmCacheLine) std::atomic<uint32_t> reader_waiting;  // 1: wake it when bytes arrive
  alignas(kShmCacheLine) std::atomic<uint32_t> writer_waiting;  // 1: wake it when space is free
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

enum class ShmIndex : uint8_t {
  sound,
  impossible,  // the other end published an index that no honest end has
};

// The writing end. `bytes` must be a power of two.
class ShmRingWriter {
 public:
  ShmRingWriter() = default;
  ShmRingWriter(ShmRingState& state, std::byte* ring, size_t bytes)
      : state_(&state), ring_(ring), bytes_(bytes) {}

  struct Moved {
    ShmIndex index = ShmIndex::sound;
    size_t bytes = 0;
    bool wake = false;  // the other end sleeps: ring its bell
  };
  // Copies as many bytes of `slices` as there is space for.
  Moved write(std::span<const iovec> slices);
  // Returns how many bytes a write() would take; 0 also when the reader's index is impossible.
  size_t space() const;
  // Returns the index of the next byte.
  uint64_t head() const { return head_; }
  // Returns whether the other end sleeps, which is to know of something beside the ring.
  bool wake();
  // Returns whether half of the ring is free, or the reader's index is impossible.
  bool has_space() const;
  void set_waiting(bool on) { state_->writer_waiting.store(on, std::memory_order_relaxed); }
  void close() { state_->closed.store(1, std::memory_order_release); }

 private:
  ShmRingState* state_ = nullptr;
  std::byte* ring_ = nullptr;
  size_t bytes_ = 0;
  uint64_t head_ = 0;
  uint64_t origin_ = 0;  // <= head_
};

// The reading end.
class ShmRingReader {
 public:
  using Moved = ShmRingWriter::Moved;

  ShmRingReader() = default;
  ShmRingReader(ShmRingState& state, const std::byte* ring, size_t bytes)
      : state_(&state), ring_(ring), bytes_(bytes) {}

  // Copies the bytes that had arrived at the last look(), at most `most` and as many as `slices`
  // hold after their first `from` bytes.
  Moved read(std::span<const iovec> slices, size_t most = SIZE_MAX, size_t from = 0);
  void look() { head_ = state_->head.load(std::memory_order_acquire); }
  // Returns the index of the next byte.
  uint64_t tail() const { return tail_; }
  // Returns whether bytes have arrived, or the writer's index is impossible.
  bool has_bytes() const { return state_->head.load(std::memory_order_acquire) != tail_; }
  void set_waiting(bool on) { state_->reader_waiting.store(on, std::memory_order_relaxed); }
  // Returns whether the writing end is destroyed. It wrote all its bytes before.
  bool closed() const { return state_->closed.load(std::memory_order_acquire) != 0; }

 private:
  ShmRingState* state_ = nullptr;
  const std::byte* ring_ = nullptr;
  size_t bytes_ = 0;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;  // as the writer last published it
};

}  // namespace r2ccl
