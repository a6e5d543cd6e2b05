// An attacker on the wire tampers with one frame: changes a bit of it, sends it twice, adds bytes
// behind it, or, as only a rank can, writes another header with a valid tag.
//
// Frames are found by their magic, in bytes that were written and not yet read. The header there
// must be whole and valid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocol/wire/wire.h"
#include "sim/fabric/stream.h"

namespace r2ccl::sim {

struct Tamper {
  enum class Kind : uint8_t {
    flip,     // bit `bit` of the header, or of the whole control frame, modulo their size
    flip_at,  // bit `bit` of the stream, without looking for a frame
    repeat,   // the frame arrives twice
    add,      // `bit` bytes follow the frame, modulo the size of a header, and then nothing
    rewrite,  // `rewrite` gets the data header, and returns whether it has changed it
  };
  Kind kind = Kind::flip;
  uint64_t bit = 0;
  bool data = true;  // it may be a data frame
  bool control = true;
  std::function<bool(std::span<std::byte, kDataHeaderBytes>)> rewrite = nullptr;
  // Shared by several connections: only the first fitting frame is tampered with.
  std::shared_ptr<bool> done = std::make_shared<bool>(false);
};

// Tampers with one direction of a connection.
class Tampering {
 public:
  // Starts with the bytes that are written from now on.
  void order(Tamper tamper, const Stream& stream);
  // Called after each write. Returns true when the tampering has happened.
  bool apply(Stream& stream);
  // Returns the offset of the stream from which on the attacker lets nothing pass.
  uint64_t silent_from() const { return silent_from_; }
  // Returns true, once, when the reader has taken the last byte that it needs to notice the
  // tampering.
  bool taken(const Stream& stream);
  // The bytes by which a reader notices it: a tag or a MAC does not fit them, or they come twice.
  const std::vector<std::byte>& evidence() const { return evidence_; }
  // Looks for this evidence of another connection among the bytes that were written from byte
  // `from` on, or just before: a relay has passed it on. Returns whether it is there; then its
  // reader is the one that taken() tells of.
  bool follow(const std::vector<std::byte>& evidence, const Stream& stream, uint64_t from);

 private:
  struct Frame {
    uint64_t offset = 0;
    uint64_t checked = 0;  // bytes that a tag or a MAC covers
    uint64_t bytes = 0;    // bytes of the whole frame
    bool data = false;
  };
  std::optional<Frame> next_frame(const Stream& stream);
  bool change(Stream& stream, const Frame& frame);
  bool repeat(Stream& stream, const Frame& frame);
  bool add(Stream& stream, const Frame& frame);
  bool happens(Stream& stream, const Frame& frame);
  void expect(const Stream& stream, uint64_t from, uint64_t end);

  std::optional<Tamper> ordered_;
  uint64_t from_ = 0;  // the next byte at which a frame may begin
  uint64_t noticed_by_ = UINT64_MAX;
  std::vector<std::byte> evidence_;
  uint64_t silent_from_ = UINT64_MAX;
};

}  // namespace r2ccl::sim
