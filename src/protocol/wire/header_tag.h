// A tag of 64 bits over a frame's header, so that the reader trusts no changed byte of it.
// Otherwise one wrong bit would file a chunk under another message, or make a reader wait for bytes
// that never come.
//
// SipHash-2-4, as crypto_shorthash: a keyed function made for short inputs, on a header ten times
// as fast as BLAKE2b. 64 bits are enough because a wrong guess ends the connection, and the next
// one has another key. The key is derived from the session's key for this direction, which is bound
// to the ranks, the path and the incarnation. The number of the frame in its stream is part of the
// input. So a header fits in no other stream and at no other place of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/wire/handshake.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

class HeaderTag {
 public:
  enum class Use : uint8_t { data, control };

  // `session_key`: the session's key for the direction in which the headers travel.
  HeaderTag(std::span<const std::byte, kMacKeyBytes> session_key, Use use);
  HeaderTag(const HeaderTag&) = default;
  HeaderTag& operator=(const HeaderTag&) = default;
  ~HeaderTag();

  // A data header carries its number itself.
  void seal(std::span<std::byte, kDataHeaderBytes> header) const;
  bool fits(std::span<const std::byte, kDataHeaderBytes> header) const;
  // `sequence`: of the frame on its control stream.
  void seal(std::span<std::byte, kControlHeaderBytes> header, uint64_t sequence) const;
  bool fits(std::span<const std::byte, kControlHeaderBytes> header, uint64_t sequence) const;
  // Carried state ends with its tag, has the number of its data frame in it, and is no header: its
  // first byte differs from that of the magic. So the key of the data headers serves for it too.
  void seal_state(std::span<std::byte> state) const;
  bool fits_state(std::span<const std::byte> state) const;

 private:
  static constexpr size_t kTagBytes = 8;
  using Tag = std::array<std::byte, kTagBytes>;

  Tag tag_of(std::span<const std::byte> bytes) const;
  Tag tag_of(std::span<const std::byte, kControlHeaderBytes> header, uint64_t sequence) const;

  std::array<std::byte, 16> key_;
};

}  // namespace r2ccl
