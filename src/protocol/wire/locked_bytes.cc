#include "protocol/wire/locked_bytes.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/wire/crypto.h"

namespace r2ccl {

LockedBytes LockedBytes::make(size_t size, const std::function<void(std::span<std::byte>)>& fill) {
  crypto::initialise();
  R2CCL_CHECK(size > 0);
  // If the limit of locked memory is used up, the page is not locked, but still wiped.
  auto* const memory = static_cast<std::byte*>(sodium_malloc(size));
  R2CCL_CHECK(memory != nullptr);
  std::fill_n(memory, size, std::byte{0});
  fill({memory, size});
  R2CCL_CHECK(sodium_mprotect_readonly(memory) == 0);
  LockedBytes made;
  made.memory_ = std::shared_ptr<const std::byte>(
      memory, [](const std::byte* bytes) { sodium_free(const_cast<std::byte*>(bytes)); });
  made.size_ = size;
  return made;
}

LockedBytes LockedBytes::random(size_t size) {
  return make(size, [](std::span<std::byte> out) { randombytes_buf(out.data(), out.size()); });
}

LockedBytes LockedBytes::copy_of(std::span<const std::byte> bytes) {
  return make(bytes.size(),
              [&](std::span<std::byte> out) { std::ranges::copy(bytes, out.begin()); });
}

std::span<const std::byte, 32> LockedBytes::key() const {
  R2CCL_CHECK(size_ == 32);
  return std::span<const std::byte, 32>(memory_.get(), 32);
}

bool operator==(const LockedBytes& a, const LockedBytes& b) {
  return crypto::equal(a.bytes(), b.bytes());
}

}  // namespace r2ccl
