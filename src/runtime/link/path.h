// One path of a link at one end: its two connections, its model of the forward direction, its
// state, and the counters that travel in control frames. The path moves bytes and reports events;
// the link decides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fifo.h"
#include "protocol/path/loss_meter.h"
#include "protocol/path/path_end.h"
#include "protocol/path/reconnect_backoff.h"
#include "runtime/connection/handshake_io.h"
#include "runtime/connection/path_addresses.h"
#include "runtime/connection/reactor.h"
#include "runtime/link/control_stream.h"
#include "runtime/link/frame_reader.h"
#include "runtime/link/frame_writer.h"
#include "runtime/link/link_host.h"
#include "runtime/link/user_memory.h"

namespace r2ccl {

// The two ends of a path. Fixed for the life of the link, except their addresses.
struct PathSpec {
  PathId id;
  bool control_only = false;  // the out-of-band path: control frames, never chunks
  bool fallback = false;      // opened only while no other data path is connected, then on standby
  bool relay = false;         // goes through a third rank; a fallback, of no NIC
  NicId local_nic = kNoNic;
  NicId remote_nic = kNoNic;
  std::string local_name;  // for messages: "nic0", "mgmt", "shm", "lo", "relay"
  std::string device;      // bind to this device; empty: not bound
  Address source;
  Endpoint remote;          // the peer's listener on its NIC
  PathAddresses addresses;  // source and remote are one pair of them, or fixed
  // The peer is in this network namespace, so addresses of this host may be the peer's.
  bool one_network = false;

  bool is_shm() const { return remote.address.family == AddressFamily::local; }
};

class Path final : public PathEnd, private FrameReader::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Result<ReceiveLedger::Place> on_chunk_header(Path& path, const DataHeader& header) = 0;
    virtual void on_chunk(Path& path, const DataHeader& header, std::vector<std::byte> early,
                          bool discarded) = 0;
    // A full-size frame without content has arrived, and the peer waits for its acknowledgement.
    virtual void on_probe(Path& path) = 0;
    // `frame`: from the control stream, or carried by a data frame.
    virtual void on_control(Path& path, ControlFrame frame) = 0;
    // The connection broke. Called from inside I/O; the owner acts later, in its own progress().
    virtual void on_broken(Path& path, DownCause cause, const std::string& why) = 0;
    // The kernel cannot touch memory of a client. Called from inside I/O, possibly repeatedly until
    // the client's channel is cancelled; the owner acts later.
    virtual void on_bad_memory(const BadMemory& bad) = 0;
    // The path can send again, or pauses: the owner's progress() and deadlines are due.
    virtual void wake() = 0;
    virtual TimeNs now() const = 0;
  };

  // `place`: the path's index in its link. `nic_queue`: the queue of its local NIC.
  Path(Owner& owner, size_t place, PathSpec path_spec, const NicQueue& nic_queue, LinkHost& host,
       bool damping);

  PathSpec spec;
  ReconnectBackoff backoff;
  uint32_t dials = 0;  // number of dial attempts
  TimeNs stall = 0;    // the longest delay of a chunk by the latest trouble of this path
  // Returns the NIC by which its bytes leave: that of its last connection. It is not the spec's
  // where this host answers for the address of that one on another.
  NicId nic() const { return nic_; }
  // Requires that it is not connected.
  void set_nic(NicId nic);
  // Returns true when it carries nothing because a NIC is out of service, connected or not.
  bool at_rest() const { return drained && (standby || !state.usable()); }

  // Returns true for a fallback while it is not needed, connected or not.
  bool stands_by() const { return spec.fallback && standby; }

  // Takes the connections of one incarnation. With `data`, full-size frames must pass both ways
  // before the path is up. Requires none for a control-only path.
  Status attach(Reactor& reactor, std::optional<EstablishedConnection> data,
                EstablishedConnection control, TimeNs now);
  // Takes the data connection of the present incarnation. Requires lacks_data().
  Status join(EstablishedConnection data);
  bool has_data() const { return data_ != nullptr; }
  // Returns whether it is connected by its control stream alone, and may have a data connection.
  bool lacks_data() const { return !control_only && control_ != nullptr && data_ == nullptr; }
  // Returns whether it has a data connection that has not shown that full-size frames pass.
  bool proves() const { return data_ != nullptr && !data_passes; }
  bool probe_received() const { return probe_received_; }
  // Returns whether full-size frames have passed both ways.
  bool proved() const {
    return probe_received_ && model.frames_sent() > 0 && model.outstanding().empty();
  }
  // Closes both connections abortively, and forgets and returns the outstanding transmissions,
  // oldest first. `keeps_end`: leaves the control connection to itself, for look_at_end().
  Fifo<Transmission> detach(DownCause cause, TimeNs now, bool keeps_end = false);
  // Returns whether such a connection is left. The next incarnation ends it.
  bool keeps_end() const { return end_ != nullptr; }
  // Requires that. Returns how the peer's kernel has closed it, if it has, and then ends it.
  KernelClose look_at_end();
  void drop_end() noexcept { end_.reset(); }

  // --- the end without memory; after halt() only send_last(), hang_up() and reports are legal ---
  // Ends all input and output: touches no memory of clients any more.
  void halt() noexcept;
  // As of ControlStream; `closed` when there is none.
  IoKind send_last(ControlFrame& frame, std::vector<std::byte>& memory);
  // Closes both connections.
  void hang_up() noexcept;

  // --- sending ---
  bool can_start_frame() const override { return data_ != nullptr && !writer_->busy(); }
  // Requires can_start_frame(). Fills in the header's path fields. `carried`: the state, as
  // FrameWriter wants it.
  void send_frame(DataHeader header, std::span<const std::byte> payload,
                  std::span<const std::byte> carried, Transmission transmission, TimeNs now,
                  TimeNs nic_time);
  // For tests; null without a data connection.
  const HeaderTag* sent_tag() const { return writer_ ? &writer_->tag() : nullptr; }
  void finish_with_padding(ChannelId channel, MessageNo message) {
    if (writer_) writer_->finish_with_padding(channel, message);
  }
  void copy_remainder(ChannelId channel);
  // Returns whether the connection may read a payload of so many bytes after the frame is written.
  // A rank that relays reads every byte, also of a copy that the peer would skip.
  bool sends_in_place(size_t bytes) const {
    return data_ && !spec.relay && data_->sends_in_place(bytes);
  }
  // After this the connection reads no payload that was sent before.
  void release_payloads() {
    if (data_) data_->release();
  }
  bool abandoned() const override { return writer_ && writer_->abandoned(); }

  // --- a kernel that is short of memory ---
  // Until this time the path reads and writes nothing; kNever: the path is not paused.
  TimeNs paused_until() const { return paused_until_; }
  bool paused() const override { return paused_until_ != kNever; }
  // Returns true when the pause is over, and resumes reads and writes.
  bool resume(TimeNs now);

  // --- receiving ---
  void discard_remainder(ChannelId channel, MessageNo message, uint64_t offset);
  void discard_remainder(ChannelId channel);
  // Returns whether a chunk of the channel has arrived in part.
  bool reads_chunk_of(ChannelId channel) const { return reader_ && reader_->in_chunk_of(channel); }
  uint64_t frames_received() const { return reader_ ? reader_->frames() : 0; }
  uint64_t bytes_received() const { return reader_ ? reader_->bytes() : 0; }
  TimeNs frame_received_at() const { return frame_received_at_; }

  // --- control stream ---
  bool control_writable() const override { return control_ != nullptr && control_->can_send(); }
  void send_control(ControlFrame& frame);
  TimeNs data_unanswered() const override;
  TimeNs control_unanswered() const override;
  // Return the addresses of its connections; of family none when there are none.
  Address local_address() const {
    return control_ ? control_->connection().local().address : Address{};
  }
  Address remote_address() const {
    return control_ ? control_->connection().remote().address : Address{};
  }
  uint64_t control_received() const { return control_ ? control_->frames_received() : 0; }

  // Reads the kernels' counters of both connections, if they may have changed since the last time.
  void sample_losses(TimeNs now);
  const LossMeter& losses() const { return losses_; }

  // Over all incarnations, for reports.
  struct History {
    uint64_t downs = 0;                // how often the path went down after it had been up
    uint64_t returns = 0;              // how often it came up again
    uint64_t suspicions = 0;           // how often it was late
    uint64_t retransmitted_bytes = 0;  // that were outstanding when it went down
    TimeNs down_at = 0;                // when it last went down; valid when `downs` is not 0
    DownCause cause = DownCause::none;
    DownCause peer_cause = DownCause::none;
    std::string why;
    uint64_t corruptions = 0;  // ends by bytes that were changed on the way, in any phase
    std::string attempt;       // why the last attempt to bring it up failed; empty once it is up
    bool answered = false;     // a process took the connection of that attempt
    uint32_t attempts = 0;     // that failed since it was last up
  };
  History history;

  // Lifetime counters over all incarnations, for reports.
  uint64_t total_bytes_sent() const { return bytes_sent_before_ + model.bytes_sent(); }
  uint64_t total_control_frames() const { return control_frames_; }
  uint64_t total_bytes_received() const { return bytes_received_before_ + bytes_received(); }
  // Records why an attempt to open the path failed. `answered`: a process took the connection.
  void note_attempt(const std::string& why, bool answered = false);
  // Records why the path is down, or why it did not come up (`fault`: it was up before, and its end
  // was not planned).
  void note_failure(const PathEvent& event, bool fault);

  void check_invariants() const;

  // The one way to break a path: records the cause, unless the path is broken already. The link
  // acts on it in its next progress().
  void break_by(DownCause cause, DownCause peer_cause, const std::string& why);
  std::string broken_why;
  KernelClose closed = KernelClose::none;  // how the kernels ended the broken connections
  DownCause peer_cause = DownCause::none;  // cause seen by the peer, when `broken` is its notice
  // Turns that the rest of a broken path's control stream gets. A kernel holds less for a reader,
  // so only a peer that keeps writing loses frames by this bound.
  static constexpr size_t kLastTurns = 64;
  // Bytes that the reader may take in a round before other connections get their turn.
  static constexpr size_t kReadBudget = 1024 * 1024;

 private:
  struct DataHandler final : EventHandler {
    explicit DataHandler(Path& p) : path(p) {}
    void on_ready(const PollEvent& event) override { path.on_data_ready(event); }
    Path& path;
  };
  struct ControlHandler final : EventHandler {
    explicit ControlHandler(Path& p) : path(p) {}
    void on_ready(const PollEvent& event) override { path.on_control_ready(event); }
    Path& path;
  };

  Result<ReceiveLedger::Place> on_header(const DataHeader& header) override;
  void on_frame(const DataHeader& header, std::vector<std::byte> early, bool discarded) override;
  void on_state(ControlFrame carried) override { owner_.on_control(*this, std::move(carried)); }
  Status take_data(EstablishedConnection data);
  void fence();
  void on_data_ready(const PollEvent& event);
  void on_control_ready(const PollEvent& event);
  void flush_data();
  void refuse_data(const Status& why);
  void break_path(DownCause cause, const std::string& why);
  void break_on(const IoResult& end, const char* which);
  void pause(const char* which, int error);

  Owner& owner_;
  LinkHost& host_;
  NicId nic_;
  DataHandler data_handler_{*this};
  ControlHandler control_handler_{*this};
  std::unique_ptr<Connection> data_;
  std::unique_ptr<ControlStream> control_;  // there while the path is connected
  std::unique_ptr<ControlStream> end_;      // a reset has broken the last incarnation: its stream
  std::optional<FrameReader> reader_;
  std::optional<FrameWriter> writer_;  // these two are there with data_, and only with it
  Reactor* reactor_ = nullptr;         // the reactor of both connections
  Reactor::Registration data_registration_;
  Reactor::Registration control_registration_;
  TimeNs paused_until_ = kNever;
  bool probe_received_ = false;
  TimeNs frame_received_at_ = 0;
  uint64_t bytes_sent_before_ = 0;
  uint64_t bytes_received_before_ = 0;
  uint64_t control_frames_ = 0;
  LossMeter losses_;
  TimeNs losses_at_ = 0;        // when the counters were last read
  uint64_t losses_frames_ = 0;  // data frames sent until then
  // By connection: it was idle when its counters were last read, so they do not change.
  std::array<bool, 2> losses_settled_ = {};
  std::vector<ControlFrame> frames_;
};

}  // namespace r2ccl
