#include "plan/group.h"

#include <algorithm>
#include <bit>

namespace r2ccl {

uint64_t scaled(uint64_t count, uint64_t part, uint64_t whole) {
  return count / whole * part + count % whole * part / whole;
}

Region part_of(const Region& whole, uint64_t index, uint64_t parts) {
  const uint64_t base = whole.count / parts;
  const uint64_t longer = whole.count % parts;
  const uint64_t offset = index * base + std::min(index, longer);
  return {whole.buffer, whole.offset + offset, base + (index < longer ? 1 : 0)};
}

uint64_t Blocks::pieces() const {
  const uint64_t longest = part_of(whole_, 0, blocks_).count;
  return (longest + segment_ - 1) / segment_;
}

Region Blocks::piece(uint64_t block, uint64_t index, Buffer buffer) const {
  const Region part = part_of(whole_, block % blocks_, blocks_);
  const uint64_t begin = std::min(index * segment_, part.count);
  return {buffer, part.offset + begin, std::min(segment_, part.count - begin)};
}

Region Blocks::pieces_between(uint64_t first, uint64_t end) const {
  const Region part = part_of(whole_, 0, blocks_);
  const uint64_t begin = std::min(first * segment_, part.count);
  return {part.buffer, part.offset + begin, std::min(end * segment_, part.count) - begin};
}

Core::Core(const Group& group)
    : group_(group), size_(std::bit_floor(group.size())), excess_(group.size() - size_) {}

}  // namespace r2ccl
