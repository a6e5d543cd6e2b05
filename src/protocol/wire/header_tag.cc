#include "protocol/wire/header_tag.h"

#include <sodium.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "protocol/wire/crypto.h"

namespace r2ccl {

static_assert(kDataTagAt + crypto_shorthash_BYTES == kDataHeaderBytes);
static_assert(kControlTagAt + crypto_shorthash_BYTES == kControlHeaderBytes);

namespace {

// Compares one word with one other, which takes the same time for all values, as crypto::equal()
// does for any length.
bool equal(std::span<const std::byte, crypto_shorthash_BYTES> a,
           std::span<const std::byte, crypto_shorthash_BYTES> b) {
  uint64_t left = 0;
  uint64_t right = 0;
  static_assert(sizeof(left) == crypto_shorthash_BYTES);
  std::memcpy(&left, a.data(), sizeof(left));
  std::memcpy(&right, b.data(), sizeof(right));
  return left == right;
}

}  // namespace

HeaderTag::HeaderTag(std::span<const std::byte, kMacKeyBytes> session_key, Use use) {
  static_assert(sizeof(key_) == crypto_shorthash_KEYBYTES);
  crypto::Hash derived = crypto::derive(
      session_key, use == Use::data ? "tag of data headers" : "tag of control headers", {});
  std::copy_n(derived.begin(), key_.size(), key_.begin());
  crypto::wipe(derived);
}

HeaderTag::~HeaderTag() {
  crypto::wipe(key_);
}

HeaderTag::Tag HeaderTag::tag_of(std::span<const std::byte> bytes) const {
  Tag tag;
  crypto_shorthash(reinterpret_cast<unsigned char*>(tag.data()),
                   reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                   reinterpret_cast<const unsigned char*>(key_.data()));
  return tag;
}

HeaderTag::Tag HeaderTag::tag_of(std::span<const std::byte, kControlHeaderBytes> header,
                                 uint64_t sequence) const {
  std::array<std::byte, kControlTagAt + sizeof(sequence)> input;
  std::copy_n(header.begin(), kControlTagAt, input.begin());
  for (size_t i = 0; i < sizeof(sequence); ++i) {
    input[kControlTagAt + i] = static_cast<std::byte>(sequence >> (8 * i));
  }
  return tag_of(input);
}

void HeaderTag::seal(std::span<std::byte, kDataHeaderBytes> header) const {
  const Tag tag = tag_of(header.first<kDataTagAt>());
  std::ranges::copy(tag, header.begin() + kDataTagAt);
}

bool HeaderTag::fits(std::span<const std::byte, kDataHeaderBytes> header) const {
  return equal(tag_of(header.first<kDataTagAt>()), header.subspan<kDataTagAt>());
}

void HeaderTag::seal(std::span<std::byte, kControlHeaderBytes> header, uint64_t sequence) const {
  const Tag tag = tag_of(header, sequence);
  std::ranges::copy(tag, header.begin() + kControlTagAt);
}

bool HeaderTag::fits(std::span<const std::byte, kControlHeaderBytes> header,
                     uint64_t sequence) const {
  return equal(tag_of(header, sequence), header.subspan<kControlTagAt>());
}

void HeaderTag::seal_state(std::span<std::byte> state) const {
  const std::span<std::byte> body = state.first(state.size() - kTagBytes);
  std::ranges::copy(tag_of(body), state.last<kTagBytes>().begin());
}

bool HeaderTag::fits_state(std::span<const std::byte> state) const {
  if (state.size() < kTagBytes) return false;
  return equal(tag_of(state.first(state.size() - kTagBytes)), state.last<kTagBytes>());
}

}  // namespace r2ccl
