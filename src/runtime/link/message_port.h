// What a link offers to those who send and receive messages: numbered byte ranges to one peer.
// The executor and point-to-point operations are written against this, so unit tests can drive them
// without a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"

namespace r2ccl {

// Told when messages end. Calls come from the progress thread, never from inside post_* itself.
class MessageClient {
 public:
  virtual ~MessageClient() = default;
  // Every byte of the message is acknowledged or copied: the source may be overwritten.
  virtual void on_sent(Rank peer, ChannelId channel, MessageNo number) = 0;
  // Every byte is in its place, and no late copy will touch it again.
  virtual void on_received(Rank peer, ChannelId channel, MessageNo number) = 0;
  // The peer's message does not fit what was posted here (another size or context): a mismatched
  // call. The job's calls have diverged; nothing more completes on this channel.
  virtual void on_mismatch(Rank peer, ChannelId channel, const Status& why) = 0;
};

// All messages to and from one peer. Progress thread only.
class MessagePort {
 public:
  virtual ~MessagePort() = default;

  // A channel carries messages 0, 1, 2, ... each way; both ends open it under the same id. The
  // client must outlive the channel.
  virtual void open_channel(ChannelId channel, MessageClient& client) = 0;

  // Posts the next message of the channel: numbers are given in order of the calls, from 0, and
  // returned. `context` (a plan's hash) must equal the receiver's. The bytes must stay untouched
  // until on_sent.
  virtual MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                              uint64_t context) = 0;
  virtual MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes,
                                 uint64_t context) = 0;

  // The client waits for nothing but the end of what it has posted. Messages that were sent whole
  // need not wait for their last acknowledgements then: what is missing is copied, within a bound.
  // Holds until the next post_send.
  virtual void hasten_sends(ChannelId channel) = 0;

  // Forgets all posted sends and receives of the channel. On return none of their buffers is
  // touched any more, whatever still arrives; no client call follows for them.
  virtual void cancel_channel(ChannelId channel) = 0;
};

}  // namespace r2ccl
