// All paths to one peer: reliable, multi-path, lossless delivery of numbered messages.
//
// A link reads and writes in three beats. While events are handed out, paths read chunks and
// control frames into ledgers and models. Then progress() tells clients what ended, judges the
// paths (link_health.cc), gives chunks to paths (link_send.cc) and says what changed
// (link_control.cc). Nothing else happens behind the caller's back, which is what makes a run
// repeatable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "protocol/admin/drain.h"
#include "protocol/delivery/contradictions.h"
#include "protocol/delivery/notice_ledger.h"
#include "protocol/delivery/receive_ledger.h"
#include "protocol/delivery/send_ledger.h"
#include "protocol/delivery/state_exchange.h"
#include "protocol/path/death_evidence.h"
#include "protocol/path/nic_queue.h"
#include "runtime/connection/path_dialer.h"
#include "runtime/link/link_witness.h"
#include "runtime/link/message_port.h"
#include "runtime/link/path.h"

namespace r2ccl {

// A path changed its phase at this end.
struct PathEvent {
  Rank peer;
  PathId path;
  NicId local_nic;
  NicId remote_nic;
  PathPhase from = PathPhase::down;
  PathPhase to = PathPhase::down;
  DownCause cause = DownCause::none;       // what this end saw
  DownCause peer_cause = DownCause::none;  // what the peer saw, when it spoke first
  TimeNs at = 0;
  TimeNs detected_ns = 0;       // from the first unacknowledged send, or the event, to now
  uint64_t replayed_bytes = 0;  // what had to be sent again
  TimeNs up_ns = 0;             // for how long it had been up, suspicion included
  bool planned = false;         // it was at rest, and nothing was under way on it: no fault
  bool aftermath = false;       // of a silence of the whole peer: no fault of its own
  std::string why;
};

// How a peer ended.
enum class PeerEnd : uint8_t {
  goodbye,  // in order
  dead,     // its kernel refuses every connection: the process is gone
  cut_off,  // nothing reaches it, for longer than the bound
};

// What a link needs of the engine that owns it.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  virtual const Clock& clock() const = 0;
  virtual Reactor& reactor() = 0;
  virtual Transport& transport() = 0;
  virtual const RunIdentity& run() const = 0;
  virtual std::array<std::byte, kNonceBytes> nonce() = 0;
  virtual std::span<std::byte> scratch() = 0;
  virtual NicPace& pace(NicId nic) = 0;
  virtual NicQueue& queue(NicId nic) = 0;
  // Tells a peer where that NIC of this rank is now; empty: nothing to tell.
  virtual std::vector<std::byte> address_notice(NicId nic) const = 0;

  virtual void on_path_event(const PathEvent& event) = 0;
  virtual void on_notice(Rank peer, std::span<const std::byte> bytes) = 0;
  virtual void on_peer_end(Rank peer, PeerEnd end, const std::string& why) = 0;
  // Memory of a client cannot be touched. Said again until the client's channel is cancelled.
  virtual void on_bad_memory(const BadMemory& bad) = 0;
  // The peer has said twice, on two connections, what cannot be: no path mends that. `why` goes on
  // after the peer's name. The link lives, so that both ends can be told.
  virtual void on_contradiction(Rank peer, const std::string& why) = 0;
};

struct LinkSettings {
  bool monitor = true;  // false: no suspicion, probes or mirrors; ledgers and acknowledgements stay
  bool damping = true;
  TimeNs cutoff = 300 * kSecond;
  LinkWitness* witness = nullptr;  // none in production
};

class Link final : public MessagePort, private Path::Owner, private PathDialer::Owner {
 public:
  Link(LinkHost& host, Rank self, Rank peer, const std::vector<PathSpec>& paths,
       const LinkSettings& settings);
  ~Link() override;

  Rank peer() const { return peer_; }

  // MessagePort
  void open_channel(ChannelId channel, MessageClient& client) override;
  MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                      uint64_t context) override;
  MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes, uint64_t context) override;
  void hasten_sends(ChannelId channel) override;
  void cancel_channel(ChannelId channel) override;

  // Delivers the notice to the peer's on_notice, after those that were sent before and whatever
  // fails, unless a newer notice of the same slot replaces it first.
  void send_notice(Notice notice);

  // --- driven by the engine ---
  // Does all that is due. `idle_ns`: how long the engine's loop had not run before this pass.
  void progress(TimeNs now, TimeNs idle_ns);
  // When progress() is due again if nothing happens before.
  TimeNs next_timeout(TimeNs now) const;
  bool wants_progress() const { return dirty_; }

  // The acceptor's side of a path's connections.
  Result<AcceptDecision> on_hello(const ConnectionIdentity& identity, Incarnation theirs);
  void adopt(EstablishedConnection connection);
  // A NIC of this host changed: up and with carrier, or not.
  void on_nic_change(NicId nic, bool usable, DownCause cause);
  // A NIC of the peer, or of this host, has other addresses now.
  void set_remote(NicId remote_nic, const std::vector<Address>& addresses, uint16_t port);
  void set_source(NicId local_nic, const std::vector<Address>& addresses);

  // These NICs of this host and of the peer's are out of service.
  void set_drained(NicSet local, NicSet remote);
  NicSet drained_remote() const { return drained_remote_; }

  // Asks on the lanes of the paths that use this NIC whether they work. Returns whether one does
  // use it, for what this end knows.
  bool ping(NicId local_nic);

  // Starts the orderly end: when everything is acknowledged both ways, says goodbye.
  void begin_goodbye();
  // Both ends have said goodbye and know it, or the peer has ended.
  bool goodbye_done() const;
  bool notices_delivered() const { return notices_.pending() == 0 || peer_end_.has_value(); }
  size_t notices_pending() const { return notices_.pending(); }
  size_t notices_pending(uint8_t kind) const { return notices_.pending(kind); }
  bool peer_ended() const { return peer_end_.has_value(); }
  std::optional<PeerEnd> peer_end() const { return peer_end_; }
  // The peer's goodbye is here, and so is everything that it ever sent.
  bool peer_said_goodbye() const { return goodbye_received_; }

  // --- for reports ---
  bool opens_paths() const { return self_ < peer_; }
  // The paths as Path*, in the order of their specs.
  auto paths() const {
    return std::views::transform(slots_, [](const PathSlot& slot) { return slot.path.get(); });
  }
  uint64_t mirrored_bytes() const { return mirrored_bytes_; }
  uint64_t replayed_bytes() const { return replayed_bytes_; }
  // The longest that a chunk was delayed by the latest trouble of this path.
  TimeNs stall_of(PathId path) const;
  bool ready() const;  // some path can carry chunks
  void tally_drain(NicId local, NicId remote, DrainTally& tally) const;
  // Why the latest attempt to open a path failed; empty when none did.
  const std::string& last_dial_failure() const { return last_dial_failure_; }

 private:
  struct PathSlot {
    std::unique_ptr<Path> path;
    // Dials for the lower rank; the higher rank only probes whether the peer is there.
    std::unique_ptr<PathDialer> dialer;
    size_t pace_sender = 0;  // this peer's index in the NIC's pace
    // The acceptor holds a path's data connection until its lane joins.
    std::optional<EstablishedConnection> pending_data;
    TimeNs stall = 0;  // of the latest trouble
  };
  struct Channel {
    explicit Channel(ChannelId id)
        : send(id, limits::kEagerBytes), receive(id, limits::kEagerBytes) {}
    bool opened = false;              // at this end; the peer may use it earlier
    MessageClient* client = nullptr;  // none until it is opened, and after it is cancelled
    SendLedger send;
    ReceiveLedger receive;
    uint64_t changed_version = 0;  // of link state, when the receiving end last changed
    int64_t quantum = 0;           // byte credit for fairness among channels
    bool hastened = false;         // the client waits for nothing but the end of its sends
  };
  // A chunk that must be sent again: its copies died (replay) or are late (mirror).
  struct Resend {
    ChannelId channel;
    ChunkRef chunk;
    PathId avoid;  // mirrors go elsewhere
    bool mirror = false;
  };
  enum class Ended : uint8_t { sent, received, mismatch };
  struct Completion {
    Ended what;
    ChannelId channel;
    MessageNo number;
    Status why;
  };
  // A chunk that was under way on a path when that path was suspected or failed.
  struct Hit {
    PathId path;
    ChannelId channel;
    ChunkRef chunk;
    TimeNs sent_at = 0;
  };

  // A chunk that its path has delivered, as far as the path counts, and that is not acknowledged.
  struct Unlisted {
    PathId path;
    Incarnation incarnation;
    ChannelId channel;
    ChunkRef chunk;
    uint64_t counted = 0;  // the peer's version that counted it
  };

  // link.cc
  Channel& channel(ChannelId id);
  Result<Channel*> heard_channel(ChannelId id);
  Channel& add_channel(ChannelId id);
  Path* find(PathId id);
  size_t index_of(const Path& path) const;
  void deliver_completions();
  void end_hastened_sends();
  void touch() { dirty_ = true; }
  void changed() {
    state_.bump_version();
    dirty_ = true;
  }
  std::deque<Transmission> detach(Path& path, DownCause cause, TimeNs at);
  void end_peer(PeerEnd end, const std::string& why);
  void check_goodbye();
  void report_bad_memory();
  void resume_paused(TimeNs now);

  // link_drain.cc
  void rest_drained();

  // link_receive.cc: Path::Owner
  Result<ReceiveLedger::Place> on_chunk_header(Path& path, const DataHeader& header) override;
  void on_chunk(Path& path, const DataHeader& header, std::vector<std::byte> early,
                bool discarded) override;
  void on_probe(Path& path) override;
  void on_control(Path& path, ControlFrame frame) override;
  void on_broken(Path& path, DownCause cause, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override;
  TimeNs now() const override { return host_.clock().now(); }
  void note_heard(TimeNs now);
  void end_silence(TimeNs at);
  void keep_connections();
  void excuse(TimeNs duration);
  Status apply_channels(const ControlFrame& frame);
  void apply_path(const PathReport& report, const ControlFrame& frame, TimeNs now);
  void apply_notices(const ControlFrame& frame);
  void apply_answer(Path& path, uint32_t answer, TimeNs now);

  // link_contradiction.cc
  void refuse(Path& path, const std::string& what);
  void note_contradiction(const Path& path, Incarnation incarnation, const std::string& what);
  void tell_contradiction();
  void note_unlisted(const Path& path, const Transmission& transmission, uint64_t counted);
  void settle_unlisted(const ControlFrame& frame);
  void send_unlisted(const Unlisted& lost);

  // link_send.cc
  void dispatch(TimeNs now);
  bool any_path_free() const;
  std::vector<const Path*> dispatch_resend(TimeNs now);
  bool dispatch_fresh(std::span<const Path* const> awaited, TimeNs now);
  void mirror_stragglers(TimeNs now);
  void probe_slow_paths(TimeNs now);
  struct Fresh {
    Channel* from = nullptr;  // null: nothing is left to send, or permitted
    ChunkRef chunk;
  };
  Fresh next_fresh(TimeNs now);
  uint32_t cut_for(uint64_t message_bytes, TimeNs now) const;
  size_t paths_for(uint64_t message_bytes, TimeNs now) const;
  struct Choice {
    Path* path = nullptr;
    bool wait = false;  // a path that is busy now will finish it sooner than any free one
    const Path* awaited = nullptr;  // that path
  };
  Choice choose_path(uint64_t bytes, std::optional<PathId> avoid, bool urgent, TimeNs now,
                     std::span<const Path* const> reserved = {});
  bool path_takes(const Path& path, uint64_t bytes, bool urgent) const;
  void transmit(Path& path, Channel& channel, ChunkRef chunk, TimeNs now);
  void send_probe(Path& path, TimeNs now);
  void send_frame(Path& path, const DataHeader& header, std::span<const std::byte> payload,
                  Transmission transmission, TimeNs now);
  void queue_lost(const std::deque<Transmission>& lost, uint64_t& replayed_bytes);
  void mirror_outstanding(Path& path);
  void note_hit(Path& path);
  void settle_hits(TimeNs now);
  bool may_mirror(uint64_t bytes) const;
  TimeNs backlog_done_at(TimeNs now) const;
  double fastest_rate() const;
  double rate_of_shared_nics() const;
  PathModel::Best best_shown() const;
  TimeNs shortest_delay() const;
  size_t usable_paths() const;

  // link_control.cc
  void control(TimeNs now);
  enum class Question : uint8_t { none, casual, urgent };
  void send_state(Path& path, TimeNs now, Question question);
  TimeNs spacing(TimeNs now) const;
  ControlFrame make_frame(TimeNs now);
  void report_channels(ControlFrame& frame) const;
  static bool good_lane(const Path& path);
  TimeNs prompt_round_trip(TimeNs now) const;
  Path* choose_lane(TimeNs now);
  uint64_t pace_total(Path& path, TimeNs now);

  // link_health.cc
  void health(TimeNs now, TimeNs idle_ns);
  void act_on_breaks(TimeNs now);
  void prove_paths(TimeNs now);
  bool is_last(const Path& path) const;
  void judge(Path& path, TimeNs now);
  void judge_suspect(Path& path, TimeNs now);
  static bool is_mute(const Path& path, TimeNs now);
  TimeNs kernel_answer_time(Path& path, TimeNs now);
  void probe_kernel(const Path& path, TimeNs now);
  TimeNs overdue_at(const Path& path) const;
  static TimeNs lane_overdue_at(const Path& path);
  void ask(TimeNs now, Path* in_doubt);
  bool others_in_doubt(const Path* in_doubt, TimeNs now) const;
  Path* choose_witness(const Path* in_doubt, TimeNs now);
  void fail_path(Path& path, DownCause cause, DownCause peer_cause, const std::string& why,
                 TimeNs now);
  void report_change(const Path& path, PathPhase from, TimeNs now, PathEvent event);
  void dial(TimeNs now);
  void open(Path& path, TimeNs now);
  void check_gone(TimeNs now);
  void note_data_paths(TimeNs now);
  TimeNs unanswered_since(const Path& path) const;
  TimeNs unheard(TimeNs now) const { return asked_at_ == 0 ? 0 : now - asked_at_; }
  TimeNs silence(TimeNs now) const;
  TimeNs kernel_ask_interval(TimeNs now) const;
  void note_acknowledged(TimeNs now);
  void ask_silent_kernel(TimeNs now);
  // PathDialer::Owner
  void on_dialed(PathDialer& dialer, DialedPath dialed) override;
  void on_dial_failed(PathDialer& dialer, const DialFailure& failure) override;

  LinkHost& host_;
  const Rank self_;
  const Rank peer_;
  const LinkSettings settings_;
  std::vector<PathSlot> slots_;
  std::map<ChannelId, std::unique_ptr<Channel>> channels_;
  std::vector<ChannelId> channel_order_;
  size_t channel_cursor_ = 0;
  std::deque<Resend> resend_;
  std::vector<Unlisted> unlisted_;
  Contradictions contradictions_;
  std::string contradiction_;  // not told yet
  bool contradicted_ = false;
  std::vector<Hit> hits_;
  std::vector<Completion> completions_;
  // What one control frame brought, kept for their memory.
  std::vector<Transmission> delivered_;
  std::vector<SendLedger::Posted> completed_;
  NoticeLedger notices_;

  StateExchange state_;
  size_t lane_cursor_ = 0;

  // Health.
  uint32_t ask_number_ = 1;      // of the next one
  TimeNs evidence_at_ = 0;       // the peer has acted on something sent at this time
  TimeNs heard_at_ = 0;          // a control frame last came at this time
  TimeNs asked_at_ = 0;          // the peer was asked and nothing has come since; 0: something has
  TimeNs silence_ended_at_ = 0;  // all lanes had been silent until then
  TimeNs next_ask_ = 0;
  TimeNs last_ask_at_ = 0;
  TimeNs ask_wait_ = 0;
  size_t witness_cursor_ = 0;
  TimeNs next_kernel_look_ = 0;
  TimeNs overdraw_until_ = 0;
  TimeNs all_down_since_ = 0;  // 0: some path is connected
  // 0: some path carries data, or none ever has.
  TimeNs no_data_since_ = 0;
  std::string last_dial_failure_;
  NicSet drained_local_;
  NicSet drained_remote_;
  DeathEvidence death_evidence_;

  uint64_t mirrored_bytes_ = 0;
  uint64_t replayed_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
  uint64_t payload_probed_ = 0;  // when a slow path was last probed
  bool goodbye_wanted_ = false;
  bool goodbye_sent_ = false;
  uint64_t goodbye_version_ = 0;
  bool goodbye_received_ = false;
  std::optional<PeerEnd> peer_end_;
  std::optional<BadMemory> bad_memory_;  // not told to the host yet
  bool dirty_ = true;
};

}  // namespace r2ccl
