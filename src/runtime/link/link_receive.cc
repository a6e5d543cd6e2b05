// What arrives: chunks into ledgers, control frames into models and ledgers.
#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"
#include "runtime/link/link.h"

namespace r2ccl {
namespace {

// An answer by any lane takes less than this when the peer runs.
// What took longer was a stop or a leap of the clock.
constexpr TimeNs kRoundTripMax = 1 * kSecond;
constexpr TimeNs kExcusedSilence = 25 * kMillisecond;
// After such a one connections wait for TCP's timer.
constexpr TimeNs kSilence = 100 * kMillisecond;

}  // namespace

Result<ReceiveLedger::Place> Link::on_chunk_header(Path& path, const DataHeader& header) {
  const auto target = heard_channel(header.channel);
  if (!target.ok()) return target.status();
  auto place = target.value()->receive.place(header);
  if (place.ok() && settings_.witness != nullptr) {
    settings_.witness->on_place({self_, peer_}, path, header, place.value());
  }
  if (mutated(Mutant::accept_at_header) && place.ok() &&
      place.value().placement == ReceiveLedger::Placement::direct) {
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
  // The ranks' calls differ: that is the caller's error, not the path's. Take the bytes nowhere.
  completions_.push_back({Ended::mismatch, header.channel, header.message, place.status()});
  changed();
  target.value()->changed_version =
      state_.version();  // the peer need not wonder where its chunks go
  return ReceiveLedger::Place{};
}

void Link::on_chunk(Path& path, const DataHeader& header, std::vector<std::byte> early,
                    bool discarded) {
  state_.on_payload(header.payload_bytes);
  changed();  // the path's counters
  host_.pace(path.spec.local_nic)
      .on_received(slots_[index_of(path)].pace_sender, kDataHeaderBytes + header.payload_bytes,
                   path.frame_received_at());
  ReceiveLedger::Accepted accepted;
  Channel& target = channel(header.channel);
  if (!discarded) accepted = target.receive.accept(header, std::move(early), state_.version());
  if (settings_.witness != nullptr) {
    settings_.witness->on_arrive({self_, peer_}, path, header, discarded, accepted.fresh);
  }
  if (!accepted.fresh) return;
  target.changed_version = state_.version();
  // From here on no other copy of this chunk may touch its destination.
  for (Path* other : paths()) {
    if (other == &path || mutated(Mutant::no_redirect)) continue;
    other->redirect(header.channel, header.message, header.offset);
  }
  if (state_.much_unreported()) state_.mark_urgent();
  if (accepted.message_complete) {
    if (header.message_bytes > limits::kBufferedSendBytesMax) state_.mark_urgent();
    completions_.push_back({Ended::received, header.channel, header.message, {}});
  }
}

void Link::on_probe(Path&) {
  changed();
  state_.mark_urgent();
}

void Link::on_control(Path& path, ControlFrame frame) {
  const TimeNs at = now();
  touch();
  note_heard(at);
  if (frame.ask != 0) path.health.answer_due = frame.ask;
  if (frame.answer != 0) apply_answer(path, frame.answer, at);
  state_.on_acknowledged(frame.reflected);
  if (Status applied = apply_channels(frame); !applied.ok()) {
    refuse(path, applied.message());
    if (!contradicted_) return;
  }
  // Not before: what is reflected must have been applied.
  state_.on_peer_state(frame.version, at);
  if (!hits_.empty()) settle_hits(at);
  // After the channels, so that a transmission that arrived finds its chunk acknowledged.
  for (const PathReport& report : frame.paths) apply_path(report, frame, at);
  settle_unlisted(frame);
  apply_notices(frame);
  if (frame.goodbye) goodbye_received_ = true;
}

// Fails when the peer says what cannot be. What it completed before that is complete all the same.
Status Link::apply_channels(const ControlFrame& frame) {
  for (const ChannelReport& report : frame.channels) {
    const auto target = heard_channel(report.channel);
    if (!target.ok()) return target.status();
    completed_.clear();
    const Status applied = target.value()->send.apply(report, completed_);
    for (const SendLedger::Posted& done : completed_) {
      for (Path* each : paths()) {
        if (!mutated(Mutant::no_pad)) each->pad(report.channel, done.number);
      }
      // The client of a buffered message was told when it was posted.
      if (!done.buffered) completions_.push_back({Ended::sent, report.channel, done.number, {}});
    }
    R2CCL_RETURN_IF_ERROR(applied);
  }
  return {};
}

// A peer that answered no question on any lane did not run, or this rank did not: what is under way
// is not the later for it.
void Link::note_heard(TimeNs at) {
  heard_at_ = at;
  if (asked_at_ != 0 && at - asked_at_ > kExcusedSilence) excuse(at - asked_at_);
  if (asked_at_ != 0) keep_connections();
  end_silence(at);
  if (spacing(at) > limits::kStateResendMax) {
    next_ask_ = std::min(next_ask_, at);
    state_.hurry(at);
  }
  asked_at_ = 0;
  death_evidence_.on_alive();
}

void Link::end_silence(TimeNs at) {
  if (unheard(at) > kSilence) silence_ended_at_ = at;
}

// What was about to replace connections that had seemed dead.
void Link::keep_connections() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].path->state.connected() && !slots_[i].dialer->probing())
      slots_[i].dialer->cancel();
  }
}

void Link::excuse(TimeNs duration) {
  for (Path* path : paths()) {
    path->model.excuse(duration);
    for (auto& ask : path->health.asks) {
      ask.missed_at = std::max(ask.missed_at, std::min(ask.missed_at + duration, now()));
    }
  }
}

void Link::apply_path(const PathReport& report, const ControlFrame& frame, TimeNs at) {
  Path* path = find(report.path);
  if (path == nullptr) return;
  if (!path->state.is_current(report.incarnation)) return;
  if (settings_.witness != nullptr) settings_.witness->on_report({self_, peer_}, *path, report);
  if (report.phase == PathPhase::down) {
    if (!path->broken) {
      path->broken = DownCause::peer_notice;
      path->peer_cause = report.cause;
      path->broken_why = std::string("the peer lost it: ") + to_string(report.cause);
    }
    return;
  }
  // Of this incarnation a report can be old, but not ahead of what was sent.
  delivered_.clear();
  const bool suspected = path->state.phase() == PathPhase::suspect;
  NicQueue& queue = host_.queue(path->spec.local_nic);
  const uint64_t under_way = path->model.bytes_outstanding();
  path->model.share_nic(queue.busy_paths());
  if (report.bytes_received > path->model.bytes_sent() ||
      !path->model.on_delivered(report.frames_received, report.held_us * kMicrosecond, suspected,
                                at, delivered_)) {
    return refuse(*path, "has received data frames that were never sent");
  }
  const uint64_t left = path->model.bytes_outstanding();
  queue.on_delivered(under_way - left, left, at);
  path->permit(report.pace_total);
  for (const Transmission& transmission : delivered_) {
    evidence_at_ = std::max(evidence_at_, transmission.sent_at);
    if (transmission.probe) continue;
    if (!channel(transmission.channel).send.copy_gone(transmission.chunk)) continue;
    note_unlisted(*path, transmission, std::max(frame.counted, frame.version));
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
    host_.on_notice(peer_, notice.bytes);
  }
}

// An answer comes on the lane that asked, and shows that this lane works both ways.
void Link::apply_answer(Path& path, uint32_t answer, TimeNs at) {
  Path::LaneHealth& health = path.health;
  while (!health.asks.empty() && health.asks.front().number <= answer) {
    const Path::LaneHealth::Ask ask = health.asks.front();
    health.asks.pop_front();
    if (ask.number != answer) continue;
    evidence_at_ = std::max(evidence_at_, ask.sent_at);
    const TimeNs sample = std::clamp<TimeNs>(at - ask.sent_at, 1, kRoundTripMax);
    health.round_trip =
        health.round_trip == 0 ? sample : health.round_trip + (sample - health.round_trip) / 4;
    health.last_round_trip = sample;
    health.answered_at = at;
  }
}

void Link::on_broken(Path& path, DownCause cause, const std::string& why) {
  if (goodbye_received_) return touch();
  const char* name = path.spec.local_name.c_str();
  if (cause == DownCause::corrupted) {
    R2CCL_LOG(warn, "path %s to rank %d: %s", name, peer_.value(), why.c_str());
  } else {
    R2CCL_LOG(info, "path %s to rank %d: %s (%s)", name, peer_.value(), to_string(cause),
              why.c_str());
  }
  touch();
}

}  // namespace r2ccl
