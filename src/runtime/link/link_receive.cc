// Handles arriving frames: chunks go into ledgers, control frames into models and ledgers.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"
#include "runtime/link/link.h"

namespace r2ccl {
Result<ReceiveLedger::Place> Link::on_chunk_header(Path& path, const DataHeader& header) {
  const auto target = hear(header.channel);
  if (!target.ok()) return target.status();
  if (target.value() == nullptr) return ReceiveLedger::Place{};
  auto place = target.value()->receive().place(header);
  if (place.ok() && settings_.witness != nullptr) {
    settings_.witness->on_place(end_, path, header, place.value());
  }
  if (mutated(Mutant::accept_at_header) && place.ok() && place.value().destination != nullptr) {
    on_chunk(path, header, {}, false);
  }
  if (place.ok()) return place;
  if (place.status().code() != Code::invalid_usage) {
    note_contradiction(path, header.incarnation,
                       "sends message " + std::to_string(header.message.value()) + " of channel " +
                           std::to_string(header.channel.value()) + ": " +
                           place.status().message());
    return place;
  }
  // The ranks' calls differ. That is the caller's error, not the path's. Discard the bytes.
  channels_.complete_mismatch(*target.value(), header.message, place.status());
  changed();
  target.value()->changed_version = state_.version();  // tells the peer where its chunks go
  return ReceiveLedger::Place{};
}

void Link::on_chunk(Path& path, const DataHeader& header, std::vector<std::byte> early,
                    bool discarded) {
  state_.on_payload(header.payload_bytes);
  changed();  // the path's counters
  ReceiveLedger::Accepted accepted;
  if (!discarded) {
    accepted =
        channels_.at(header.channel).receive().accept(header, std::move(early), state_.version());
  }
  if (settings_.witness != nullptr) {
    settings_.witness->on_arrive(end_, path, header, discarded, accepted.fresh);
  }
  if (!accepted.fresh) return;
  Channel& target = channels_.at(header.channel);
  target.changed_version = state_.version();
  // From here on no other copy of this chunk may touch its destination.
  for (Path* other : paths()) {
    if (other == &path || mutated(Mutant::no_redirect)) continue;
    other->discard_remainder(header.channel, header.message, header.offset);
  }
  if (state_.much_unreported()) state_.mark_urgent();
  if (accepted.message_complete) {
    if (header.message_bytes > limits::kBufferedSendBytesMax) state_.mark_urgent();
    channels_.complete_receive(target, header.message, header.message_bytes);
  }
}

void Link::on_probe(Path&) {
  changed();
  state_.mark_urgent();
}

void Link::on_control(Path& path, ControlFrame frame) {
  const TimeNs at = now();
  wake();
  peer_clock_.on_message(frame.sent_at, at);
  // A peer that had answered nothing for a long time gets the state at once.
  if (paths_.detector().spacing(at) > limits::kStateResendMax) state_.hurry(at);
  paths_.on_frame(at);
  if (frame.wants_data) (void)paths_.want_data();
  if (frame.ping != 0) path.health.pong_due = frame.ping;
  if (frame.pong != 0) paths_.detector().on_pong(path, frame.pong, at);
  state_.on_acknowledged(frame.acknowledged);
  if (Status applied = apply_channels(frame); !applied.ok()) {
    refuse(path, applied.message());
    if (!contradictions_.final()) return;
  }
  // After the channels, because an acknowledged state must have been applied.
  state_.on_peer_state(frame.version, at);
  sender_.settle_stalled(at);
  // After the channels, so that a transmission that arrived finds its chunk acknowledged.
  for (const PathReport& report : frame.paths) apply_path(report, frame, at);
  // Only a frame that held the whole state shows that a chunk is not listed.
  if (frame.counted <= frame.version) {
    const auto contradicts = [this](Path& by, Incarnation incarnation, const std::string& what) {
      by.state.is_current(incarnation) ? refuse(by, what)
                                       : note_contradiction(by, incarnation, what);
    };
    sender_.settle_unlisted(frame.version, contradicts);
  }
  apply_notices(frame);
  if (frame.goodbye && !std::exchange(goodbye_.received, true)) host_.on_goodbye(end_.peer);
}

// Fails when the peer makes an impossible statement. Messages that it completed before that stay
// complete.
Status Link::apply_channels(const ControlFrame& frame) {
  for (const ChannelReport& report : frame.channels) {
    // The peer takes part in no communicator with this channel: a notice says so. But a user that
    // would open it later must know.
    const ContextId context = context_of(report.channel);
    if (report.discards && !channels_.has(context)) host_.on_new_context(context, end_.peer);
    if (report.discards && channels_.find(report.channel) == nullptr) continue;
    const auto target = hear(report.channel);
    if (!target.ok()) return target.status();
    if (target.value() == nullptr) continue;
    completed_.clear();
    const Status applied = target.value()->send().apply(report, completed_);
    for (const SendLedger::Posted& done : completed_) {
      for (Path* each : paths()) {
        if (!mutated(Mutant::no_pad)) each->finish_with_padding(report.channel, done.number);
      }
      // The client of a buffered message got its completion when the message was posted.
      if (!done.buffered) channels_.complete_send(*target.value(), done.number);
    }
    R2CCL_RETURN_IF_ERROR(applied);
  }
  return {};
}

void Link::apply_path(const PathReport& report, const ControlFrame& frame, TimeNs at) {
  if (report.phase == PathPhase::down && report.cause == DownCause::corrupted) {
    contradictions_.forget(report.path, report.incarnation);
  }
  Path* path = paths_.find(report.path);
  if (path == nullptr || !path->state.is_current(report.incarnation)) return;
  if (settings_.witness != nullptr) settings_.witness->on_report(end_, *path, report);
  if (report.phase == PathPhase::down) {
    return path->break_by(DownCause::peer_notice, report.cause,
                          std::string("the peer lost it: ") + to_string(report.cause));
  }
  path->peer_suspects = report.phase == PathPhase::suspect;
  apply_delivered(*path, report, frame, at);
}

// A report of the present incarnation can be old, but not ahead of the sent chunks.
void Link::apply_delivered(Path& path, const PathReport& report, const ControlFrame& frame,
                           TimeNs at) {
  delivered_.clear();
  const bool suspected = path.state.phase() == PathPhase::suspect;
  const FrameArrival arrival = peer_clock_.read(report.arrived_at, frame.sent_at, at);
  NicQueue& queue = host_.queue(path.nic());
  const uint64_t outstanding = path.model.bytes_outstanding();
  path.model.share_nic(queue.busy_paths());
  if (!path.model.on_delivered(report.frames_received, arrival, suspected, at, delivered_)) {
    return refuse(path, "has received data frames that were never sent");
  }
  const uint64_t left = path.model.bytes_outstanding();
  R2CCL_CHECK(left <= outstanding);
  queue.on_delivered(outstanding - left, left, at);
  for (const Transmission& transmission : delivered_) {
    paths_.detector().on_evidence(transmission.sent_at);
    sender_.on_delivered(path, transmission, std::max(frame.counted, frame.version));
  }
}

void Link::apply_notices(const ControlFrame& frame) {
  if (notices_.on_applied(frame.notices_applied)) {
    changed();
    state_.mark_urgent();
  }
  for (const NoticeReport& notice : frame.notices) {
    if (!notices_.take(notice.number)) continue;
    changed();
    host_.on_notice(end_.peer, notice.bytes);
  }
}

// Handles statements of the peer that contradict the state of this end. The receiver decides which
// chunks are retransmitted, by listing the chunks that it accepted. A path's count of frames is a
// second statement about the same chunks. A chunk that a path counts, and that the list of the same
// state lacks, is lost at the peer. The sender retransmits it on another connection.
//
// The link reopens the path that brought the statement, because no bytes of that connection can be
// trusted.
void Link::refuse(Path& path, const std::string& what) {
  note_contradiction(path, path.state.incarnation(), what);
  if (contradictions_.final()) return;
  path.break_by(DownCause::protocol, DownCause::none, "the peer contradicts this end: it " + what);
}

// After the second time paths stay as they are: the ranks must still receive the error.
void Link::note_contradiction(const Path& path, Incarnation incarnation, const std::string& what) {
  if (contradictions_.add(what, path.spec.id, incarnation, path.spec.local_name)) wake();
}

// Runs outside of any I/O, because the client will cancel its channels.
void Link::tell_contradiction() {
  if (!contradictions_.final()) return;
  const std::string why = contradictions_.take();
  if (why.empty()) return;
  R2CCL_LOG(warn, "rank %d: %s", end_.peer.value(), why.c_str());
  host_.on_contradiction(end_.peer, why);
}

void Link::on_broken(Path& path, DownCause cause, const std::string& why) {
  if (cause == DownCause::corrupted) {
    contradictions_.forget(path.spec.id, path.state.incarnation());
  }
  if (goodbye_.received) {
    wake();
    return;
  }
  const char* name = path.spec.local_name.c_str();
  if (cause == DownCause::corrupted) {
    R2CCL_LOG(warn, "path %s to rank %d: %s", name, end_.peer.value(), why.c_str());
  } else {
    R2CCL_LOG(info, "path %s to rank %d: %s (%s)", name, end_.peer.value(), to_string(cause),
              why.c_str());
  }
  wake();
}

}  // namespace r2ccl
