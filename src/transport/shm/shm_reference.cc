#include "transport/shm/shm_reference.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/check.h"

namespace r2ccl {
namespace {

// A writer moves each reference once at most.
constexpr int kFetches = 3;

void* pointer(uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Copies memory of this process that its owner may have unmapped. Returns null on failure.
std::unique_ptr<std::byte[]> copy_of(std::span<const std::byte> bytes) {
  std::unique_ptr<std::byte[]> copy(new (std::nothrow) std::byte[bytes.size()]);
  if (copy == nullptr) return nullptr;
  const iovec into{copy.get(), bytes.size()};
  const iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const ssize_t count = process_vm_readv(getpid(), &into, 1, &from, 1, 0);
  return count == static_cast<ssize_t>(bytes.size()) ? std::move(copy) : nullptr;
}

uint64_t address_of(const std::byte* bytes) {
  return reinterpret_cast<uintptr_t>(bytes);
}

}  // namespace

// The kernel takes the process's memory once per call. So the word, which it reads last, tells
// whose memory all the bytes came from.
int PeerMemory::read(std::span<const iovec> slices, uint64_t address) const {
  R2CCL_CHECK(slices.size() <= kSlices);
  if (process_ == 0) return EPERM;
  uint64_t word = 0;
  std::array<iovec, kSlices + 1> into;
  std::ranges::copy(slices, into.begin());
  into[slices.size()] = {&word, sizeof word};
  size_t bytes = 0;
  for (const iovec& slice : slices) bytes += slice.iov_len;
  const std::array<iovec, 2> from{iovec{pointer(address), bytes},
                                  iovec{pointer(address_), sizeof word}};
  const ssize_t count =
      process_vm_readv(process_, into.data(), slices.size() + 1, from.data(), from.size(), 0);
  if (count < 0) return errno;
  if (count != static_cast<ssize_t>(bytes + sizeof word)) return EFAULT;
  return word == word_ ? 0 : ESRCH;
}

// --- writer ---

uint64_t ShmReferenceWriter::unread() const {
  return std::min<uint64_t>(made_ - state_->taken.load(std::memory_order_acquire), kShmReferences);
}

bool ShmReferenceWriter::ready() const {
  return state_->fetches.load(std::memory_order_relaxed) != 0 && unread() < kShmReferences;
}

void ShmReferenceWriter::add(uint64_t at, std::span<const std::byte> bytes) {
  if (has_copies_ && unread() == 0) {
    sources_.clear();
    has_copies_ = false;
  }
  const size_t place = made_ % kShmReferences;
  sources_.resize(kShmReferences);
  sources_[place] = {bytes, nullptr};
  ShmReference& slot = state_->slots[place];
  slot.at.store(at, std::memory_order_relaxed);
  slot.address.store(address_of(bytes.data()), std::memory_order_relaxed);
  slot.bytes.store(bytes.size(), std::memory_order_relaxed);
  ring_->references.store(++made_, std::memory_order_release);
}

template <typename Replace>
void ShmReferenceWriter::replace(const Replace& replace) {
  const uint64_t count = std::min(unread(), made_);
  for (uint64_t i = made_ - count; i != made_; ++i) {
    const size_t place = i % kShmReferences;
    state_->slots[place].address.store(replace(sources_[place]), std::memory_order_seq_cst);
  }
  // A reader that sees a later change of the bytes also sees the new address.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Returns whether the bytes lie in a copy.
bool ShmReferenceWriter::copy_away(Source& source) {
  if (source.copy == nullptr) source.copy = copy_of(source.bytes);
  return source.copy != nullptr;
}

void ShmReferenceWriter::release() noexcept {
  replace([this](Source& source) -> uint64_t {
    if (!copy_away(source)) return 0;
    has_copies_ = true;
    return address_of(source.copy.get());
  });
}

void ShmReferenceWriter::revoke() noexcept {
  replace([](Source&) -> uint64_t { return 0; });
}

// --- reader ---

void ShmReferenceReader::set_memory(const PeerMemory& memory) {
  memory_ = memory;
  state_->fetches.store(1, std::memory_order_relaxed);
}

ShmReferenceReader::Next ShmReferenceReader::next(uint64_t tail) const {
  Next next;
  const uint64_t there = ring_->references.load(std::memory_order_acquire) - taken_;
  if (there == 0) return next;
  const uint64_t before = slot().at.load(std::memory_order_relaxed) - tail;
  const uint64_t bytes = slot().bytes.load(std::memory_order_relaxed);
  if (there > kShmReferences || before > kShmRingBytes || bytes <= offset_) {
    next.index = ShmIndex::impossible;
    return next;
  }
  next.here = before == 0;
  next.ring_bytes = before;
  next.bytes = bytes - offset_;
  return next;
}

int ShmReferenceReader::fetch(std::span<const iovec> slices, size_t bytes) {
  for (int i = 0; i < kFetches; ++i) {
    const uint64_t address = slot().address.load(std::memory_order_acquire);
    if (address == 0) return ECONNRESET;
    const int error = memory_.read(slices, address + offset_);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (slot().address.load(std::memory_order_relaxed) != address) continue;
    if (error == 0) skip(bytes);
    return error;
  }
  return EPROTO;
}

void ShmReferenceReader::skip(size_t bytes) {
  offset_ += bytes;
  if (offset_ < slot().bytes.load(std::memory_order_relaxed)) return;
  offset_ = 0;
  state_->taken.store(++taken_, std::memory_order_release);
}

}  // namespace r2ccl
