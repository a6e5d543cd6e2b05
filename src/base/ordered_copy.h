// A copy into memory that another thread polls while the bytes arrive. A kernel of NCCL takes a
// value as soon as it sees the flag behind it (protocols LL and LL128 of NCCL 2.30), because a NIC
// of InfiniBand writes a message from its begin to its end. memcpy() of glibc 2.36 does not: where
// the target lies up to 512 bytes behind the source, modulo 4096, it aligns the source for `rep
// movsb`, and stores the bytes before that last; and its vector code stores the last bytes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/mutant.h"

namespace r2ccl {

// A thread that sees a byte sees the bytes before it too. It sees an aligned word of 8 bytes whole,
// unless the range begins or ends inside the word.
inline void copy_in_order(std::byte* to, std::span<const std::byte> from) {
  using Word [[gnu::may_alias]] = uint64_t;
  if (mutated(Mutant::any_order)) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const auto copy_bytes = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      // clang stores no std::byte.
      __atomic_store_n(reinterpret_cast<unsigned char*>(to + i),
                       static_cast<unsigned char>(from[i]), __ATOMIC_RELEASE);
    }
  };
  const size_t head = std::min(-reinterpret_cast<uintptr_t>(to) % sizeof(Word), from.size());
  const size_t words_end = from.size() - (from.size() - head) % sizeof(Word);
  copy_bytes(0, head);
  for (size_t i = head; i < words_end; i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, &from[i], sizeof word);
    __atomic_store_n(reinterpret_cast<Word*>(to + i), word, __ATOMIC_RELEASE);
  }
  copy_bytes(words_end, from.size());
}

}  // namespace r2ccl
