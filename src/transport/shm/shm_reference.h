// References: bytes of a connection that stay in the writer's memory until the reader fetches them
// from there (process_vm_readv), so they are copied once and not twice. They stand beside the ring:
// a reference says before which byte of the ring its own bytes come.
//
// The writer may end a reference before its bytes are fetched: it puts a copy in their place, or
// nothing. The reader looks at the address again after each fetch and before it uses the bytes, as
// in a sequence lock. So it never uses bytes that the writer's owner has changed since.
//
// Everything in the shared memory is foreign input. An address leads to no other memory than the
// writer's, the kernel checks it, and the reader bounds each length.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/shm/shm_ring.h"

namespace r2ccl {

// So many references of one direction may wait. Further bytes go through the ring.
inline constexpr size_t kShmReferences = 64;

struct ShmReference {
  std::atomic<uint64_t> at;       // its bytes come before the byte of the ring with this index
  std::atomic<uint64_t> address;  // in the writer's process; 0: revoked
  std::atomic<uint64_t> bytes;
};

// The shared state of one direction, beside that of its ring, which counts the references made. It
// begins as zeros.
struct ShmReferenceState {
  alignas(kShmCacheLine) std::atomic<uint64_t> taken;  // fetched whole, or skipped
  std::atomic<uint32_t> fetches;                       // 1: the reader can read the writer's memory
  alignas(kShmCacheLine) std::array<ShmReference, kShmReferences> slots;
};

// How an end shows that memory is that of its process: a word at an address of its own.
struct ShmWord {
  std::atomic<uint64_t> word;                    // random; the same for both ends
  std::array<std::atomic<uint64_t>, 2> address;  // of `word` in each process; 0: not known yet
};

// The memory of the process at the other end.
class PeerMemory {
 public:
  PeerMemory() = default;
  // `process`: its number, 0 when it has none here. `word` lies at `address` in it, and nowhere in
  // a later process of the same number.
  PeerMemory(pid_t process, uint64_t address, uint64_t word)
      : process_(process), address_(address), word_(word) {}

  // Fills `slices`, at most 7 of them, from `address` on. Returns 0 or an errno value: ESRCH when
  // the process has ended, EFAULT when a page of either process cannot be accessed, EPERM when the
  // kernel forbids it.
  int read(std::span<const iovec> slices, uint64_t address) const;
  // Returns 0 when the kernel permits reads.
  int probe() const { return read({}, address_); }

  static constexpr size_t kSlices = 7;

 private:
  pid_t process_ = 0;
  uint64_t address_ = 0;
  uint64_t word_ = 0;
};

class ShmReferenceWriter {
 public:
  ShmReferenceWriter() = default;
  ShmReferenceWriter(ShmRingState& ring, ShmReferenceState& state) : ring_(&ring), state_(&state) {}

  // Returns whether the reader can fetch, and a slot is free.
  bool ready() const;
  // Requires ready(). The bytes come after the first `at` bytes of the ring, and must stay as they
  // are until the reader has them, or until release() or revoke().
  void add(uint64_t at, std::span<const std::byte> bytes);
  // Copies the bytes that are not fetched yet, so that their sources may change. Revokes those that
  // cannot be copied.
  void release() noexcept;
  // Ends the references that are not fetched yet.
  void revoke() noexcept;

 private:
  struct Source {
    std::span<const std::byte> bytes;
    std::unique_ptr<std::byte[]> copy;  // of `bytes`, in their place
  };
  static bool copy_away(Source& source);
  template <typename Replace>
  void replace(const Replace& replace);
  uint64_t unread() const;

  ShmRingState* ring_ = nullptr;
  ShmReferenceState* state_ = nullptr;
  uint64_t made_ = 0;
  std::vector<Source> sources_;  // by slot; empty until the first add()
  bool has_copies_ = false;
};

class ShmReferenceReader {
 public:
  ShmReferenceReader() = default;
  ShmReferenceReader(ShmRingState& ring, ShmReferenceState& state) : ring_(&ring), state_(&state) {}

  // Says whether this end can read the writer's memory.
  void set_memory(const PeerMemory& memory);
  void refuse() { state_->fetches.store(0, std::memory_order_relaxed); }

  struct Next {
    ShmIndex index = ShmIndex::sound;
    bool here = false;             // its bytes are the next ones
    size_t ring_bytes = SIZE_MAX;  // that come before it
    size_t bytes = 0;              // of it that are left
  };
  // Returns the next reference, for a ring that was read up to `tail`. An acquire load of the
  // ring's index must precede it: then it finds each reference that comes before those bytes.
  Next next(uint64_t tail) const;
  // Returns whether next() has bytes, or finds a state that no honest end has.
  bool ready(uint64_t tail) const {
    const Next found = next(tail);
    return found.here || found.index == ShmIndex::impossible;
  }

  // Fills the slices, which hold at most as many bytes as are left. Returns 0 or an errno value:
  // ECONNRESET when the bytes were revoked.
  int fetch(std::span<const iovec> slices, size_t bytes);
  // Drops bytes, at most as many as are left.
  void skip(size_t bytes);

 private:
  ShmReference& slot() const { return state_->slots[taken_ % kShmReferences]; }

  ShmRingState* ring_ = nullptr;
  ShmReferenceState* state_ = nullptr;
  PeerMemory memory_;
  uint64_t taken_ = 0;
  uint64_t offset_ = 0;  // bytes of the next reference that were taken
};

}  // namespace r2ccl
