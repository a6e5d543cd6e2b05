// For tests: a link whose peer is the test. The test makes every frame of the peer, valid or not,
// and gets the link's frames decoded. Time moves only when the test advances it.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/link/link.h"
#include "testing/link_surroundings.h"
#include "testing/scripted_connection.h"

namespace r2ccl {

class ManualClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  TimeNs wall() const override { return now_; }
  void advance(TimeNs by) { now_ += by; }

 private:
  TimeNs now_ = kSecond;
};

class ScriptedLink final : private LinkSurroundings, private MessageClient {
 public:
  static constexpr ChannelId kChannel{1};

  // `in_memory`: the peer is on the same host.
  explicit ScriptedLink(size_t path_count, bool in_memory = false)
      : link_(static_cast<LinkHost&>(*this), Rank(1), Rank(0), specs(path_count, in_memory), {}) {
    peers_.resize(path_count);
    link_.open_channel(kChannel, *this, Rank(0));
  }

  Link& link() { return link_; }
  const Path& path(size_t index) { return *link_.paths()[index]; }

  // Opens the path under its next incarnation and validates it.
  void connect(size_t index) {
    Peer& peer = peers_[index];
    ++peer.incarnation;
    peer.frames_sent = peer.frames_received = 0;
    peer.data = adopt(index, ConnectionKind::data);
    peer.control = adopt(index, ConnectionKind::join);
    open_control(index);
    prove(index);
    R2CCL_CHECK(path(index).state.phase() == PathPhase::up);
  }
  // Opens the path's control stream alone, under its next incarnation.
  void connect_control(size_t index) {
    Peer& peer = peers_[index];
    ++peer.incarnation;
    peer.frames_sent = peer.frames_received = 0;
    peer.data = nullptr;
    peer.control = adopt(index, ConnectionKind::control);
    open_control(index);
    step();
  }
  // A handshake of that incarnation ends now.
  void adopt_late(size_t index, ConnectionKind kind, uint32_t incarnation) {
    const uint32_t present = std::exchange(peers_[index].incarnation, incarnation);
    (void)adopt(index, kind);
    peers_[index].incarnation = present;
  }
  // Adds the data connection.
  void join(size_t index) {
    peers_[index].data = adopt(index, ConnectionKind::join);
    step();
  }
  // The peer's full-size frame arrives, and its report of the link's.
  void prove(size_t index) {
    DataHeader probe;
    probe.type = FrameType::probe;
    probe.payload_bytes = 16 * 1024;
    send(index, probe);
    step();
    // The report names only this path. The test acknowledges all other chunks.
    ControlFrame proof = state();
    proof.paths = {proof.paths[index]};
    say(index, proof);
  }

  // The peer sends a data frame with the next pass. Its payload is zeros.
  void send(size_t index, DataHeader header) {
    header.incarnation = Incarnation(peers_[index].incarnation);
    forge(index, header);
  }
  // Does the same with the header's own incarnation, which may differ from the path's.
  void forge(size_t index, DataHeader header) { put(index, header, {}); }
  // Sends a data frame that carries the peer's state. The test adds the channels.
  void send_carrying(size_t index, DataHeader header, ControlFrame state) {
    header.incarnation = Incarnation(peers_[index].incarnation);
    state.control_sequence = peers_[index].frames_sent;
    std::vector<std::byte> bytes;
    encode_carried_state(state, bytes);
    HeaderTag(session(index, 2, 1).send_key, HeaderTag::Use::data).seal_state(bytes);
    put(index, header, bytes);
  }
  // Sends only the header, at once. The payload follows later.
  void send_header(size_t index, DataHeader header) {
    header.incarnation = Incarnation(peers_[index].incarnation);
    header.transmission = peers_[index].frames_sent++;
    std::array<std::byte, kDataHeaderBytes> bytes{};
    encode(header, bytes);
    HeaderTag(session(index, 2, 1).send_key, HeaderTag::Use::data).seal(bytes);
    peers_[index].data->deliver(bytes);
  }
  // Returns a message of one chunk, for which a receive gives credit.
  static DataHeader whole(ChannelId channel, uint64_t message, uint32_t bytes) {
    DataHeader header;
    header.channel = channel;
    header.message = MessageNo(message);
    header.message_bytes = header.payload_bytes = header.chunk_bytes = bytes;
    return header;
  }

  // Returns an honest peer's report of the paths and of the link's state. The test adds the
  // channels.
  ControlFrame state() {
    ControlFrame frame;
    frame.version = frame.counted = ++version_;
    frame.acknowledged = acknowledges_;
    for (size_t i = 0; i < peers_.size(); ++i) {
      PathReport report;
      report.path = path(i).spec.id;
      report.incarnation = Incarnation(peers_[i].incarnation);
      report.phase = peers_[i].incarnation == 0 ? PathPhase::down : PathPhase::up;
      report.frames_received = peers_[i].frames_received;
      frame.paths.push_back(report);
    }
    return frame;
  }
  // Does the same without a report of that path.
  ControlFrame state_without(size_t index) {
    ControlFrame frame = state();
    frame.paths.erase(frame.paths.begin() + static_cast<ptrdiff_t>(index));
    return frame;
  }
  // Sends the frame on that path's control stream, with the pong that the link's ping expects
  // there.
  void say(size_t index, const ControlFrame& frame) { deliver(index, control_bytes(index, frame)); }
  // say() in two steps, for changes to the bytes on the way.
  std::vector<std::byte> control_bytes(size_t index, ControlFrame frame) {
    Peer& peer = peers_[index];
    frame.pong = std::exchange(peer.pinged, 0);
    (void)peer.own_control->send(frame);
    return peer.control_end->take_written();
  }
  void deliver(size_t index, std::vector<std::byte> control_bytes) {
    peers_[index].control->deliver(std::move(control_bytes));
    step();
  }
  // From now on the peer has applied the frames that it received.
  void acknowledge() { acknowledges_ = heard_.empty() ? acknowledges_ : heard_.back().version; }

  // From now on nothing that the peer sends in the context counts.
  void end(ContextId context) { ended_.insert(context); }

  // Lets the path's data connection take no more bytes.
  void block(size_t index) { peers_[index].data->limit_writes(std::deque<size_t>(100'000, 0)); }

  void unblock(size_t index) { peers_[index].data->limit_writes({}); }

  // Runs one pass of the engine, which had not run for `idle`. The peer takes the link's bytes.
  void step(TimeNs idle = 0) {
    for (Peer& peer : peers_) {
      if (!peer.unsent.empty()) peer.data->deliver(std::exchange(peer.unsent, {}));
    }
    reactor_.poll(0);
    reactor_.poll(0);  // the first read after a portion is always blocked
    link_.progress(clock_.now(), idle);
    take();
  }
  // The peer takes the link's bytes, without a pass of the link.
  void take() {
    for (size_t i = 0; i < peers_.size(); ++i) take(i);
  }
  void pass(TimeNs duration, TimeNs idle = 0) {
    clock_.advance(duration);
    step(idle);
  }

  // LinkHost, and for other links of the same rank
  BusyLinks& busy_links() override { return busy_links_; }

  // Returns how often the link has tried to open a connection; it never succeeds.
  int connects() const { return transport_.connects(); }
  std::vector<ControlFrame>& heard() { return heard_; }
  // Returns how many of these a data frame carried.
  int carried() const { return carried_; }
  // Returns the chunks that the link has sent, in order, without probes.
  std::vector<std::pair<size_t, DataHeader>>& chunks() { return chunks_; }
  const std::vector<MessageNo>& sent() const { return sent_; }
  const std::vector<MessageNo>& received() const { return received_; }
  const std::vector<PathEvent>& events() const { return events_; }
  const std::vector<BadMemory>& bad_memory() const { return bad_memory_; }
  // Returns the link's end of the path's data connection.
  ScriptedConnection& data(size_t index) { return *peers_[index].data; }
  // Returns the link's end of its control stream.
  ScriptedConnection& control(size_t index) { return *peers_[index].control; }
  const std::vector<std::string>& contradictions() const { return contradictions_; }

 private:
  void open_control(size_t index) {
    Peer& peer = peers_[index];
    auto own = std::make_unique<ScriptedConnection>();
    peer.control_end = own.get();
    peer.own_control =
        std::make_unique<ControlStream>(std::move(own), session(index, 2, 1),
                                        std::vector<std::byte>(), read_buffer(), spare_frame());
  }
  void put(size_t index, DataHeader header, std::span<const std::byte> state) {
    Peer& peer = peers_[index];
    header.transmission = peer.frames_sent++;
    header.state_bytes = static_cast<uint16_t>(state.size());
    const size_t at = peer.unsent.size();
    peer.unsent.resize(at + kDataHeaderBytes);
    const auto bytes = std::span(peer.unsent).subspan(at).first<kDataHeaderBytes>();
    encode(header, bytes);
    HeaderTag(session(index, 2, 1).send_key, HeaderTag::Use::data).seal(bytes);
    peer.unsent.insert(peer.unsent.end(), state.begin(), state.end());
    peer.unsent.resize(at + header.frame_bytes());
  }

  struct Peer {
    uint32_t incarnation = 0;
    ScriptedConnection* data = nullptr;  // the link's ends, while the path is connected
    ScriptedConnection* control = nullptr;
    ScriptedConnection* control_end = nullptr;  // the peer's end
    std::unique_ptr<ControlStream> own_control;
    uint32_t pinged = 0;  // open ping of the link on this control stream; 0: none
    std::vector<std::byte> unsent;
    std::vector<std::byte> unread;
    uint64_t frames_sent = 0;
    uint64_t frames_received = 0;
  };

  static std::vector<PathSpec> specs(size_t count, bool in_memory) {
    std::vector<PathSpec> specs(count);
    for (size_t i = 0; i < count; ++i) {
      specs[i].id = PathId(static_cast<uint16_t>(i));
      specs[i].local_nic = specs[i].remote_nic = NicId(static_cast<uint16_t>(i));
      specs[i].local_name = "nic" + std::to_string(i);
      if (in_memory) specs[i].remote.address.family = AddressFamily::local;
    }
    return specs;
  }
  Session session(size_t index, uint8_t send, uint8_t receive) const {
    Session session;
    session.identity.path = PathId(static_cast<uint16_t>(index));
    session.incarnation = Incarnation(peers_[index].incarnation);
    session.send_key.fill(std::byte{send});
    session.receive_key.fill(std::byte{receive});
    for (auto* key : {&session.send_key, &session.receive_key}) {
      // Different sessions have different keys.
      (*key)[0] = static_cast<std::byte>(index);
      (*key)[1] = static_cast<std::byte>(peers_[index].incarnation);
    }
    return session;
  }
  ScriptedConnection* adopt(size_t index, ConnectionKind kind) {
    auto connection = std::make_unique<ScriptedConnection>(next_poll_id_++);
    ScriptedConnection* raw = connection.get();
    EstablishedConnection established{
        std::move(connection), session(index, 1, 2), {}, path(index).spec.local_nic};
    established.session.identity.kind = kind;
    link_.adopt(std::move(established));
    return raw;
  }
  void take(size_t index) {
    Peer& peer = peers_[index];
    if (!path(index).state.connected()) return;
    std::vector<std::byte>& unread = peer.unread;
    const auto bytes = peer.data != nullptr ? peer.data->take_written() : std::vector<std::byte>();
    unread.insert(unread.end(), bytes.begin(), bytes.end());
    while (unread.size() >= kDataHeaderBytes) {
      const auto header =
          decode_data_header(std::span(unread).first<kDataHeaderBytes>()).value().header;
      const size_t frame = header.frame_bytes();
      if (unread.size() < frame) break;
      if (header.state_bytes != 0) take_carried(index, header);
      unread.erase(unread.begin(), unread.begin() + static_cast<ptrdiff_t>(frame));
      ++peer.frames_received;
      if (header.type == FrameType::chunk) chunks_.emplace_back(index, header);
    }
    if (const auto said = peer.control->take_written(); !said.empty()) {
      peer.control_end->deliver(said);
      std::vector<ControlFrame> frames;
      R2CCL_CHECK(peer.own_control->receive(frames).status.ok());
      (void)peer.own_control->receive(frames);  // makes the reader notice that all bytes were read
      for (ControlFrame& frame : frames) {
        if (frame.ping != 0) peer.pinged = frame.ping;
        heard_.push_back(std::move(frame));
      }
    }
  }

  // The link's tags are those of session(index, 1, 2).
  void take_carried(size_t index, const DataHeader& header) {
    const auto state =
        std::span(peers_[index].unread).subspan(kDataHeaderBytes).first(header.state_bytes);
    R2CCL_CHECK(HeaderTag(session(index, 1, 2).send_key, HeaderTag::Use::data).fits_state(state));
    auto frame = decode_carried_state(state);
    R2CCL_CHECK(frame.ok() && frame.value().control_sequence == header.transmission);
    ++carried_;
    heard_.push_back(std::move(frame).value());
  }

  // LinkHost
  const Clock& clock() const override { return clock_; }
  bool is_closed(ContextId context, Rank) const override { return ended_.contains(context); }
  void wake(Rank) override {}
  void on_path_event(const PathEvent& event) override { events_.push_back(event); }
  void on_bad_memory(const BadMemory& bad) override { bad_memory_.push_back(bad); }
  void on_contradiction(Rank, const std::string& why) override { contradictions_.push_back(why); }
  // MessageClient
  void on_sent(Rank, ChannelId, MessageNo number) override { sent_.push_back(number); }
  void on_received(Rank, ChannelId, MessageNo number, uint64_t) override {
    received_.push_back(number);
  }
  void on_mismatch(Rank, ChannelId, const Status&) override {}

  ManualClock clock_;
  BusyLinks busy_links_;
  Link link_;
  std::vector<Peer> peers_;
  int next_poll_id_ = 0;
  uint64_t version_ = 0;
  uint64_t acknowledges_ = 0;
  std::vector<ControlFrame> heard_;
  int carried_ = 0;
  std::vector<std::pair<size_t, DataHeader>> chunks_;
  std::vector<MessageNo> sent_;
  std::vector<MessageNo> received_;
  std::vector<PathEvent> events_;
  std::vector<BadMemory> bad_memory_;
  std::vector<std::string> contradictions_;
  std::set<ContextId> ended_;
};

}  // namespace r2ccl
