// The control frames to the peer: their content, their time, and their control stream. Where data
// goes to the peer, a data frame carries the same state, and no control frame is due.
//
// Every frame carries all state that the peer has not acknowledged, so a later frame makes up for a
// lost one. Frames go round the prompt control streams in turn. A stream that has died silently
// therefore swallows only its share until its pongs are missed. Unacknowledged state goes out again
// on the next stream, at last on the out-of-band one.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "runtime/link/link.h"

namespace r2ccl {
namespace {

// The interval between measurements of the round trip of a control stream in use. A slow stream
// gets no frames.
constexpr TimeNs kMeasureInterval = 50 * kMillisecond;
// A chunk carries the state when it is due within this time, that is 0.1 ms after the change. The
// state costs both ends a microsecond, so not every chunk of a fast operation should.
constexpr TimeNs kDueSoon = limits::kDelayedAckTime * 4 / 5;
// Carried state may wait this long behind other bytes of its connection.
constexpr TimeNs kAheadMax = limits::kDelayedAckTime / 5;

// The other parts leave a frame room for at least one message's acknowledgements, so that each
// frame makes progress.
static_assert(kControlFixedBytes + limits::kPathsMax * kPathReportBytes +
                  limits::kChannelsMax * kChannelReportBytes +
                  NoticeLedger::kPerFrame * kNoticeReportBytes + NoticeLedger::kBytesPerFrame +
                  kPartialMessageBytes + limits::kAckBitmapChunks / 8 <=
              limits::kControlBodyBytesMax);

}  // namespace

PathReport Link::report_path(const Path& path) {
  PathReport report;
  report.path = path.spec.id;
  report.incarnation = path.state.incarnation();
  report.phase = path.state.phase();
  report.cause = path.state.cause();
  report.frames_received = path.frames_received();
  report.arrived_at = static_cast<uint64_t>(path.frame_received_at());
  report.control_received = path.control_received();
  return report;
}

// Returns the state in a frame, which is valid until the next call.
ControlFrame& Link::make_frame(TimeNs at) {
  ControlFrame& frame = frame_;
  frame.counted = state_.version();
  frame.acknowledged = state_.peer_version();
  frame.notices_applied = notices_.applied();
  frame.sent_at = static_cast<uint64_t>(at);
  frame.goodbye = goodbye_.sent;
  frame.wants_data = paths_.wants_data() && (paths_.opens() || !mutated(Mutant::join_unasked));
  frame.ping = 0;
  frame.pong = 0;
  frame.paths.clear();
  for (const Path* path : paths()) frame.paths.push_back(report_path(*path));
  frame.notices = notices_.report();
  notices_.on_said(frame.notices);
  if (mutated(Mutant::notice_once) && !frame.notices.empty()) {
    (void)notices_.on_applied(frame.notices.back().number + 1);
  }
  report_channels(frame);
  return frame;
}

// Reports all state that the peer has not acknowledged, or as much as fits, the oldest changes
// first. The rest follows when the peer has acknowledged these.
void Link::report_channels(ControlFrame& frame) const {
  const auto report_up_to = [&](uint64_t version) {
    frame.version = version;
    frame.channels.clear();
    for (const auto& [id, channel] : channels_.all()) {
      if (channel->changed_version <= state_.acknowledged()) continue;
      frame.channels.push_back(channel->report(state_.acknowledged(), version));
    }
  };
  report_up_to(state_.version());
  const size_t bytes = encoded_body_bytes(frame);
  if (bytes <= limits::kControlBodyBytesMax) return;
  std::vector<ReceiveLedger::Change> changes;
  for (const auto& [id, channel] : channels_.all()) {
    if (channel->used()) channel->receive().changes(state_.acknowledged(), changes);
  }
  std::ranges::sort(changes, {}, &ReceiveLedger::Change::version);
  for (size_t excess = bytes - limits::kControlBodyBytesMax; excess > 0; changes.pop_back()) {
    R2CCL_CHECK(!changes.empty());
    excess -= std::min(excess, changes.back().bytes);
    frame.version = changes.back().version - 1;
  }
  report_up_to(frame.version);
}

void Link::send_state(Path& path, TimeNs at, Ping ping) {
  FailureDetector& detector = paths_.detector();
  ControlFrame& frame = make_frame(at);
  frame.pong = std::exchange(path.health.pong_due, 0);
  if (ping != Ping::none) frame.ping = detector.on_ping_sent(path, ping == Ping::casual, at);
  // State that only a slow control stream has carried still counts as unsent.
  const PathScheduler& scheduler = paths_.scheduler();
  if (scheduler.is_prompt(path, at) || scheduler.prompt_round_trip(at) == kNever) {
    state_.on_sent(frame.version, path.health.round_trip, detector.spacing(at), at);
  }
  path.send_control(frame);
}

// A data frame that leaves now carries the state, if a control frame would soon carry it otherwise.
// It does not where the bytes that are ahead on the same connection take long. Notices and goodbyes
// travel on control streams only.
std::span<const std::byte> Link::take_state(const Path& path, TimeNs at) {
  if (!state_.due_within(kDueSoon, at) || notices_.pending() > 0 || goodbye_.wanted) return {};
  const TimeNs behind = path.model.wire_time(path.model.bytes_queued(at));
  if (behind > kAheadMax || !paths_.scheduler().is_prompt(path, at)) return {};
  ControlFrame& frame = make_frame(at);
  if (encoded_body_bytes(frame) + kStateTagBytes > limits::kCarriedStateBytesMax) return {};
  frame.control_sequence = path.model.frames_sent();
  carried_.clear();
  encode_carried_state(frame, carried_);
  state_.on_sent(frame.version, path.health.round_trip, paths_.detector().spacing(at), at);
  return carried_;
}

// Answers pings, and measures the round trip of each stream that is new.
void Link::send_pongs(TimeNs at) {
  for (Path* path : paths()) {
    if (!path->control_writable() || path->broken) continue;
    const bool first = path->health.round_trip == 0 && path->health.pings.empty();
    if (path->health.pong_due == 0 && !first) continue;
    // A slow stream gets no other frames that would show that it is prompt again.
    const bool measure = at - path->health.last_ping_at >= limits::kHeartbeatInterval &&
                         !path->control_only && !paths_.scheduler().is_prompt(*path, at);
    send_state(*path, at, first || measure ? Ping::urgent : Ping::none);
  }
}

void Link::send_heartbeats(TimeNs at) {
  if (!heartbeats_.due(at)) return;
  uint64_t work = 0;
  for (const Path* path : paths()) work += path->model.frames_sent() + path->frames_received();
  const FailureDetector& detector = paths_.detector();
  const auto& chosen = heartbeats_.take({.time = at,
                                         .wall = host_.clock().wall(),
                                         .heard_at = detector.heard_at(),
                                         .spacing = detector.spacing(at),
                                         .work = work});
  for (PathEnd* path : chosen) send_state(static_cast<Path&>(*path), at, Ping::urgent);
}

void Link::send_due_frames(TimeNs at) {
  send_pongs(at);
  send_heartbeats(at);
  const StateExchange::Due due = state_.due(at);
  if (!due) return;
  PathEnd* stream = paths_.scheduler().choose_control(at);
  // No control stream is connected, or all are full: look again soon, not at once.
  if (stream == nullptr) return state_.postpone(due, at);
  if (due.retransmit) state_.back_off();
  const bool measure = at - stream->health.last_ping_at >= kMeasureInterval;
  send_state(static_cast<Path&>(*stream), at, measure ? Ping::casual : Ping::none);
}

}  // namespace r2ccl
