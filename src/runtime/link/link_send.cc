// Which chunk goes on which path, and when.
#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "plan/limits.h"
#include "runtime/link/link.h"

namespace r2ccl {
namespace {

// Messages up to this size overtake larger ones of other channels.
constexpr uint64_t kSmallMessage = 32 * 1024;
// Byte credit a channel gets when its turn comes.
constexpr int64_t kQuantum = 256 * 1024;
// What mirrors may cost: a burst, plus a share of all payload.
constexpr uint64_t kMirrorBurst = 8 * 1024 * 1024;
constexpr uint64_t kMirrorShare = 50;  // one part in
// How much sooner another path must finish a chunk before it is sent there as well.
constexpr TimeNs kMirrorGain = 3 * kMillisecond;
// A difference of delays below this says nothing.
constexpr TimeNs kDelayNoise = 200 * kMicrosecond;
// More than the largest MTU, and enough to tell a slow path's time from the schedulers'.
constexpr size_t kProbeBytes = 16 * 1024;

// Larger than any segment of a plan: nothing but its own end waits for such a message.
constexpr uint64_t kLongMessage = 512 * 1024;
static_assert(kLongMessage > kPlanLimits.segment_bytes_max);
// At this rate a chunk by time is as large as a path's smallest window.
constexpr double kSmallestWindowRate =
    static_cast<double>(limits::kWindowBytesMin) / static_cast<double>(limits::kChunkDuration);

// So many times another path's rate is no error of measurement.
constexpr double kUnlike = 4;

bool carries(const Path& path) {
  return path.state.usable() && !path.spec.lane_only && !path.resting;
}

}  // namespace

double Link::fastest_rate() const {
  double fastest = 0;
  for (Path* path : paths()) {
    if (!carries(*path)) continue;
    const double rate = path->model.bytes_per_ns();
    // What a token bucket let through at once would cut messages so large that one path has each.
    const double believed =
        path->model.rate_known() ? rate : std::min(rate, PathModel::kRateInitial);
    fastest = std::max(fastest, believed);
  }
  return fastest > 0 ? fastest : PathModel::kRateInitial;
}

PathModel::Best Link::best_shown() const {
  PathModel::Best best;
  double known = 0;
  double hoped = 0;
  for (Path* path : paths()) {
    if (!carries(*path)) continue;
    double& fastest = path->model.rate_known() ? known : hoped;
    fastest = std::max(fastest, path->model.shown_bytes_per_ns());
    best.deviation = std::min(best.deviation, path->model.deviation());
  }
  if (known == 0) {
    best.bytes_per_ns = std::max(best.bytes_per_ns, hoped);
  } else {
    // It may be a token bucket's, beside which all that is known would look slow.
    hoped = std::min(hoped, PathModel::kRateInitial);
    // A path that is known to be slow says nothing about others which have shown much more.
    if (hoped <= kUnlike * known) best.bytes_per_ns = std::max(known, hoped);
  }
  for (Path* path : paths()) {
    // What a slow path takes is its time on the wire, but for an error as large as any delay.
    if (!carries(*path) || path->model.is_slow(best.bytes_per_ns)) continue;
    best.delay = std::min(best.delay, path->model.recent_delay());
  }
  return best;
}

TimeNs Link::shortest_delay() const {
  TimeNs shortest = kNever;
  for (Path* path : paths()) {
    if (!carries(*path)) continue;
    shortest = std::min(shortest, path->model.base_delay());
  }
  return shortest;
}

size_t Link::usable_paths() const {
  return static_cast<size_t>(
      std::ranges::count_if(paths(), [](const Path* path) { return carries(*path); }));
}

// How many paths a message is worth cutting for: those that are through with an equal share of it
// almost as soon as the best one. It would wait for the others; they take what there is in longer
// operations.
size_t Link::paths_for(uint64_t message_bytes, TimeNs now) const {
  const uint64_t share = message_bytes / std::max<size_t>(usable_paths(), 1);
  TimeNs shortest = kNever;
  for (Path* path : paths()) {
    if (carries(*path)) shortest = std::min(shortest, path->model.time_alone(share, now));
  }
  return static_cast<size_t>(std::ranges::count_if(paths(), [&](const Path* path) {
    return carries(*path) && path->model.time_alone(share, now) <= shortest + shortest / 2;
  }));
}

// When everything that is known to be waiting would be delivered if all usable paths shared it.
TimeNs Link::backlog_done_at(TimeNs now) const {
  double rate = 0;
  uint64_t bytes = 0;
  for (Path* path : paths()) {
    if (!carries(*path)) continue;
    rate += path->model.bytes_per_ns();
    bytes += path->model.bytes_under_way(now);
  }
  if (rate <= 0) return now;
  for (const auto& [id, open] : channels_) bytes += open->send.fresh_bytes();
  return now + shortest_delay() + static_cast<TimeNs>(static_cast<double>(bytes) / rate);
}

bool Link::path_takes(const Path& path, uint64_t bytes, bool urgent) const {
  if (!path.can_start_frame()) return false;
  const uint64_t frame = bytes + kDataHeaderBytes;
  if (!path.model.has_room(frame)) return false;
  if (path.model.bytes_outstanding() == 0) return true;  // one chunk may always be under way
  const uint64_t overdraw = urgent ? path.model.window() : 0;
  return path.pace_room() + overdraw >= frame || mutated(Mutant::no_pace);
}

// `reserved` paths count as busy.
Link::Choice Link::choose_path(uint64_t bytes, std::optional<PathId> avoid, bool urgent, TimeNs now,
                               std::span<const Path* const> reserved) {
  Path* best = nullptr;
  Path* best_free = nullptr;
  TimeNs best_at = kNever;
  TimeNs best_free_at = kNever;
  for (Path* path : paths()) {
    if (!carries(*path) || path->broken) continue;
    if (avoid && path->spec.id == *avoid) continue;
    const TimeNs at = path->model.finish_at(bytes, now);
    if (at < best_at) {
      best = path;
      best_at = at;
    }
    if (std::ranges::find(reserved, path) != reserved.end()) continue;
    if (at < best_free_at && path_takes(*path, bytes, urgent)) {
      best_free = path;
      best_free_at = at;
    }
  }
  if (best == nullptr) return {};
  if (best_free == best) return {best};
  // A slower path may help as long as it is done before the others are through with the rest. A
  // difference of half the chunk's time is within the error of what is known about rates.
  const TimeNs error = best->model.wire_time(bytes) / 2 + kDelayNoise;
  const TimeNs bound = std::max(backlog_done_at(now), best_at + error);
  if (best_free != nullptr && best_free_at <= bound) return {best_free};
  return {nullptr, true, best};
}

void Link::transmit(Path& path, Channel& from, ChunkRef chunk, TimeNs now) {
  const DataHeader header = from.send.transmit(chunk);
  Transmission transmission;
  transmission.channel = from.send.channel();
  transmission.chunk = chunk;
  payload_bytes_ += header.payload_bytes;
  const std::span<const std::byte> payload = from.send.bytes(chunk);
  if (settings_.witness != nullptr) {
    settings_.witness->on_transmit({self_, peer_}, path, header, payload);
  }
  send_frame(path, header, payload, transmission, now);
}

void Link::send_probe(Path& path, TimeNs now) {
  DataHeader header;
  header.type = FrameType::probe;
  header.payload_bytes = mutated(Mutant::small_proof) ? 64 : kProbeBytes;
  Transmission transmission;
  transmission.probe = true;
  send_frame(path, header, {}, transmission, now);
}

void Link::send_frame(Path& path, const DataHeader& header, std::span<const std::byte> payload,
                      Transmission transmission, TimeNs now) {
  NicQueue& queue = host_.queue(path.spec.local_nic);
  queue.on_sent(kDataHeaderBytes + header.payload_bytes, path.model.outstanding().empty(), now);
  path.send_frame(header, payload, transmission, now, queue.time_of(queue.outstanding()));
}

uint32_t Link::cut_for(uint64_t message_bytes, TimeNs now) const {
  const size_t paths = paths_for(message_bytes, now);
  const double rate = fastest_rate();
  if (message_bytes < kLongMessage) return chunk_cut(message_bytes, paths, rate);
  return chunk_cut(message_bytes, paths, std::max(rate, rate_of_shared_nics()));
}

// Where other links send through the same NICs a path has only a part of its NIC's rate. Chunks by
// that part alone would cost more processor than they save time: a smallest window is under way on
// each path in any case.
double Link::rate_of_shared_nics() const {
  double fastest = 0;
  for (Path* path : paths()) {
    if (!carries(*path)) continue;
    fastest = std::max(fastest, host_.queue(path->spec.local_nic).bytes_per_ns());
  }
  return std::min(fastest, kSmallestWindowRate);
}

// What goes next: of the channels with something new to send small messages first, the others by
// byte quanta.
Link::Fresh Link::next_fresh(TimeNs now) {
  Fresh large;
  for (size_t i = 0; i < channel_order_.size(); ++i) {
    const size_t at = (channel_cursor_ + i) % channel_order_.size();
    Channel& candidate = *channels_.at(channel_order_[at]);
    const uint64_t message = candidate.send.next_message_bytes();
    const auto chunk = candidate.send.next_fresh(cut_for(message, now));
    if (!chunk) continue;
    if (message <= kSmallMessage) return {&candidate, *chunk};
    if (large.from == nullptr) {
      large = {&candidate, *chunk};
      if (candidate.quantum <= 0) {
        candidate.quantum = kQuantum;
        channel_cursor_ = (at + 1) % channel_order_.size();
      }
    }
  }
  return large;
}

// A path that a retransmission waits for gets nothing fresh: small chunks could fill it for ever.
bool Link::dispatch_fresh(std::span<const Path* const> awaited, TimeNs now) {
  const Fresh next = next_fresh(now);
  if (next.from == nullptr) return false;
  const uint64_t bytes = next.from->send.bytes(next.chunk).size();
  const Choice choice = choose_path(bytes, std::nullopt, now < overdraw_until_, now, awaited);
  if (choice.path == nullptr) return false;
  next.from->quantum -= static_cast<int64_t>(bytes);
  transmit(*choice.path, *next.from, next.chunk, now);
  // What a path carries on trial goes by another one as well.
  if (settings_.monitor && choice.path->model.doubtful()) {
    resend_.push_back({next.from->send.channel(), next.chunk, choice.path->spec.id, true});
  }
  return true;
}

bool Link::any_path_free() const {
  return std::ranges::any_of(paths(), [this](const Path* path) {
    return carries(*path) && !path->broken && path_takes(*path, 0, true);
  });
}

// Sends again what a path takes now. A chunk that waits for a path keeps its place and holds up no
// chunk that another path takes. Returns the paths that chunks wait for.
std::vector<const Path*> Link::dispatch_resend(TimeNs now) {
  std::vector<const Path*> awaited;
  if (resend_.empty()) return awaited;
  // A chunk waits if one of its size waits already: a full queue costs one choice and not one each.
  std::vector<std::pair<std::optional<PathId>, uint64_t>> waiting;  // avoided path, bytes
  // Writing may break a path, and what is read then may cancel a channel.
  std::deque<Resend> queue = std::exchange(resend_, {});
  while (!queue.empty() && any_path_free()) {
    const Resend next = queue.front();
    queue.pop_front();
    Channel& from = channel(next.channel);
    const bool pointless =
        !from.send.needs_delivery(next.chunk) || (next.mirror && from.send.copies(next.chunk) != 1);
    if (pointless) continue;
    const uint64_t bytes = from.send.bytes(next.chunk).size();
    if (next.mirror && !may_mirror(bytes)) continue;
    std::optional<PathId> avoid;
    if (next.mirror) avoid = next.avoid;
    const bool waits = std::ranges::any_of(
        waiting, [&](const auto& other) { return other.first == avoid && other.second <= bytes; });
    if (waits) {
      resend_.push_back(next);
      continue;
    }
    const Choice choice = choose_path(bytes, avoid, true, now);
    if (choice.path != nullptr) {
      (next.mirror ? mirrored_bytes_ : replayed_bytes_) += bytes;
      transmit(*choice.path, from, next.chunk, now);
      continue;
    }
    // Waiting is no use when the avoided path is all that is left, and trusted again.
    const bool only_avoided = next.mirror && !choice.wait && usable_paths() > 0;
    if (only_avoided) continue;
    resend_.push_back(next);
    waiting.emplace_back(avoid, bytes);
    if (choice.awaited != nullptr) awaited.push_back(choice.awaited);
  }
  std::ranges::copy_if(queue, std::back_inserter(resend_), [this](const Resend& each) {
    return channel(each.channel).send.needs_delivery(each.chunk);
  });
  return awaited;
}

void Link::dispatch(TimeNs now) {
  const PathModel::Best best = best_shown();
  for (Path* path : paths()) path->model.compare(best);
  const std::vector<const Path*> awaited = dispatch_resend(now);
  while (dispatch_fresh(awaited, now)) {
  }
  if (!settings_.monitor) return;
  mirror_stragglers(now);
  if (payload_bytes_ != payload_probed_) probe_slow_paths(now);
}

// A path that is left out because it was slow shows only so that it no longer is.
void Link::probe_slow_paths(TimeNs now) {
  for (Path* path : paths()) {
    if (!carries(*path) || path->broken) continue;
    if (!path->can_start_frame() || !path->model.wants_probe(now)) continue;
    payload_probed_ = payload_bytes_;
    send_probe(*path, now);
  }
}

bool Link::may_mirror(uint64_t bytes) const {
  return mirrored_bytes_ + bytes <= kMirrorBurst + payload_bytes_ / kMirrorShare;
}

// Near the end of an operation, paths that have nothing to do take over what would finish last.
void Link::mirror_stragglers(TimeNs now) {
  if (!resend_.empty()) return;
  for (Path* slow : paths()) {
    if (slow->model.outstanding().empty() || !slow->state.usable()) continue;
    const Transmission& oldest = slow->model.outstanding().front();
    // No path would be done before now.
    if (oldest.probe || now + kMirrorGain >= oldest.due_at) continue;
    Channel& from = channel(oldest.channel);
    if (!from.send.needs_delivery(oldest.chunk) || from.send.copies(oldest.chunk) != 1) continue;
    const uint64_t bytes = from.send.bytes(oldest.chunk).size();
    if (!may_mirror(bytes)) continue;
    const TimeNs due = oldest.due_at;
    for (Path* idle : paths()) {
      if (idle == slow || !carries(*idle) || idle->broken) continue;
      if (idle->model.bytes_outstanding() != 0 || !idle->can_start_frame()) continue;
      const TimeNs gain = kMirrorGain + idle->model.wire_time(bytes);
      if (idle->model.finish_at(bytes, now) + gain >= due) continue;
      mirrored_bytes_ += bytes;
      transmit(*idle, from, oldest.chunk, now);
      break;
    }
  }
}

// Every chunk of a path that looks late is sent on another one as well.
void Link::mirror_outstanding(Path& path) {
  for (const Transmission& transmission : path.model.outstanding()) {
    if (transmission.probe) continue;
    Channel& from = channel(transmission.channel);
    if (from.send.needs_delivery(transmission.chunk) && from.send.copies(transmission.chunk) == 1) {
      resend_.push_back({transmission.channel, transmission.chunk, path.spec.id, true});
    }
  }
}

// The oldest chunk under way has waited longest: its delivery will tell the stall.
void Link::note_hit(Path& path) {
  slots_[index_of(path)].stall = 0;
  for (const Transmission& transmission : path.model.outstanding()) {
    if (transmission.probe) continue;
    if (!channel(transmission.channel).send.needs_delivery(transmission.chunk)) continue;
    hits_.push_back({path.spec.id, transmission.channel, transmission.chunk, transmission.sent_at});
    return;
  }
}

void Link::settle_hits(TimeNs now) {
  std::erase_if(hits_, [&](const Hit& hit) {
    if (channel(hit.channel).send.needs_delivery(hit.chunk)) return false;
    const Path* path = find(hit.path);
    if (path != nullptr) {
      TimeNs& stall = slots_[index_of(*path)].stall;
      stall = std::max(stall, now - hit.sent_at);
    }
    return true;
  });
}

// What was under way on a path that died and is nowhere else.
void Link::queue_lost(const std::deque<Transmission>& lost, uint64_t& replayed_bytes) {
  std::vector<Resend> replays;
  for (const Transmission& transmission : lost) {
    if (transmission.probe) continue;
    Channel& from = channel(transmission.channel);
    if (mutated(Mutant::trust_the_socket) && &transmission != &lost.back()) continue;
    if (!from.send.copy_gone(transmission.chunk) || mutated(Mutant::no_replay)) continue;
    replays.push_back({transmission.channel, transmission.chunk, PathId(), false});
    replayed_bytes += from.send.bytes(transmission.chunk).size();
  }
  resend_.insert(resend_.begin(), replays.begin(), replays.end());
}

}  // namespace r2ccl
