// Reads the frames of one data connection and puts each payload straight into its destination: one
// vectored read takes the rest of a payload and the next header, without a copy in between. Only a
// payload that must appear in order is copied, because a read promises no order.
//
// For small frames a second system call costs more than copying the bytes. While the frames of a
// connection are small, reads go on into a spill buffer, and the reader copies from there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/delivery/receive_ledger.h"
#include "protocol/wire/header_tag.h"
#include "protocol/wire/wire.h"
#include "transport/transport.h"

namespace r2ccl {

class FrameReader {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns the destination of this frame's payload. An error ends the connection.
    virtual Result<ReceiveLedger::Place> on_header(const DataHeader& header) = 0;
    // Requires that the frame has arrived whole. `early` holds its bytes if they were placed early.
    // `discarded`: the bytes were not kept (a probe, a duplicate, or a remainder that was
    // discarded).
    virtual void on_frame(const DataHeader& header, std::vector<std::byte> early,
                          bool discarded) = 0;
    // Takes the state that a frame carried, after its header and before its payload.
    virtual void on_state(ControlFrame state) = 0;
  };

  // `tag`: the tag of the incoming headers.
  FrameReader(Owner& owner, const HeaderTag& tag, std::span<std::byte> scratch)
      : owner_(owner), tag_(tag), scratch_(scratch) {}

  // Takes bytes that were read from the connection before this reader existed.
  Status prefill(std::span<const std::byte> bytes);

  struct Pumped {
    Status status;  // an error: corrupted() tells whether the wire or the peer made it
    IoResult end;   // the reason why reading stopped; `progressed`: the budget was used up
  };
  // Reads about `budget` bytes at most.
  Pumped pump(Connection& connection, size_t budget);

  // Discards the remainder of the payload under way if its destination is this chunk's, and returns
  // true then. In that case the caller must fence the connection before the destination is reused.
  [[nodiscard]] bool discard_remainder(ChannelId channel, MessageNo message, uint64_t offset);
  // Does the same for every message of a channel.
  [[nodiscard]] bool discard_remainder(ChannelId channel);

  // Returns whether the frame under way is a chunk of the channel, and its header has been read.
  bool in_chunk_of(ChannelId channel) const;
  // Returns the client memory that the next read fills; empty: none.
  std::span<std::byte> destination() const;

  // True when the stream ended with a header that the peer did not send here: the bytes were
  // changed, repeated or dropped on the way.
  bool corrupted() const { return corrupted_; }

  // The number of complete frames, and the number of bytes including the frame in progress, whose
  // header has fitted its tag.
  uint64_t frames() const { return frames_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool in_state() const { return header_known_ && state_have_ < header_.state_bytes; }
  bool in_payload() const { return header_known_ && !in_state(); }
  bool in_order() const { return place_.placement == ReceiveLedger::Placement::in_order; }
  bool discard_rest();
  Status advance(size_t count, const std::byte* payload);
  Status consume(std::span<const std::byte> bytes);
  Status take_header();
  void make_room();
  Status check_stream(const DataHeader& header);
  Status take_state();
  std::span<std::byte> next_part();
  void finish_frame();
  std::byte* payload_target();
  size_t payload_slice() const;

  Owner& owner_;
  const HeaderTag tag_;
  std::span<std::byte> scratch_;  // discarded bytes land here; all readers of one thread share it
  static constexpr size_t kSpillBytes = 12 * 1024;
  // Not shared among readers: an earlier receive() may still fill it. Empty until it is needed.
  std::vector<std::byte> spill_;
  // Likewise, for the payloads that must appear in order.
  static constexpr size_t kStagingBytesMax = 64 * 1024;
  std::vector<std::byte> staging_;
  bool small_frames_ = false;  // the last frame would have fitted the spill buffer
  std::array<std::byte, kDataHeaderBytes> header_bytes_{};
  size_t header_have_ = 0;
  bool header_known_ = false;
  bool frame_known_ = false;  // the type belongs to this version
  DataHeader header_;
  ReceiveLedger::Place place_;
  std::vector<std::byte> early_;
  std::vector<std::byte> state_;  // the carried state of the frame under way
  size_t state_have_ = 0;         // <= header_.state_bytes once the header is known
  size_t payload_have_ = 0;
  uint64_t frames_ = 0;
  uint64_t bytes_ = 0;
  bool corrupted_ = false;
};

}  // namespace r2ccl
