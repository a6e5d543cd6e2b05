// The receiving end of one channel: the posted receives, the accepted chunks, and the sender's
// receive credit. Pure, except that it copies early bytes into the buffer posted for them.
//
// It keeps the receiver's half of the contract. It accepts one copy of every chunk, once. Messages
// below the low-water mark are complete for ever. Bytes without a posted receive fit the eager
// pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/fifo.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"
#include "protocol/delivery/chunk_set.h"
#include "protocol/delivery/spare_memory.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

class ReceiveLedger {
 public:
  // `messages_ahead`: messages from the low-water mark on that the sender may have open.
  ReceiveLedger(ChannelId channel, uint64_t eager_total,
                uint64_t messages_ahead = limits::kMessagesAheadMax)
      : channel_(channel),
        messages_ahead_(messages_ahead),
        eager_total_(eager_total),
        eager_limit_(eager_total),
        spare_(eager_total) {}

  // The destination of the payload of a chunk whose header has arrived.
  enum class Placement : uint8_t {
    direct,    // into `destination`
    in_order,  // likewise, each byte after those before it (base/ordered_copy.h)
    early,     // no receive is posted yet: into `early`, which the caller passes to accept()
    discard,   // a duplicate, or part of a cancelled channel or a mismatched message
  };
  struct Place {
    Placement placement = Placement::discard;
    std::byte* destination = nullptr;
    std::vector<std::byte> early = {};
  };

  struct Receive {
    std::span<std::byte> bytes;
    uint64_t context = 0;
    // The message may be shorter than `bytes`, may have any context, and need not come. Its owner
    // may look at the bytes while they arrive.
    bool standing = false;
  };
  // Posts the next receive and copies in the chunks that came early. Returns whether that completed
  // it.
  struct Posted {
    MessageNo number;
    bool complete = false;
    uint64_t message_bytes = 0;  // of a complete one
    uint64_t freed_bytes = 0;    // that have left the eager pool
    Status mismatch;             // the early message is not the posted one
  };
  Posted post(const Receive& receive);
  Posted post(std::span<std::byte> bytes, uint64_t context) { return post({bytes, context}); }

  // Returns the destination of a chunk. Fails with Code::remote when the chunk breaks the protocol
  // (no credit, another chunk size), and with Code::invalid_usage when it does not fit the
  // posted receive: the ranks' calls differ. Here or in post(), the ledger reports that once for a
  // message and discards its other chunks.
  Result<Place> place(const DataHeader& header);

  struct Accepted {
    bool fresh = false;             // false: a duplicate; its bytes must have gone nowhere
    bool message_complete = false;  // the posted receive is complete
  };
  // Requires that place() took the header, and that the whole chunk has arrived at the destination
  // that place() gave. `early` holds its bytes if it was early. `version` is at least as high as
  // all earlier ones: report() and changes() use it to find changes.
  Accepted accept(const DataHeader& header, std::vector<std::byte> early, uint64_t version);

  // Returns the absolute state for the sender: the marks, and the marks of the messages that
  // changed after version `since` and up to `up_to`, if they are incomplete or above the low-water
  // mark.
  ChannelReport report(uint64_t since = 0, uint64_t up_to = UINT64_MAX) const;
  // The report of one message in report(since): the version of its last change, and its size in a
  // frame.
  struct Change {
    uint64_t version = 0;
    size_t bytes = 0;
  };
  void changes(uint64_t since, std::vector<Change>& out) const;

  // Forgets all posted receives: from now on the ledger discards every chunk that arrives.
  void cancel();
  bool cancelled() const { return cancelled_; }
  // Returns whether chunks may arrive, be discarded and never be listed.
  bool discards() const { return discards_; }
  // Returns true when no posted receive is incomplete, but for standing ones without a chunk.
  bool idle() const;

  void check_invariants() const;

 private:
  struct Open {
    Receive receive;          // empty until it is posted
    bool posted = false;      // its number is below next_post_
    bool known = false;       // a chunk has arrived: size, context and cut below are the sender's
    bool mismatched = false;  // implies discards_: the calls differ, its bytes stay as they are
    uint64_t message_bytes = 0;
    uint64_t sender_context = 0;
    uint32_t chunk_bytes = 0;
    ChunkSet accepted;     // its count is 0 until the message is known
    uint64_t changed = 0;  // the version that `accepted` last changed with; 0: nothing accepted
    // Chunks, until the receive is posted.
    std::vector<std::pair<uint32_t, std::vector<std::byte>>> early;
    bool complete() const { return posted && known && !mismatched && accepted.full(); }
  };

  // Returns whether the sender and this end mean the same message; notes it in `open` if not.
  Status check_match(Open& open, MessageNo number);
  Status learn(Open& open, MessageNo number, const DataHeader& header);
  PartialMessage partial(size_t index) const;
  void advance();
  Open& open_up_to(size_t index);
  void check_open(const Open& open) const;

  ChannelId channel_;
  uint64_t messages_ahead_;
  MessageNo low_water_;   // number of open_.front(), which is not complete
  MessageNo next_post_;   // >= low_water_: number of the next receive to be posted
  uint64_t eager_total_;  // >= eager_limit_
  uint64_t eager_limit_;  // pool size
  // The sum of all early chunks. place() holds each to the pool. A peer that ignores the bound may
  // exceed it by the chunks that are half read at the same time, one on each path.
  uint64_t early_bytes_ = 0;
  SpareMemory spare_;       // of early chunks; no more than the pool
  bool cancelled_ = false;  // implies discards_
  bool discards_ = false;   // it was cancelled, or a message did not match
  Fifo<Open> open_;
};

}  // namespace r2ccl
