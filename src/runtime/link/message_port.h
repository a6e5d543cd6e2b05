// The interface of a link to the senders and receivers of messages: numbered byte ranges to one
// peer. The executor and point-to-point operations use only this interface, so unit tests can drive
// them without a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

// Receives the ends of messages. Calls come from the driving thread, never from inside post_*
// itself.
class MessageClient {
 public:
  virtual ~MessageClient() = default;
  // Every byte of the message is acknowledged or copied: the client may overwrite the source.
  virtual void on_sent(Rank peer, ChannelId channel, MessageNo number) = 0;
  // Every byte of the message, which has so many, is in its place, and no late copy will touch it
  // again.
  virtual void on_received(Rank peer, ChannelId channel, MessageNo number, uint64_t bytes) = 0;
  // The peer's message does not match the posted one (another size or context). The calls of the
  // ranks have diverged, and no message completes on this channel any more.
  virtual void on_mismatch(Rank peer, ChannelId channel, const Status& why) = 0;
};

// All messages to and from one peer. Driving thread only.
class MessagePort {
 public:
  virtual ~MessagePort() = default;

  // Opens a channel. A channel carries messages 0, 1, 2, ... each way; both ends open it under the
  // same id. Requires that the client outlives the channel. `peer`: what the client calls the rank
  // at the other end.
  virtual void open_channel(ChannelId channel, MessageClient& client, Rank peer) = 0;

  // The channel's chunks go by that NIC of this host unless another is faster. Requires an opened
  // channel.
  virtual void prefer_nic(ChannelId, NicId) {}

  // Announces messages, so that the connections for them open before the first one is posted. Posts
  // other than standing receives announce them too.
  virtual void expect_messages() {}

  // Posts the next message of the channel and returns its number; numbers count the calls from 0.
  // `context` (a plan's hash) must equal the receiver's. The bytes must stay unchanged until
  // on_sent.
  virtual MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                              uint64_t context) = 0;
  virtual MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes,
                                 uint64_t context) = 0;
  // Posts the next receive for a message of any context that may come, of at most this size: the
  // bytes after its end stay as they were. The client may look at the bytes while they arrive: each
  // appears after those before it in its chunk. The end of the link does not wait for it.
  virtual MessageNo post_standing_receive(ChannelId channel, std::span<std::byte> bytes) = 0;

  // Tells the link that the client only waits for the end of its posted messages. Then a message
  // that was sent whole need not wait for its last acknowledgements: the link copies its
  // unacknowledged bytes, within a bound. Holds until the next post_send.
  virtual void release_send_buffers(ChannelId channel) = 0;

  // Forgets all posted sends and receives of the channel. After the return the link touches none of
  // their buffers, even if more frames arrive, and makes no client call for them.
  virtual void cancel_channel(ChannelId channel) = 0;
};

}  // namespace r2ccl
