// An attacker on the wire does one thing to one frame: he changes a bit of it, sends the frame
// twice, or, as only a rank can, writes another header under a tag that fits.
//
// Frames are found by their magic, in bytes that were written and not yet read: the header
// there must be whole and valid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "protocol/wire/wire.h"
#include "sim/fabric/stream.h"

namespace r2ccl::sim {

struct Tamper {
  enum class Kind : uint8_t {
    flip,     // bit `bit` of the header, or of the whole control frame, modulo their size
    flip_at,  // bit `bit` of the stream, whatever is there
    repeat,   // the frame comes twice
    rewrite,  // the data header is given to `rewrite`, which says whether it has changed it
  };
  Kind kind = Kind::flip;
  uint64_t bit = 0;
  bool data = true;  // it may be a data frame
  bool control = true;
  std::function<bool(std::span<std::byte, kDataHeaderBytes>)> rewrite = nullptr;
  // Shared by the connections of which the first that can is tampered with.
  std::shared_ptr<bool> done = std::make_shared<bool>(false);
};

// Tampers with one direction of a connection.
class Tampering {
 public:
  // From what is written now on.
  void order(Tamper tamper, const Stream& stream);
  // After each write. True when it has happened.
  bool apply(Stream& stream);
  // The reader has taken the last byte that it needs to notice. Once.
  bool taken(const Stream& stream);

 private:
  struct Frame {
    uint64_t offset = 0;
    uint64_t checked = 0;  // bytes that a tag or a MAC covers
    uint64_t bytes = 0;    // in all
    bool data = false;
  };
  std::optional<Frame> next_frame(const Stream& stream);
  bool change(Stream& stream, const Frame& frame);
  bool repeat(Stream& stream, const Frame& frame);

  std::optional<Tamper> ordered_;
  uint64_t from_ = 0;  // the next byte at which a frame may begin
  uint64_t noticed_by_ = UINT64_MAX;
};

}  // namespace r2ccl::sim
