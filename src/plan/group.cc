#include "plan/group.h"

#include <algorithm>
#include <bit>

namespace r2ccl {

Region part_of(const Region& whole, uint64_t index, uint64_t parts) {
  const uint64_t base = whole.count / parts;
  const uint64_t longer = whole.count % parts;
  const uint64_t offset = index * base + std::min(index, longer);
  return {whole.buffer, whole.offset + offset, base + (index < longer ? 1 : 0)};
}

Core::Core(const Group& group)
    : group_(group), size_(std::bit_floor(group.size())), excess_(group.size() - size_) {}

}  // namespace r2ccl
