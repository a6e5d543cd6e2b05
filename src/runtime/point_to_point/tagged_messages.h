// Tagged messages of one communicator: the n-th Send of a tag meets the n-th Recv of that tag, for
// each pair of ranks and direction. Other tags have no order against it. The receiver learns the
// size from the sender.
//
// The receiver matches. Each message sends one frame to it, on a channel of frames, which are
// handled in their order and wait for nothing. A small message travels inside its frame. The frame
// of another one announces it; the receiver grants it once a Recv has met it, and the payload then
// goes from buffer to buffer on a channel of payloads, in the order of the grants. A variant of the
// eager and rendezvous protocols of MPI libraries, with credit for unexpected messages
// (docs/decisions/0024-tagged-messages.md, docs/wire.md).
//
// Bounds of unexpected messages, per peer: limits::kTaggedWholeBytes for those inside frames, which
// the receiver gives back as Recvs take them; without credit a message is announced. Announcements:
// limits::kTaggedAnnouncedMax. Further messages wait at the sender, in their order.
//
// Driving thread only. A callback is called exactly once per operation, from inside send, receive,
// cancel (so also from the destructor), or a callback of the link. It may call all of these; it
// must not destroy the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fifo.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/link/user_memory.h"
#include "runtime/point_to_point/point_to_point.h"
#include "runtime/point_to_point/tagged_frame.h"

namespace r2ccl {

class TaggedMessages {
 public:
  using Done = std::function<void(const Status&)>;
  // `bytes`: the size of the message.
  using ReceiveDone = std::function<void(const Status&, uint64_t bytes)>;

  // As for Executor: one port per rank, null for `self`. The ports must outlive this.
  TaggedMessages(Rank self, ChannelId frames, ChannelId payloads, std::vector<MessagePort*> ports);
  ~TaggedMessages();
  TaggedMessages(const TaggedMessages&) = delete;
  TaggedMessages& operator=(const TaggedMessages&) = delete;

  // Done once the caller may overwrite the bytes: at once for a small message, unless it is to this
  // rank itself.
  void send(Rank peer, std::span<const std::byte> bytes, DataType type, int32_t tag, Done done);
  // Requires a message of at most this size.
  void receive(Rank peer, std::span<std::byte> bytes, DataType type, int32_t tag, ReceiveDone done);

  // This rank makes no more calls. Fails when a message has come without a Recv. One that comes
  // later is a failure. Requires that no operation is unfinished.
  Status end();
  // Ends every operation with `why`, for ever. After the return no buffer is touched.
  void cancel(const Status& why);
  // Does the same without memory, and without a word to the ports, which must move no bytes any
  // more.
  void abandon(const Status& why) noexcept;

  // Told of a message that does not fit its Recv or has none, and of a peer that breaks the
  // protocol. Without a handler this only ends its own operations. `who` names a rank in words.
  using FailureHandler = std::function<void(const Status& why)>;
  void set_failure_handler(FailureHandler handler, std::function<std::string(Rank)> who);

  // True when no operation is unfinished.
  bool idle() const { return unfinished_ == 0; }
  // True when the only unfinished operations are those of unmatched_local().
  bool idle_but_local() const { return unfinished_ == unmatched_local(); }
  // Returns the number of calls between this rank and itself that wait for their counterpart.
  size_t unmatched_local() const;
  // The number of calls so far.
  uint64_t sends_to(Rank peer) const;
  uint64_t receives_from(Rank peer) const;
  // Returns whether the call, which counts from 1, is unfinished and the peer has not made the
  // counterpart, as far as this rank knows.
  bool lacks_receive(Rank peer, uint64_t number) const;
  bool lacks_send(Rank peer, int32_t tag, uint64_t number) const;
  // The peer has made `sends` Sends to this rank and makes no more. Returns "RecvTagged 3 (tag 7)
  // from it", a call that none of them meets, or empty. Empty too while not all of them have come.
  std::string unmet_receive(Rank peer, uint64_t sends) const;
  // Returns the peers that unfinished operations wait for, in rank order.
  std::vector<Rank> waits_on() const;

  // Returns the unfinished call that the memory belongs to, or nothing.
  std::optional<BufferUse> find_buffer(const BadMemory& bad) const;
  // Returns the use of the memory by the next Send to, or Recv from, this peer.
  BufferUse use_by_next(Rank peer, int32_t tag, std::span<const std::byte> bytes,
                        const BadMemory& bad) const;

  void check_invariants() const;

 private:
  struct Send {
    std::span<const std::byte> bytes;
    DataType type = DataType::int32;
    int32_t tag = 0;
    bool granted = false;  // its payload is on its way
    Done done;
  };
  struct Receive {
    std::span<std::byte> bytes;
    DataType type = DataType::int32;
    int32_t tag = 0;
    uint64_t number = 0;  // from 1
    ReceiveDone done;
  };
  // A message that has come, or was announced.
  struct Message {
    TaggedFrame frame;
    std::vector<std::byte> kept;  // the payload of a whole message that no Recv has met
  };
  // Takes a frame of a peer.
  struct Room {
    std::unique_ptr<std::byte[]> bytes;
    bool full = false;
  };
  struct Peer {
    // --- messages to the peer ---
    uint64_t sends = 0;
    std::map<uint64_t, Send> sending;  // by number, from 0: those that are not complete
    Fifo<uint64_t> held_back;          // the last of these, which have no frame yet
    size_t announced = 0;              // those that have a frame and no grant
    uint64_t charged = 0;              // credit that whole messages have taken
    uint64_t given_back = 0;           // <= charged
    // --- messages from the peer ---
    uint64_t receives = 0;
    uint64_t messages = 0;                 // number of the next one
    std::multimap<int32_t, Receive> open;  // by tag: Recvs that no message has met
    // By tag: messages that no Recv has met. No tag is in both.
    std::multimap<int32_t, Message> unexpected;
    std::map<uint64_t, Receive> granted;      // by the message's number: the payload is to come
    size_t announced_here = 0;                // among `unexpected`
    uint64_t held = 0;                        // charge of the whole messages among `unexpected`
    uint64_t taken = 0;                       // charge of those that Recvs have taken
    uint64_t taken_told = 0;                  // <= taken: as the last frame said
    std::deque<std::unique_ptr<Room>> rooms;  // oldest first; empty until the first call
  };

  Peer& at(Rank peer);
  const Peer* find(Rank peer) const { return peers_[static_cast<size_t>(peer.value())].get(); }

  void send_frame(Rank peer, TaggedFrame frame);
  bool send_whole(Rank peer, uint64_t number, const Send& send);
  void send_more(Rank peer);
  void send_payload(Rank peer, uint64_t number);
  void open_channels();
  void open_rooms(Rank peer);
  void post_room(Rank peer, std::unique_ptr<Room> room);
  void empty_rooms(Rank peer);
  void on_frame(Rank peer, std::span<const std::byte> bytes);
  void on_message(Rank peer, const TaggedFrame& frame);
  void keep(Rank peer, const TaggedFrame& frame);
  void on_grant(Rank peer, const TaggedFrame& frame);
  using Open = std::multimap<int32_t, Receive>::iterator;
  void match(Rank peer, Open receive, const TaggedFrame& message);
  void take_whole(Rank peer, Open open, const TaggedFrame& message);
  void take_local(Open open, const TaggedFrame& message);
  void grant(Rank peer, Open open, const TaggedFrame& message);
  void fail(const Status& why);
  void refuse(Rank peer, const std::string& what);
  Status misfit(Rank peer, const Receive& receive, const TaggedFrame& message) const;
  Status unmatched(Rank peer, const TaggedFrame& message) const;

  const Rank self_;
  const ChannelId frame_channel_;
  const ChannelId payload_channel_;
  const std::vector<MessagePort*> ports_;
  // Both are empty until the first call with another rank: a link without tagged messages has no
  // channels for them.
  std::optional<PointToPoint> frames_;
  std::optional<PointToPoint> payloads_;
  std::vector<std::unique_ptr<Peer>> peers_;  // null until the first call
  uint64_t unfinished_ = 0;
  bool ended_ = false;
  FailureHandler on_failure_;
  std::function<std::string(Rank)> who_;
  Status failure_;  // not ok: cancelled
};

}  // namespace r2ccl
