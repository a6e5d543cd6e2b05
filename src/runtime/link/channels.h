// The channels of one link: their ledgers, the choice of the next channel to send, and the
// completions that clients have not received yet. Driving thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/fifo.h"
#include "base/limits.h"
#include "base/status.h"
#include "protocol/delivery/receive_ledger.h"
#include "protocol/delivery/send_ledger.h"
#include "protocol/path/path_scheduler.h"
#include "runtime/link/message_port.h"

namespace r2ccl {

// A communicator opens its channels to all ranks, and most of them never carry a message. So the
// ledgers, which take most of the memory, are made when the channel is first used: a message is
// posted here, or the peer sends or says something of it.
class Channel {
 public:
  explicit Channel(ChannelId channel) : id(channel) {}

  bool used() const { return ledgers_ != nullptr; }
  // Makes the ledgers unless they are there. Returns this channel.
  Channel& use() {
    if (!used()) make_ledgers();
    return *this;
  }
  // Require that it is used.
  SendLedger& send() { return ledgers_->send; }
  const SendLedger& send() const { return ledgers_->send; }
  ReceiveLedger& receive() { return ledgers_->receive; }
  const ReceiveLedger& receive() const { return ledgers_->receive; }

  // Needs no memory.
  void cancel();
  bool cancelled() const { return cancelled_; }
  // Returns whether no message is posted and unfinished, at this end.
  bool idle() const { return !used() || (send().idle() && (cancelled_ || receive().idle())); }
  // As of the receive ledger.
  ChannelReport report(uint64_t since, uint64_t up_to) const;

  const ChannelId id;
  bool opened = false;              // opened at this end; the peer may use it earlier
  bool releasing = false;           // the client waits only for the end of its sends
  bool closing = false;             // both ends are done with it
  MessageClient* client = nullptr;  // null until it is opened, and after it is cancelled
  Rank peer = kNoRank;              // what the client calls the rank at the other end
  uint64_t changed_version = 0;     // <= the state's version: when the receiving end last changed
  int64_t quantum = 0;              // byte credit of deficit round robin
  const NicQueue* home = nullptr;   // the NIC that its chunks prefer; null: none

 private:
  struct Ledgers {
    explicit Ledgers(ChannelId id)
        : send(id, limits::kEagerBytes), receive(id, limits::kEagerBytes) {}
    SendLedger send;
    ReceiveLedger receive;
  };

  void make_ledgers();

  bool cancelled_ = false;
  std::unique_ptr<Ledgers> ledgers_;  // null: it was never used
};

class ChannelSet {
 public:
  // Requires that the channel exists.
  Channel& at(ChannelId id);
  const Channel& at(ChannelId id) const;
  // In the order of their ids.
  using Entry = std::pair<ChannelId, std::unique_ptr<Channel>>;
  const std::vector<Entry>& all() const { return channels_; }
  Channel* find(ChannelId id) const;  // null: there is none
  void open(ChannelId id, MessageClient& client, Rank peer);
  // Returns the channel that the peer uses, and may have opened first. Fails when the peer is ahead
  // by too many contexts.
  Result<Channel*> heard(ChannelId id);
  // Returns whether a channel of the context is there.
  bool has(ContextId context) const;
  // Adds the channel as one that is cancelled. Returns null if there is no room for it.
  Channel* add_cancelled(ChannelId id);
  // Returns how many contexts are there, and how many of these without an opened channel.
  struct Contexts {
    size_t all = 0;
    size_t unopened = 0;
  };
  Contexts contexts() const;
  // Forgets the channel. Requires that nothing refers to it.
  void remove(ChannelId id);
  // Returns true when no channel has a posted, outstanding or unread message.
  bool idle() const;

  // Returns whether a message is posted that the peer has not acknowledged.
  bool sends() const;
  // Returns whether a posted receive is incomplete.
  bool receives() const;

  // --- sending ---
  struct Fresh {
    Channel* from = nullptr;  // null: no chunk is left to send, or none has credit
    ChunkRef chunk;
  };
  // Returns the next new chunk: chunks of small messages first, the others by deficit round robin
  // (Shreedhar and Varghese, SIGCOMM 1995).
  Fresh next_fresh(const PathScheduler& scheduler, TimeNs now);
  uint64_t fresh_bytes() const;

  // --- completions ---
  void complete_send(const Channel& channel, MessageNo number) {
    completions_.push_back({Ended::sent, &channel, number, 0, {}});
  }
  // `bytes`: the size of the message.
  void complete_receive(const Channel& channel, MessageNo number, uint64_t bytes) {
    completions_.push_back({Ended::received, &channel, number, bytes, {}});
  }
  void complete_mismatch(const Channel& channel, MessageNo number, const Status& why) {
    completions_.push_back({Ended::mismatch, &channel, number, 0, why});
  }
  // Drops the completions of this channel.
  void forget_completions(const Channel& channel);
  // Delivers completions to the clients, also those that these calls cause; at most `most`.
  void deliver_completions(size_t most = SIZE_MAX);
  bool all_delivered() const { return completions_.empty(); }

  void check_invariants() const;

 private:
  enum class Ended : uint8_t { sent, received, mismatch };
  struct Completion {
    Ended what = Ended::sent;
    const Channel* channel = nullptr;
    MessageNo number;
    uint64_t bytes = 0;
    Status why;
  };

  Channel& add(ChannelId id);

  std::vector<Entry> channels_;  // at most kChannelsMax, in the order of their ids
  std::vector<Channel*> order_;  // order of creation; each of channels_ once
  size_t cursor_ = 0;            // in order_; < its size unless that is empty
  Fifo<Completion> completions_;
};

}  // namespace r2ccl
