// What is said to the peer, when, and on which lane.
//
// Every frame carries all that the peer has not yet reflected, so a lost one costs nothing once a
// later one arrives. Frames go round the lanes that are prompt, so a lane that has died silently
// swallows only its share until its answers are missed, and what stays unreflected is said again
// on the next lane, at last on the out-of-band one.
#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "runtime/link/link.h"

namespace r2ccl {
namespace {

// The round trip of a lane in use is measured so often: one that became slow is left out.
constexpr TimeNs kMeasureInterval = 50 * kMillisecond;
// Nobody waits for the answer to that, but in the end it counts as missing.
constexpr TimeNs kMissedCasually = 100 * kMillisecond;
// So many smallest windows of other senders may be ahead at the NICs, there and back.
constexpr TimeNs kWindowsAhead = 8;

// All else leaves a frame room for one message's acknowledgements at least: so each frame gets on.
static_assert(kControlFixedBytes + limits::kPathsMax * kPathReportBytes +
                  limits::kChannelsMax * kChannelReportBytes +
                  NoticeLedger::kPerFrame * kNoticeReportBytes + NoticeLedger::kBytesPerFrame +
                  kPartialMessageBytes + limits::kAckBitmapChunks / 8 <=
              limits::kControlBodyBytesMax);

}  // namespace

uint64_t Link::pace_total(Path& path, TimeNs at) {
  if (path.spec.lane_only) return 0;
  const NicPace& pace = host_.pace(path.spec.local_nic);
  return path.bytes_received() +
         pace.share(slots_[index_of(path)].pace_sender, path.health.round_trip, at);
}

ControlFrame Link::make_frame(TimeNs at) {
  ControlFrame frame;
  frame.counted = state_.version();
  frame.reflected = state_.peer_version();
  frame.notices_applied = notices_.applied();
  frame.goodbye = goodbye_sent_;
  frame.paths.reserve(slots_.size());
  for (Path* path : paths()) {
    PathReport report;
    report.path = path->spec.id;
    report.incarnation = path->state.incarnation();
    report.phase = path->state.phase();
    report.cause = path->state.cause();
    report.frames_received = path->frames_received();
    report.bytes_received = path->bytes_received();
    const TimeNs held = (at - path->frame_received_at()) / kMicrosecond;
    report.held_us = static_cast<uint32_t>(std::clamp<TimeNs>(held, 0, UINT32_MAX));
    report.pace_total = pace_total(*path, at);
    if (settings_.witness != nullptr) {
      settings_.witness->on_grant({self_, peer_}, *path, report.pace_total);
    }
    report.lane_received = path->lane_received();
    frame.paths.push_back(report);
  }
  frame.notices = notices_.report();
  notices_.on_said(frame.notices);
  if (mutated(Mutant::notice_once) && !frame.notices.empty()) {
    (void)notices_.on_applied(frame.notices.back().number + 1);
  }
  report_channels(frame);
  return frame;
}

// All that the peer has not reflected; or as much as still fits, what changed first before the
// rest, which follows when that is reflected (on_control).
void Link::report_channels(ControlFrame& frame) const {
  const auto report_up_to = [&](uint64_t version) {
    frame.version = version;
    frame.channels.clear();
    for (const auto& [id, open] : channels_) {
      if (open->changed_version <= state_.acknowledged()) continue;
      frame.channels.push_back(open->receive.report(state_.acknowledged(), version));
    }
  };
  report_up_to(state_.version());
  const size_t bytes = encoded_body_bytes(frame);
  if (bytes <= limits::kControlBodyBytesMax) return;
  std::vector<ReceiveLedger::Change> changes;
  for (const auto& [id, open] : channels_) open->receive.changes(state_.acknowledged(), changes);
  std::ranges::sort(changes, {}, &ReceiveLedger::Change::version);
  for (size_t excess = bytes - limits::kControlBodyBytesMax; excess > 0; changes.pop_back()) {
    R2CCL_CHECK(!changes.empty());
    excess -= std::min(excess, changes.back().bytes);
    frame.version = changes.back().version - 1;
  }
  report_up_to(frame.version);
}

// A drained one may be unplugged at any moment: what it carries then is late.
bool Link::good_lane(const Path& path) {
  return path.lane_ready() && !path.broken && !path.spec.lane_only && path.state.usable() &&
         !path.resting;
}

// The longest round trip of a lane that nobody has to wait for; kNever: there is no good lane. Some
// frames of other senders may be ahead on any.
TimeNs Link::prompt_round_trip(TimeNs at) const {
  TimeNs fastest = kNever;
  for (Path* path : paths()) {
    if (good_lane(*path)) fastest = std::min(fastest, path->health.round_trip_at(at));
  }
  if (fastest == kNever) return kNever;
  const auto window_time = static_cast<TimeNs>(limits::kWindowBytesMin / fastest_rate());
  return 2 * fastest + 2 * kMillisecond + kWindowsAhead * window_time;
}

// Prompt lanes in turn; else any that is connected; the out-of-band lane when nothing else is left.
Path* Link::choose_lane(TimeNs at) {
  const TimeNs prompt = prompt_round_trip(at);
  Path* second = nullptr;
  Path* last = nullptr;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t index = (lane_cursor_ + i) % slots_.size();
    Path& path = *slots_[index].path;
    if (!path.lane_ready() || path.broken) continue;
    if (path.spec.lane_only) {
      last = &path;
    } else if (good_lane(path) && path.health.round_trip_at(at) <= prompt) {
      lane_cursor_ = index + 1;
      return &path;
    } else if (second == nullptr) {
      second = &path;
    }
  }
  return second != nullptr && usable_paths() > 0 ? second : last != nullptr ? last : second;
}

// At least so much lies between frames to a peer that answers nothing: its kernel keeps only so
// many for a process that is stopped, for however long.
TimeNs Link::spacing(TimeNs at) const {
  return unheard(at) / 4;
}

void Link::send_state(Path& path, TimeNs at, Question question) {
  ControlFrame frame = make_frame(at);
  frame.answer = path.health.answer_due;
  path.health.answer_due = 0;
  if (question != Question::none) {
    frame.ask = ask_number_++;
    if (ask_number_ == 0) ask_number_ = 1;
    path.health.last_asked_at = at;
    const TimeNs missed_at = question == Question::casual ? at + kMissedCasually : at;
    path.health.asks.push_back({frame.ask, at, missed_at});
    if (path.health.asks.size() > 32) path.health.asks.pop_front();
  }
  // What only a slow lane has carried is still news for the others.
  const TimeNs prompt = prompt_round_trip(at);
  const bool heard_soon = good_lane(path) && path.health.round_trip_at(at) <= prompt;
  if (heard_soon || prompt == kNever) {
    state_.on_sent(frame.version, path.health.round_trip, spacing(at), at);
  }
  path.send_control(frame);
}

void Link::control(TimeNs at) {
  for (Path* path : paths()) {
    if (!path->lane_ready() || path->broken) continue;
    const TimeNs interval = std::max(limits::kHeartbeatInterval, spacing(at));
    const bool heartbeat = at - path->health.last_sent_at >= interval;
    // The first frame on a lane asks, to learn its round trip.
    const bool first = path->health.round_trip == 0 && path->health.asks.empty();
    if (path->health.answer_due != 0 || heartbeat || first) {
      // Answers alone must not keep a lane that is left out from being measured again.
      const bool measure = at - path->health.last_asked_at >= limits::kHeartbeatInterval;
      send_state(*path, at, heartbeat || first || measure ? Question::urgent : Question::none);
    }
  }
  const StateExchange::Due due = state_.due(at);
  if (!due) return;
  Path* lane = choose_lane(at);
  // None is connected, or all are full: look again soon, not at once.
  if (lane == nullptr) return state_.postpone(due, at);
  if (due.retransmit) state_.back_off();
  const bool measure = at - lane->health.last_asked_at >= kMeasureInterval;
  send_state(*lane, at, measure ? Question::casual : Question::none);
}

}  // namespace r2ccl
