// Send and Recv of one communicator, on a channel of their own: ordered per peer and direction,
// against nothing else. An operation is cut into messages of at most kMessageBytesMax. Each message
// carries a hash of the whole operation's size and type, so that calls that do not match are found.
//
// A channel can also carry frames instead: messages of the library's own memory, whose size the
// receiver does not know.
//
// Driving thread only. `done` is called exactly once per operation, from inside on_sent,
// on_received, on_mismatch, cancel (so also from the destructor), or, between a rank and itself,
// from send or receive. It may call all of these; it must not destroy the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fifo.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/link/message_port.h"
#include "runtime/link/user_memory.h"

namespace r2ccl {

class PointToPoint final : public MessageClient {
 public:
  using Done = std::function<void(const Status&)>;

  // As for Executor: one port per rank, null for `self`. The ports must outlive this.
  PointToPoint(Rank self, ChannelId channel, std::vector<MessagePort*> ports);
  ~PointToPoint() override;
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  void send(Rank peer, std::span<const std::byte> bytes, DataType type, Done done);
  void receive(Rank peer, std::span<std::byte> bytes, DataType type, Done done);
  // The n-th frame to a peer arrives in the n-th room there, which is at least as large.
  void send_frame(Rank peer, std::span<const std::byte> frame, Done done);
  void receive_frame(Rank peer, std::span<std::byte> room, Done done);

  // Ends every operation with `why`, for ever. After the return no buffer is touched.
  void cancel(const Status& why);
  // Does the same without memory, and without a word to the ports, which must move no bytes any
  // more.
  void abandon(const Status& why) noexcept;

  // True when no operation is unfinished.
  bool idle() const { return unfinished_ == 0; }
  // Returns the number of calls between this rank and itself that wait for their counterpart.
  size_t unmatched_local() const;
  // True when the only unfinished operations are these, which only this rank can end.
  bool idle_but_local() const { return unfinished_ == unmatched_local(); }

  // Receives a mismatched call of a peer, and decides its effect on the communicator. Without a
  // handler this only ends its own operations.
  using MismatchHandler = std::function<void(Rank peer, const Status& why)>;
  void set_mismatch_handler(MismatchHandler handler) { on_mismatch_ = std::move(handler); }

  // The number of calls so far.
  uint64_t sends_to(Rank peer) const;
  uint64_t receives_from(Rank peer) const;

  // Returns the unfinished call that the memory belongs to, or nothing.
  std::optional<BufferUse> find_buffer(const BadMemory& bad) const;
  // Returns the use of the memory by the next Send to, or Recv from, this peer.
  BufferUse use_by_next(Rank peer, std::span<const std::byte> bytes, const BadMemory& bad) const;

  // Returns the peers that unfinished operations wait for, in rank order.
  std::vector<Rank> waits_on() const;

  void on_sent(Rank peer, ChannelId channel, MessageNo number) override;
  void on_received(Rank peer, ChannelId channel, MessageNo number, uint64_t bytes) override;
  void on_mismatch(Rank peer, ChannelId channel, const Status& why) override;

 private:
  struct Transfer {
    std::span<const std::byte> source;  // set for a send
    std::span<std::byte> target;        // set for a receive
    uint64_t context = kNoContext;      // of a frame
    uint64_t number = 0;                // among its kind and peer, from 1
    uint64_t bytes = 0;
    uint64_t first = 0;      // the number of its first message; they are dense
    uint64_t messages = 1;   // number of its messages
    uint64_t posted = 0;     // number of posted messages
    uint64_t completed = 0;  // number of completed messages
    Done done;
  };

  // One direction of one peer, oldest first. Messages may complete in any order, so a finished
  // operation stays until those before it are finished too.
  struct Queue {
    Fifo<Transfer> operations;
    uint64_t started = 0;        // number of operations so far
    size_t posting = 0;          // the first operation with messages still to be posted
    uint64_t next_number = 0;    // number of the next operation's first message
    uint64_t low = 0;            // all earlier messages are complete
    Fifo<uint8_t> message_done;  // for the posted messages from `low` on: 1 or 0
  };

  struct Peer {
    Queue sends;
    Queue receives;
  };

  Peer& at(Rank peer);
  const Peer* find(Rank peer) const { return peers_[static_cast<size_t>(peer.value())].get(); }
  void enqueue(Rank peer, Queue Peer::*direction, Transfer operation);
  void post_more(Rank peer, Queue& queue);
  MessageNo post(MessagePort& port, const Transfer& operation, bool sending);
  void message_complete(Rank peer, Queue& queue, MessageNo number);
  void match_local();
  static BufferUse use_of(Rank peer, uint64_t number, std::span<const std::byte> bytes,
                          const BadMemory& bad);

  const Rank self_;
  const ChannelId channel_;
  const std::vector<MessagePort*> ports_;
  // Null until the first call; the own entry waits for its counterpart.
  std::vector<std::unique_ptr<Peer>> peers_;
  uint64_t unfinished_ = 0;
  MismatchHandler on_mismatch_;
  Status failure_;  // not ok: cancelled
};

}  // namespace r2ccl
