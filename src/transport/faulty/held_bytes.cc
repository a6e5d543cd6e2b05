#include "transport/faulty/held_bytes.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl {

size_t HeldBytes::append(std::span<const iovec> slices, TimeNs release_at) {
  Part part{.release_at = release_at, .bytes = {}, .dropped = 0};
  for (const iovec& slice : first_bytes(slices, room())) {
    const auto* from = static_cast<const uint8_t*>(slice.iov_base);
    part.bytes.insert(part.bytes.end(), from, from + slice.iov_len);
  }
  const size_t taken = part.bytes.size();
  size_ += taken;
  if (taken > 0) parts_.push_back(std::move(part));
  return taken;
}

std::span<const uint8_t> HeldBytes::front(TimeNs now) const {
  if (parts_.empty() || parts_.front().release_at > now) return {};
  return std::span(parts_.front().bytes).subspan(parts_.front().dropped);
}

void HeldBytes::drop_front(size_t bytes) {
  R2CCL_CHECK(!parts_.empty());
  Part& part = parts_.front();
  part.dropped += bytes;
  size_ -= bytes;
  R2CCL_CHECK(part.dropped <= part.bytes.size());
  if (part.dropped == part.bytes.size()) parts_.pop_front();
}

std::vector<iovec> first_bytes(std::span<const iovec> slices, size_t limit) {
  std::vector<iovec> out;
  for (const iovec& slice : slices) {
    const size_t length = std::min(slice.iov_len, limit);
    if (length > 0) out.push_back({slice.iov_base, length});
    limit -= length;
  }
  return out;
}

size_t total_bytes(std::span<const iovec> slices) {
  size_t bytes = 0;
  for (const iovec& slice : slices) bytes += slice.iov_len;
  return bytes;
}

}  // namespace r2ccl
