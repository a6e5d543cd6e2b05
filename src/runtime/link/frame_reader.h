// Reads the frames of one data connection and puts each payload straight where it belongs: one
// vectored read takes the rest of a payload and the next header, and nothing is copied in between.
//
// Small frames are different: there a second system call costs more than copying the bytes. While
// the frames of a connection are small, reads go on into a spill buffer, from which they are
// copied.
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
    // Where the payload of this frame goes. An error ends the connection.
    virtual Result<ReceiveLedger::Place> on_header(const DataHeader& header) = 0;
    // The frame has arrived whole. `early` holds its bytes if they were placed early. `discarded`:
    // the bytes were not kept (a probe, a duplicate, or redirected on the way).
    virtual void on_frame(const DataHeader& header, std::vector<std::byte> early,
                          bool discarded) = 0;
  };

  // `tag`: of the headers that come.
  FrameReader(Owner& owner, const HeaderTag& tag, std::span<std::byte> scratch)
      : owner_(owner), tag_(tag), scratch_(scratch) {}

  // Bytes that were read from the connection before this reader existed.
  Status prefill(std::span<const std::byte> bytes);

  struct Pumped {
    Status status;  // an error: corrupted() says whether the wire made it, or the peer
    IoResult end;   // why reading stopped; `progressed`: the budget was used up
  };
  // Reads at most about `budget` bytes.
  Pumped pump(Connection& connection, size_t budget);

  // If the payload under way goes to this chunk's destination, its remainder goes to scratch. True
  // when it does: then the connection must be fenced before the destination is anybody else's.
  [[nodiscard]] bool redirect(ChannelId channel, MessageNo message, uint64_t offset);
  // The same for every message of a channel.
  [[nodiscard]] bool redirect(ChannelId channel);

  // The memory of a client that the next read is to fill; empty: none.
  std::span<std::byte> destination() const;

  // The stream ended with a header that the peer did not send, or not here: its bytes were changed,
  // repeated or left out on the way.
  bool corrupted() const { return corrupted_; }

  // Frames wholly received, and bytes of them and of the frame in progress.
  uint64_t frames() const { return frames_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool in_payload() const { return header_known_; }
  bool in_chunk_of(ChannelId channel) const;
  bool discard_rest();
  Status advance(size_t bytes);
  Status consume(std::span<const std::byte> bytes);
  Status take_header();
  Status check_stream(const DataHeader& header);
  void finish_frame();
  std::byte* payload_target();
  size_t payload_slice() const;

  Owner& owner_;
  const HeaderTag tag_;
  std::span<std::byte> scratch_;  // discarded bytes land here; shared by all readers of one thread
  static constexpr size_t kSpillBytes = 12 * 1024;
  std::vector<std::byte> spill_ = std::vector<std::byte>(kSpillBytes);
  bool small_frames_ = true;  // the last frame would have fitted the spill
  std::array<std::byte, kDataHeaderBytes> header_bytes_{};
  size_t header_have_ = 0;
  bool header_known_ = false;
  bool frame_known_ = false;  // a type of this version
  DataHeader header_;
  ReceiveLedger::Place place_;
  std::vector<std::byte> early_;
  size_t payload_have_ = 0;
  uint64_t frames_ = 0;
  uint64_t bytes_ = 0;
  bool corrupted_ = false;
};

}  // namespace r2ccl
