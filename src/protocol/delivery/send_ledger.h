// The sending end of one channel: the open messages, the chunks of each, the acknowledged chunks,
// and the receive credit. Pure.
//
// It keeps the sender's half of the contract. Bytes stay referenced until they are acknowledged
// (retain). The chunk size of a message never changes after its first chunk went out. A posted
// receive or the eager pool covers every first transmission (receive credit). Retransmits and
// hedges need no credit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fifo.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "base/small_array.h"
#include "base/status.h"
#include "protocol/delivery/chunk_set.h"
#include "protocol/delivery/spare_memory.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

struct ChunkRef {
  MessageNo message;
  uint32_t index = 0;
  friend bool operator==(const ChunkRef&, const ChunkRef&) = default;
};

class SendLedger {
 public:
  // `messages_ahead` is the bound that the receiver checks: both ends must have the same.
  SendLedger(ChannelId channel, uint64_t eager_total,
             uint64_t messages_ahead = limits::kMessagesAheadMax)
      : channel_(channel), messages_ahead_(messages_ahead), eager_total_(eager_total) {}
  // A buffered message refers to the copy of its bytes that the ledger keeps.
  SendLedger(const SendLedger&) = delete;
  SendLedger& operator=(const SendLedger&) = delete;

  ChannelId channel() const { return channel_; }

  // Opens the next message. `bytes` must stay valid and unchanged until it is complete, unless the
  // message is buffered: the ledger then copies them, and the caller may overwrite them at once.
  struct Posted {
    MessageNo number;
    bool buffered = false;
  };
  Posted post(std::span<const std::byte> bytes, uint64_t context);
  // Releases send buffers. When all posted messages have been sent, copies their unacknowledged
  // bytes, the oldest message first, as far as the bound allows. Appends the messages whose bytes
  // are no longer needed. Returns true when no message needs its bytes any more.
  bool copy_remainder(std::vector<Posted>& ended);

  // Returns the first chunk that was never sent and that credit allows now. `cut` is the chunk
  // size to use if this is the first chunk of its message.
  std::optional<ChunkRef> next_fresh(uint32_t cut);
  // Returns the bytes that are posted but were never sent, permitted or not.
  uint64_t fresh_bytes() const { return fresh_bytes_; }
  // Returns the size of the message whose chunk next_fresh() would return; 0 when there is none.
  uint64_t next_message_bytes() const;
  // Returns whether next_fresh() uses its `cut`.
  bool needs_cut() const {
    return cursor_ < open_.size() && (open_[cursor_].chunk_bytes == 0 || mutated(Mutant::recut));
  }
  // Returns how many posted messages have chunks that were never sent.
  size_t messages_waiting() const { return open_.size() - cursor_; }

  // Requires that the message is open, and that the chunk was sent before or is the one that
  // next_fresh() returned. Records that one more copy of the chunk is on its way. Returns the
  // header's fields; the caller fills in path, incarnation and transmission.
  DataHeader transmit(ChunkRef chunk);
  // Requires that the message is open and cut.
  std::span<const std::byte> bytes(ChunkRef chunk) const;
  // Requires that the message is open. A connection may read its bytes where they are until they
  // are acknowledged, so copy_remainder() leaves this message alone.
  void keep_source(MessageNo message);
  // Records that a copy is no longer in flight: it was delivered, or its path failed. Returns true
  // when the chunk is not acknowledged and has no other copy in flight.
  bool copy_gone(ChunkRef chunk);
  // Returns whether the chunk is unacknowledged; false also for complete or cancelled messages.
  bool needs_delivery(ChunkRef chunk) const;
  uint32_t copies(ChunkRef chunk) const;

  // Applies the receiver's report. A report is absolute, so repetition and age do no harm. Appends
  // the messages that became complete. Fails when the peer acknowledges a chunk that was never
  // sent.
  Status apply(const ChannelReport& report, std::vector<Posted>& completed);

  // Returns whether the peer discards chunks of this channel, so that it need not list the chunks
  // that a path has delivered.
  bool peer_discards() const { return peer_discards_; }

  // Forgets every open message. The ledger ignores later acknowledgements of its chunks.
  void cancel();
  bool cancelled() const { return cancelled_; }
  bool idle() const { return open_.empty(); }
  // Returns the mark below which messages are complete.
  MessageNo low_water() const { return first_; }

  void check_invariants() const;

 private:
  // A chunk's copies that are outstanding: 0 from next_fresh on. Charged to the eager pool: it
  // stays so when it is sent again.
  struct Sent {
    uint8_t copies = 0;
    bool eager = false;
  };
  struct Open {
    const std::byte* data = nullptr;  // its bytes; null of a buffered message, and only of that
    uint64_t size = 0;
    uint64_t context = 0;
    uint32_t chunk_bytes = 0;  // 0: not cut yet
    uint32_t next_fresh = 0;   // <= acknowledged.count(): chunks below were sent at least once
    bool complete = false;
    bool in_place = false;          // a connection may still read `data`
    std::vector<std::byte> buffer;  // a buffered message's bytes from `buffered_from` on
    uint64_t buffered_from = 0;     // + buffer.size() == size
    bool buffered() const { return !buffer.empty(); }
    ChunkSet acknowledged;     // holds only chunks below next_fresh
    SmallArray<Sent, 8> sent;  // per chunk
    uint64_t fresh() const { return size - std::min(size, uint64_t{next_fresh} * chunk_bytes); }
    bool all_sent() const { return chunk_bytes != 0 && next_fresh == acknowledged.count(); }
  };

  Open* find(MessageNo message);
  const Open* find(MessageNo message) const;
  void buffer(Open& open, uint64_t from);
  void reuse_retired();
  static void cut(Open& open, uint32_t chunk_bytes);
  static uint64_t chunk_size(const Open& open, uint32_t index);
  static void check_open(const Open& open);
  Status apply_partial(const PartialMessage& partial, std::vector<Posted>& completed);
  Status never_sent(const PartialMessage& partial) const;
  void complete(Open& open, MessageNo number, std::vector<Posted>& completed);
  void retire(std::vector<Posted>& completed, MessageNo low_water);

  bool too_far_ahead(MessageNo number) const;

  ChannelId channel_;
  uint64_t messages_ahead_;
  MessageNo first_;  // number of open_.front()
  // The receiver's low-water mark, as far as this end knows. It is below `first_` when the receiver
  // has accepted messages for which no receive is posted yet: they are complete here, not there.
  MessageNo receiver_low_water_;  // <= first_ + cursor_: the receiver has only sent messages
  MessageNo posted_;              // the peer has posted every receive below
  uint64_t eager_total_;          // bytes the peer ever permitted eagerly
  uint64_t eager_used_ = 0;       // <= eager_total_
  uint64_t fresh_bytes_ = 0;      // the sum of fresh() over open_
  size_t cursor_ = 0;             // <= open_.size(): index of the first message with fresh chunks
  uint64_t buffered_bytes_ = 0;   // the sum of the buffers' sizes; <= kBufferedBytesPerChannel
  bool cancelled_ = false;
  bool peer_discards_ = false;
  std::vector<std::vector<std::byte>>
      retired_;  // buffers of complete messages, until the next apply
  SpareMemory spare_{limits::kBufferedSpareBytes};  // of these
  Fifo<Open> open_;
};

// Returns the chunk size for a message: at most about `chunk_bytes` and at most an equal share for
// each path, within the limits, a multiple of 64, and never more chunks than an index can count.
uint32_t chunk_cut(uint64_t message_bytes, size_t path_count, uint64_t chunk_bytes);

}  // namespace r2ccl
