// All paths to one peer: reliable, multi-path, lossless delivery of numbered messages.
//
// A link works in two steps. While the reactor dispatches events, paths read chunks and control
// frames into ledgers and models. Then progress() delivers completions to clients, lets LinkPaths
// check the paths, lets ChunkSender give chunks to paths, and sends the changed state
// (link_control.cc). Nothing else happens in between, so a run is repeatable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/admin/drain.h"
#include "protocol/delivery/contradictions.h"
#include "protocol/delivery/notice_ledger.h"
#include "protocol/delivery/state_exchange.h"
#include "protocol/path/heartbeats.h"
#include "protocol/path/peer_clock.h"
#include "runtime/link/channels.h"
#include "runtime/link/chunk_sender.h"
#include "runtime/link/link_host.h"
#include "runtime/link/link_paths.h"
#include "runtime/link/message_port.h"
#include "runtime/link/path.h"

namespace r2ccl {

// It has more than 40 functions because it implements three interfaces (MessagePort, Path::Owner,
// LinkPaths::Events) and forwards those of LinkPaths that the engine calls.
class Link final : public MessagePort, private Path::Owner, private LinkPaths::Events {
 public:
  Link(LinkHost& host, Rank self, Rank peer, const std::vector<PathSpec>& paths,
       const LinkSettings& settings);

  Rank peer() const { return end_.peer; }
  // MessagePort
  void open_channel(ChannelId channel, MessageClient& client, Rank peer) override;
  void prefer_nic(ChannelId channel, NicId nic) override;
  void expect_messages() override;
  MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                      uint64_t context) override;
  MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes, uint64_t context) override {
    return post(channel, {bytes, context});
  }
  MessageNo post_standing_receive(ChannelId channel, std::span<std::byte> bytes) override {
    return post(channel, {.bytes = bytes, .standing = true});
  }
  void release_send_buffers(ChannelId channel) override;
  void cancel_channel(ChannelId channel) override;

  // Returns whether a message of the context is posted and unfinished, at this end.
  bool idle(ContextId context) const;
  // Both ends are done with the context. The link forgets its channels as soon as no copy of a
  // chunk of theirs is under way. Requires that is_closed(context) of its host holds.
  void close(ContextId context);
  // This end takes no part in the context: its messages from the peer are thrown away.
  void discard(ContextId context);
  // Returns whether the channels of one more context have room, after those of `others`.
  bool has_room(size_t others = 0) const;
  size_t channel_count() const { return channels_.all().size(); }

  // Delivers the notice to the peer's on_notice, after earlier notices and despite every failure,
  // unless a newer notice of the same slot replaces it first.
  void send_notice(Notice notice);

  // --- driven by the engine ---
  // Does all work that is due. `idle_ns`: how long the engine's loop had not run before this pass.
  void progress(TimeNs now, TimeNs idle_ns);
  // Returns the time at which progress() is due again if nothing happens before.
  TimeNs next_timeout(TimeNs now) const;
  bool wants_progress() const { return dirty_; }
  // Returns whether chunks wait for a path, or a path for its connection.
  bool has_unsent() const;

  // Decides on a connection of a path that the acceptor received.
  Result<AcceptDecision> on_hello(const ConnectionIdentity& identity, Incarnation theirs) {
    return paths_.on_hello(identity, theirs);
  }
  void adopt(EstablishedConnection connection) { paths_.adopt(std::move(connection)); }
  // Reports that a NIC of this host changed: up and with carrier, or not.
  void on_nic_change(NicId nic, bool usable, DownCause cause) {
    paths_.on_nic_change(nic, usable, cause);
  }
  // Reports that a NIC of the peer, or of this host, has other addresses now.
  void set_remote(NicId remote_nic, const std::vector<Address>& addresses, uint16_t port) {
    paths_.set_remote(remote_nic, addresses, port);
  }
  void set_source(NicId local_nic, const std::vector<Address>& addresses) {
    paths_.set_source(local_nic, addresses);
  }
  // Reports addresses that this host, or a NIC of the peer, has no more.
  void on_source_lost(std::span<const Address> lost) { paths_.on_source_lost(lost); }
  void on_remote_lost(NicId remote_nic, std::span<const Address> lost) {
    paths_.on_remote_lost(remote_nic, lost);
  }
  // Asks whether the peer answers, which another rank doubts.
  void doubt() { paths_.doubt(); }
  // Sets the NICs of this host and of the peer's that are out of service.
  void set_drained(NicSet local, NicSet remote) { paths_.set_drained(local, remote); }
  NicSet drained_remote() const { return paths_.drained_remote(); }
  // Returns whether nothing comes from the peer any more, not even from its kernel.
  bool is_cut_off(TimeNs now) const { return paths_.is_cut_off(now); }
  // Returns who has answered lately; doubt() asks.
  Answerer answerer(TimeNs now) const { return paths_.answerer(now); }
  // Returns whether the peer's kernel refuses, so its death may be found soon.
  bool may_be_dead() const { return !peer_ended() && paths_.may_be_dead(); }
  // Pings on the control streams of the paths that use this NIC. Returns whether one of these paths
  // seems to work.
  bool ping(NicId local_nic);

  // Starts the orderly end: says goodbye once everything is acknowledged both ways.
  void begin_goodbye();
  bool ends() const { return goodbye_.wanted; }
  // True when both ends have said goodbye and know it, or the peer has ended.
  bool goodbye_done() const;
  // True when the peer knows that this end has said goodbye.
  bool goodbye_told() const { return goodbye_.sent && state_.acknowledged() >= goodbye_.version; }
  // True when the clients have heard of every message that has arrived.
  bool all_delivered() const { return channels_.all_delivered(); }
  // The end of a rank that is out of memory, and needs none. The link's state may be half-way
  // through a change, so after this only its reports and the next two functions are legal.
  void halt() noexcept { paths_.halt(); }
  // Sends the frame's one notice on all control streams. Returns false until it is on its way.
  bool send_last(ControlFrame& frame, std::vector<std::byte>& memory);
  // Closes all connections.
  void hang_up() noexcept { paths_.hang_up(); }

  bool notices_delivered() const { return notices_.pending() == 0 || peer_ended(); }
  bool notice_delivered(const NoticeSlot& slot) const {
    return !notices_.pending(slot) || peer_ended();
  }
  size_t notices_pending() const { return notices_.pending(); }
  size_t notices_pending(uint8_t kind, uint64_t first_subject, uint64_t last_subject) const {
    return notices_.pending(kind, first_subject, last_subject);
  }
  bool peer_ended() const override { return peer_end_.has_value(); }
  std::optional<PeerEnd> peer_end() const { return peer_end_; }
  // True when the peer's goodbye has arrived, and with it everything that the peer ever sent.
  bool peer_said_goodbye() const override { return goodbye_.received; }

  // Returns the time in which the link, while idle, checks each of its paths once.
  TimeNs check_period() const { return heartbeats_.period(); }

  // --- for reports ---
  bool opens_paths() const { return paths_.opens(); }
  // Returns the paths as Path*, in the order of their specs. The relay path is one of them from its
  // first connection on.
  auto paths() const { return paths_.shown(); }
  Rank relayed_by() const { return paths_.relayed_by(); }
  const Path* find_path(PathId id) const { return paths_.find(id); }  // null: none
  uint64_t hedged_bytes() const { return sender_.hedged_bytes(); }
  uint64_t retransmitted_bytes() const { return sender_.retransmitted_bytes(); }
  bool ready() const { return paths_.ready(); }
  void tally_drain(NicId local, NicId remote, DrainTally& tally) const {
    paths_.tally_drain(local, remote, tally);
  }
  // Returns the reason why the latest attempt to open a path failed; empty when none did.
  const std::string& last_dial_failure() const { return paths_.last_dial_failure(); }

  // The simulator calls it in every fourth turn.
  void check_invariants() const;
  // CHECKs that a link without a mark has nothing to do before `deadline`: no event, call or change
  // of state was forgotten. `at`: when next_timeout() gave that deadline.
  void check_idle_until(TimeNs deadline, TimeNs at) const;

 private:
  MessageNo post(ChannelId channel, const ReceiveLedger::Receive& receive);

  struct Goodbye {
    bool wanted = false;
    bool sent = false;     // implies wanted
    uint64_t version = 0;  // <= state_.version(): the one that said it
    bool received = false;
  };

  // link.cc
  TimeNs now() const override { return host_.clock().now(); }
  void changed();
  void copy_remainders();
  void check_goodbye();
  Result<Channel*> hear(ChannelId id);
  Channel* add_cancelled(ChannelId id);
  void forget_closed();

  // link_receive.cc: Path::Owner
  Result<ReceiveLedger::Place> on_chunk_header(Path& path, const DataHeader& header) override;
  void on_chunk(Path& path, const DataHeader& header, std::vector<std::byte> early,
                bool discarded) override;
  void on_probe(Path& path) override;
  void on_control(Path& path, ControlFrame frame) override;
  void on_broken(Path& path, DownCause cause, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override;
  Status apply_channels(const ControlFrame& frame);
  void apply_path(const PathReport& report, const ControlFrame& frame, TimeNs now);
  void apply_delivered(Path& path, const PathReport& report, const ControlFrame& frame, TimeNs now);
  void apply_notices(const ControlFrame& frame);
  void refuse(Path& path, const std::string& what);
  void note_contradiction(const Path& path, Incarnation incarnation, const std::string& what);
  void tell_contradiction();

  // link_control.cc
  enum class Ping : uint8_t { none, casual, urgent };
  void send_due_frames(TimeNs now);
  void send_pongs(TimeNs now);
  void send_heartbeats(TimeNs now);
  void send_state(Path& path, TimeNs now, Ping ping);
  ControlFrame& make_frame(TimeNs now);
  PathReport report_path(const Path& path);
  void report_channels(ControlFrame& frame) const;
  std::span<const std::byte> take_state(const Path& path, TimeNs now);

  // LinkPaths::Events
  bool said_goodbye() const override { return goodbye_.sent; }
  void send_ping(Path& path, TimeNs now) override { send_state(path, now, Ping::urgent); }
  void send_proof(Path& path, TimeNs now) override { sender_.send_proof(path, now); }
  void on_suspect(Path& path) override { sender_.on_suspect(path); }
  void on_failing(Path& path) override { sender_.on_failing(path); }
  uint64_t on_failed(const Fifo<Transmission>& lost) override { return sender_.on_failed(lost); }
  void on_state_changed() override { changed(); }
  void on_path_event(const PathEvent& event) override;
  void wake() override;  // also of Path::Owner
  void on_peer_gone(const PeerLiveness::End& end) override;

  LinkHost& host_;
  const LinkEnd end_;
  const LinkSettings settings_;
  LinkPaths paths_;
  Heartbeats heartbeats_;
  ChannelSet channels_;
  ChunkSender sender_;
  StateExchange state_;
  PeerClock peer_clock_;
  NoticeLedger notices_;
  Contradictions contradictions_;
  Goodbye goodbye_;
  std::optional<PeerEnd> peer_end_;
  std::optional<BadMemory> bad_memory_;  // not reported to the host yet
  std::vector<std::byte> carried_;       // the state that take_state() last returned
  ControlFrame frame_;                   // the last one made; kept for its memory
  // The results of one control frame, kept for their memory.
  std::vector<Transmission> delivered_;
  std::vector<SendLedger::Posted> completed_;
  bool dirty_ = true;   // progress() is due, and the host knows it
  size_t closing_ = 0;  // channels
};

}  // namespace r2ccl
