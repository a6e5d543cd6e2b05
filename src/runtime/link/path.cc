#include "runtime/link/path.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/status.h"

namespace r2ccl {
namespace {

// Memory of any host is faster. A link that began with the rate of an unknown network would cut its
// first messages into chunks that are too small to stay in place, and so the ranks would measure
// costs that no later message has.
constexpr double kMemoryRate = 1;  // bytes per ns

bool is_bad_memory(const IoResult& end) {
  return end.kind == IoKind::refused && end.error == EFAULT;
}

KernelClose close_of(const IoResult& end) {
  if (end.kind == IoKind::closed) return KernelClose::ended;
  const bool reset = end.kind == IoKind::failed && (end.error == ECONNRESET || end.error == EPIPE);
  return reset ? KernelClose::reset : KernelClose::none;
}

LossMeter::Counters loss_counters(const ConnectionInfo& info) {
  const PacketCounts& counts = info.packets;
  const uint64_t in_vain = mutated(Mutant::loss_in_vain) ? 0 : counts.spurious;
  return {.sent = counts.sent,
          .lost = counts.retransmitted - std::min(in_vain, counts.retransmitted),
          .delivered = counts.delivered,
          .round_trip = info.smoothed_rtt_ns,
          .least_round_trip = info.least_rtt_ns};
}

}  // namespace

Path::Path(Owner& owner, size_t place, PathSpec path_spec, const NicQueue& nic_queue,
           LinkHost& host, bool damping)
    : PathEnd(place, path_spec.control_only, nic_queue),
      spec(std::move(path_spec)),
      backoff(damping && !spec.relay),  // each connection may go through another rank
      owner_(owner),
      host_(host),
      nic_(spec.local_nic) {}

void Path::set_nic(NicId nic) {
  R2CCL_CHECK(!state.connected());
  nic_ = nic;
  leave_by(host_.queue(nic));
}

Status Path::attach(Reactor& reactor, std::optional<EstablishedConnection> data,
                    EstablishedConnection control, TimeNs now) {
  R2CCL_CHECK(!data.has_value() || !spec.control_only);
  drop_end();
  if (control.session.incarnation <= state.incarnation()) {
    return {Code::remote, "an incarnation that is over"};
  }
  model.reset();
  if (spec.is_shm()) model.expect(kMemoryRate);
  probe_received_ = false;
  peer_suspects = false;
  health = {};
  health.last_sent_at = now;
  broken.reset();
  peer_cause = DownCause::none;
  state.connect(control.session.incarnation, now);
  paused_until_ = kNever;
  reactor_ = &reactor;
  control_ = std::make_unique<ControlStream>(std::move(control.connection), control.session,
                                             std::move(control.leftover), host_.read_buffer(),
                                             host_.spare_frame());
  auto control_added = reactor.add(control_->connection().poll_id(), control_handler_, false);
  if (!control_added.ok()) return control_added.status();
  control_registration_ = std::move(control_added).value();
  if (data.has_value()) R2CCL_RETURN_IF_ERROR(take_data(std::move(*data)));
  // The last bytes of the handshake may have brought frames along.
  on_control_ready({0, true, false});
  return {};
}

Status Path::join(EstablishedConnection data) {
  R2CCL_CHECK(lacks_data() && data.session.incarnation == state.incarnation());
  return take_data(std::move(data));
}

Status Path::take_data(EstablishedConnection data) {
  data_ = std::move(data.connection);
  using Use = HeaderTag::Use;
  writer_.emplace(HeaderTag(data.session.send_key, Use::data));
  reader_.emplace(static_cast<FrameReader::Owner&>(*this),
                  HeaderTag(data.session.receive_key, Use::data), host_.scratch());
  if (!paused()) {  // resume() adds it too
    auto added = reactor_->add(data_->poll_id(), data_handler_, false);
    if (!added.ok()) return added.status();
    data_registration_ = std::move(added).value();
  }
  if (Status read = reader_->prefill(data.leftover); !read.ok()) refuse_data(read);
  return {};
}

Fifo<Transmission> Path::detach(DownCause cause, TimeNs now, bool keeps_end) {
  sample_losses(now);
  losses_.reset();
  busy_rate.restart();
  losses_settled_ = {};
  data_registration_.reset();
  control_registration_.reset();
  bytes_received_before_ += bytes_received();
  bytes_sent_before_ += model.bytes_sent();
  Fifo<Transmission> lost = model.take_outstanding();
  model.reset();
  writer_.reset();
  paused_until_ = kNever;
  data_.reset();
  data_passes = false;
  reader_.reset();
  end_ = keeps_end ? std::move(control_) : nullptr;
  control_.reset();
  broken.reset();
  if (state.connected()) state.fail(cause, now);
  return lost;
}

// A process that dies closes its connections one after the other.
KernelClose Path::look_at_end() {
  std::array<std::byte, 4096> unwanted;
  const iovec slice{unwanted.data(), unwanted.size()};
  for (size_t turn = 0; turn < kLastTurns; ++turn) {
    const IoResult result = end_->connection().read({&slice, 1});
    if (result.kind == IoKind::progressed) continue;
    if (result.kind == IoKind::blocked || result.kind == IoKind::refused) break;
    end_.reset();
    return close_of(result);
  }
  return KernelClose::none;
}

void Path::send_frame(DataHeader header, std::span<const std::byte> payload,
                      std::span<const std::byte> carried, Transmission transmission, TimeNs now,
                      TimeNs nic_time) {
  header.incarnation = state.incarnation();
  header.transmission = model.frames_sent();
  transmission.bytes = header.frame_bytes();
  model.on_sent(transmission, now, nic_time);
  writer_->start(header, payload, carried, transmission.in_place);
  flush_data();
}

void Path::discard_remainder(ChannelId channel, MessageNo message, uint64_t offset) {
  if (reader_ && reader_->discard_remainder(channel, message, offset)) fence();
}

void Path::discard_remainder(ChannelId channel) {
  if (reader_ && reader_->discard_remainder(channel)) fence();
}

// Bytes that arrive later must not land in memory that is the client's again.
void Path::fence() {
  if (!mutated(Mutant::no_fence)) data_->fence();
}

// The kernel that acknowledges the bytes of a relay path is not the peer's.
TimeNs Path::data_unanswered() const {
  return data_ == nullptr || spec.relay ? kNever : data_->info().unanswered_ns;
}

TimeNs Path::control_unanswered() const {
  return control_ == nullptr || spec.relay ? kNever : control_->connection().info().unanswered_ns;
}

void Path::halt() noexcept {
  data_registration_.reset();
  control_registration_.reset();
  paused_until_ = kNever;
  if (data_ == nullptr) return;
  fence();
  data_->release();
}

IoKind Path::send_last(ControlFrame& frame, std::vector<std::byte>& memory) {
  return control_ == nullptr ? IoKind::closed : control_->send_last(frame, memory).kind;
}

void Path::hang_up() noexcept {
  drop_end();
  writer_.reset();
  reader_.reset();
  data_.reset();
  control_.reset();
}

void Path::note_attempt(const std::string& why, bool answered) {
  if (answered || !history.answered) history.attempt = why;
  history.answered = history.answered || answered;
  ++history.attempts;
}

void Path::note_failure(const PathEvent& event, bool fault) {
  history.retransmitted_bytes += event.retransmitted_bytes;
  if (event.cause == DownCause::corrupted) ++history.corruptions;
  if (!fault) return note_attempt(event.why);
  ++history.downs;
  history.down_at = event.at;
  history.cause = event.cause;
  history.peer_cause = event.peer_cause;
  history.why = event.why;
  history.attempt.clear();
  history.answered = false;
  history.attempts = 0;
}

void Path::sample_losses(TimeNs now) {
  if (control_ == nullptr) return;
  const uint64_t frames_before = std::exchange(losses_frames_, model.frames_sent());
  const bool no_chunks = model.outstanding().empty() && model.frames_sent() == frames_before;
  const bool no_frames = health.last_sent_at < std::exchange(losses_at_, now);
  const auto sample = [&](size_t which, const Connection& connection, bool idle) {
    if (std::exchange(losses_settled_[which], idle) && idle) return;
    const ConnectionInfo info = connection.info();
    losses_.sample(which, loss_counters(info), now);
    if (which == LossMeter::kData) {
      busy_rate.sample(info.acknowledged_bytes, info.busy_ns, info.unlimited_bytes_per_ns);
    }
  };
  sample(LossMeter::kControl, control_->connection(), no_frames);
  if (data_ != nullptr) sample(LossMeter::kData, *data_, no_chunks);
}

void Path::send_control(ControlFrame& frame) {
  health.last_sent_at = owner_.now();
  ++control_frames_;
  const IoResult result = control_->send(frame);
  if (result.kind != IoKind::progressed) break_on(result, "control stream");
  control_registration_.want_write(!control_->can_send());
}

Result<ReceiveLedger::Place> Path::on_header(const DataHeader& header) {
  if (!state.is_current(header.incarnation)) {
    return Status(Code::remote, "a data frame of another incarnation");
  }
  if (header.type == FrameType::probe) return ReceiveLedger::Place{};
  return owner_.on_chunk_header(*this, header);
}

void Path::on_frame(const DataHeader& header, std::vector<std::byte> early, bool discarded) {
  frame_received_at_ = owner_.now();
  if (header.type == FrameType::probe) {
    probe_received_ = true;
    return owner_.on_probe(*this);
  }
  owner_.on_chunk(*this, header, std::move(early), discarded);
}

void Path::on_data_ready(const PollEvent& event) {
  if (event.writable) {
    flush_data();
    owner_.wake();
  }
  if (!event.readable || data_ == nullptr || broken || paused()) return;
  const FrameReader::Pumped pumped = reader_->pump(*data_, kReadBudget);
  if (!pumped.status.ok()) {
    refuse_data(pumped.status);
  } else if (is_bad_memory(pumped.end)) {
    owner_.on_bad_memory(locate_bad_memory(reader_->destination(), Access::write));
  } else {
    break_on(pumped.end, "data connection");
  }
}

void Path::refuse_data(const Status& why) {
  break_path(reader_->corrupted() ? DownCause::corrupted : DownCause::protocol, why.message());
}

void Path::on_control_ready(const PollEvent& event) {
  if (event.writable) {
    break_on(control_->flush(), "control stream");
    control_registration_.want_write(!control_->can_send());
    owner_.wake();
  }
  if (!event.readable || broken || paused()) return;
  frames_.clear();
  const ControlStream::Received received = control_->receive(frames_);
  for (ControlFrame& frame : frames_) owner_.on_control(*this, std::move(frame));
  if (!received.status.ok()) {
    break_path(control_->corrupted() ? DownCause::corrupted : DownCause::protocol,
               received.status.message());
  } else {
    break_on(received.end, "control stream");
  }
}

void Path::flush_data() {
  if (!writer_ || !writer_->busy() || broken || paused()) return;
  const IoResult end = writer_->flush(*data_);
  if (is_bad_memory(end)) {
    owner_.on_bad_memory(locate_bad_memory(writer_->unwritten(), Access::read));
  } else {
    break_on(end, "data connection");
  }
  data_registration_.want_write(writer_->busy() && !writer_->abandoned());
}

void Path::copy_remainder(ChannelId channel) {
  if (!writer_) return;
  const std::span<const std::byte> rest = writer_->unwritten();
  if (!writer_->copy_remainder(channel))
    owner_.on_bad_memory(locate_bad_memory(rest, Access::read));
}

// A shortage is the host's, and says nothing about the path. The connections stay readable and
// writable meanwhile, so without a pause the poller would report them without end.
void Path::pause(const char* which, int error) {
  if (!paused()) {
    R2CCL_LOG(warn, "%s on %s: %s; it is tried again every %lld ms", which, spec.local_name.c_str(),
              std::strerror(error), static_cast<long long>(limits::kShortagePause / kMillisecond));
  }
  paused_until_ = owner_.now() + limits::kShortagePause;
  owner_.wake();
  data_registration_.reset();
  control_registration_.reset();
}

bool Path::resume(TimeNs now) {
  if (now < paused_until_ || broken) return false;
  const auto watch = [this](const Connection& connection, EventHandler& handler, bool write,
                            Reactor::Registration& registration) {
    auto added = reactor_->add(connection.poll_id(), handler, write);
    const bool ok = added.ok();
    if (ok) registration = std::move(added).value();
    return ok;
  };
  paused_until_ = kNever;
  const bool watched =
      watch(control_->connection(), control_handler_, !control_->can_send(),
            control_registration_) &&
      (data_ == nullptr ||
       watch(*data_, data_handler_, writer_->busy() && !writer_->abandoned(), data_registration_));
  if (watched) return true;
  paused_until_ = now + limits::kShortagePause;
  data_registration_.reset();
  control_registration_.reset();
  return false;
}

void Path::break_by(DownCause cause, DownCause seen_by_peer, const std::string& why) {
  if (broken) return;
  broken = cause;
  peer_cause = seen_by_peer;
  broken_why = why;
}

void Path::break_path(DownCause cause, const std::string& why) {
  if (broken) return;
  break_by(cause, DownCause::none, why);
  // The control stream may hold an unread goodbye or last acknowledgement, which tells the meaning
  // of the break.
  if (control_ != nullptr) {
    bool more = true;
    for (size_t turn = 0; turn < kLastTurns && more; ++turn) {
      std::vector<ControlFrame> last;
      const ControlStream::Received received = control_->receive(last);
      for (ControlFrame& frame : last) owner_.on_control(*this, std::move(frame));
      more = received.status.ok() && received.end.kind == IoKind::progressed;
      if (received.status.ok()) closed = std::max(closed, close_of(received.end));
    }
  }
  // Level-triggered readiness would report the dead connection until the link has acted.
  data_registration_.reset();
  control_registration_.reset();
  owner_.on_broken(*this, cause, why);
}

void Path::break_on(const IoResult& end, const char* which) {
  closed = std::max(closed, close_of(end));
  if (end.kind == IoKind::closed) {
    break_path(DownCause::connection_lost, std::string(which) + " closed by the peer");
  } else if (end.kind == IoKind::failed) {
    break_path(DownCause::connection_lost, system_error(which, end.error).message());
  } else if (end.kind == IoKind::refused) {
    pause(which, end.error);
  }
}

void Path::check_invariants() const {
  state.check_invariants();
  model.check_invariants();
  backoff.check_invariants();
  R2CCL_CHECK(reader_.has_value() == (data_ != nullptr));
  R2CCL_CHECK(writer_.has_value() == (data_ != nullptr));
  R2CCL_CHECK(state.connected() == (control_ != nullptr));
  R2CCL_CHECK(!control_only || data_ == nullptr);
  R2CCL_CHECK(!data_passes || data_ != nullptr);
  R2CCL_CHECK(data_ == nullptr || control_ != nullptr);
}

}  // namespace r2ccl
