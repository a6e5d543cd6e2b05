#include "runtime/link/chunk_sender.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// The budget of hedges: a burst, plus a share of the payload.
constexpr uint64_t kHedgeBurst = 8 * 1024 * 1024;
constexpr uint64_t kHedgeShare = 50;  // one part in so many
// A write of as many bytes takes some 0.1 ms, for which other links and communicators wait.
constexpr uint64_t kBytesPerPass = 128 * 1024;
// Writes of frames up to this size show the price of a chunk: copying these bytes takes less time.
constexpr size_t kSmallFrame = 16 * 1024;
// A longer write was interrupted.
constexpr TimeNs kWriteTimeMax = 50 * kMicrosecond;
// The price of a chunk, in writes: its own, the read at the other end, the same for its
// acknowledgement, and the wake-ups for both.
constexpr TimeNs kWritesPerChunk = 6;
// So many bytes that are left for a peer, beside a chunk, are a long stream. Between two ranks,
// messages of up to 512 KB took half the time in place, and from 2 MB on a third more.
constexpr uint64_t kStreamBytes = 512 * 1024;

}  // namespace

void ChunkSender::transmit(PathEnd& path, Channel& from, ChunkRef chunk, TimeNs now) {
  auto& on = static_cast<Path&>(path);
  const DataHeader header = from.send().transmit(chunk);
  Transmission transmission;
  transmission.channel = from.id;
  transmission.chunk = chunk;
  payload_bytes_ += header.payload_bytes;
  const std::span<const std::byte> payload = from.send().bytes(chunk);
  R2CCL_CHECK(payload.size() == header.payload_bytes);
  if (settings_.witness != nullptr) settings_.witness->on_transmit(end_, on, header, payload);
  transmission.in_place = on.sends_in_place(payload.size()) && leaves_in_place(on);
  if (transmission.in_place) from.send().keep_source(chunk.message);
  send_frame(on, header, payload, transmission, now);
}

bool ChunkSender::uses_memory(const std::vector<Path*>& paths) {
  return std::ranges::any_of(paths, [](const Path* path) { return path->spec.is_shm(); });
}

// Only the reader copies bytes that stay in place. Otherwise both ends copy them, at the same time.
// That is faster for a sender that has nothing else to do, if its stream is long, or if the reader
// may have several senders and so more to copy than each of them.
bool ChunkSender::leaves_in_place(const Path& path) const {
  if (load_.others_to_do()) return true;
  const uint64_t stream = channels_.fresh_bytes() + path.model.bytes_outstanding();
  return stream < kStreamBytes && !load_.others_in_memory();
}

void ChunkSender::send_proof(Path& path, TimeNs now) {
  send_probe(path, mutated(Mutant::small_proof) ? 64 : PathModel::kProbeBytes, now);
}

void ChunkSender::send_probe(Path& path, uint64_t bytes, TimeNs now) {
  DataHeader header;
  header.type = FrameType::probe;
  header.payload_bytes = static_cast<uint32_t>(bytes);
  Transmission transmission;
  transmission.probe = true;
  send_frame(path, header, {}, transmission, now);
}

void ChunkSender::send_frame(Path& path, DataHeader header, std::span<const std::byte> payload,
                             Transmission transmission, TimeNs now) {
  NicQueue& queue = host_.queue(path.nic());
  const std::span<const std::byte> state = take_state_(path, now);
  R2CCL_CHECK(state.size() <= UINT16_MAX);
  header.state_bytes = static_cast<uint16_t>(state.size());
  queue.on_sent(header.frame_bytes(), path.model.outstanding().empty(), now);
  const TimeNs began = host_.clock().now();
  path.send_frame(header, payload, state, transmission, now, queue.time_of(queue.outstanding()));
  if (header.payload_bytes <= kSmallFrame) learn_price(host_.clock().now() - began);
}

// The time of a system call differs by an order of magnitude between machines (virtual machines,
// sandboxes). In a simulation it is 0, and so is the price.
void ChunkSender::learn_price(TimeNs write_time) {
  write_time = std::clamp<TimeNs>(write_time, 0, kWriteTimeMax);
  write_time_ = write_time_ == 0 ? write_time : write_time_ + (write_time - write_time_) / 8;
  scheduler_.set_chunk_price(kWritesPerChunk * write_time_);
}

bool ChunkSender::dispatch(TimeNs now) {
  scheduler_.compare_paths();
  const std::vector<const PathEnd*> awaited = dispatch_retransmissions(now);
  const uint64_t stop_at = payload_bytes_ + kBytesPerPass;
  while (payload_bytes_ < stop_at && dispatch_fresh(awaited, now)) {
  }
  note_load();
  if (payload_bytes_ >= stop_at) return true;
  if (!settings_.monitor) return false;
  if (payload_bytes_ != payload_probed_) probe_slow_paths(now);
  return false;
}

// A path that a retransmission waits for gets no new chunk: small chunks could fill it for ever.
bool ChunkSender::dispatch_fresh(std::span<const PathEnd* const> awaited, TimeNs now) {
  const ChannelSet::Fresh next = channels_.next_fresh(scheduler_, now);
  if (next.from == nullptr) return false;
  PathScheduler::Demand demand;
  demand.bytes = next.from->send().bytes(next.chunk).size();
  demand.fresh_bytes = channels_.fresh_bytes();
  demand.reserved = awaited;
  demand.home = next.from->home;
  PathEnd* path = scheduler_.choose(demand, now).path;
  if (path == nullptr) return false;
  next.from->quantum -= static_cast<int64_t>(demand.bytes);
  transmit(*path, *next.from, next.chunk, now);
  // A chunk on a path on probation goes by another path as well.
  if (settings_.monitor && path->model.doubtful() && !mutated(Mutant::tune_doubtful)) {
    queue_.push_back({next.from->id, next.chunk, path, true});
  }
  return true;
}

bool ChunkSender::is_pointless(const Retransmission& next) const {
  const SendLedger& send = channels_.at(next.channel).send();
  return !send.needs_delivery(next.chunk) || (next.hedge && send.copies(next.chunk) != 1);
}

// Retransmits the chunks that a path takes now. A chunk that waits for a path keeps its place and
// holds up no chunk that another path takes. Returns the paths that chunks wait for.
std::vector<const PathEnd*> ChunkSender::dispatch_retransmissions(TimeNs now) {
  std::vector<const PathEnd*> awaited;
  if (queue_.empty()) return awaited;
  // A chunk waits if one of its size waits already: a full queue costs one choice, not one for each
  // chunk.
  std::vector<std::pair<const PathEnd*, uint64_t>> waiting;  // avoided path, bytes
  // Writing may break a path, and a frame that is read then may cancel a channel.
  std::deque<Retransmission> queue = std::exchange(queue_, {});
  while (!queue.empty() && scheduler_.any_free()) {
    const Retransmission next = queue.front();
    queue.pop_front();
    if (is_pointless(next)) continue;
    Channel& from = channels_.at(next.channel);
    const uint64_t bytes = from.send().bytes(next.chunk).size();
    if (next.hedge && !may_hedge(bytes)) continue;
    const PathEnd* avoid = next.hedge ? next.avoid : nullptr;
    const bool waits = std::ranges::any_of(
        waiting, [&](const auto& other) { return other.first == avoid && other.second <= bytes; });
    if (waits) {
      queue_.push_back(next);
      continue;
    }
    const PathScheduler::Choice choice =
        scheduler_.choose({bytes, channels_.fresh_bytes(), avoid, {}}, now);
    if (choice.path != nullptr) {
      R2CCL_CHECK(choice.path != avoid);
      (next.hedge ? hedged_bytes_ : retransmitted_bytes_) += bytes;
      transmit(*choice.path, from, next.chunk, now);
      continue;
    }
    // Waiting is pointless when the avoided path is the only one left, and is trusted again.
    const bool only_avoided = next.hedge && choice.awaited == nullptr && scheduler_.usable() > 0;
    if (only_avoided) continue;
    queue_.push_back(next);
    waiting.emplace_back(avoid, bytes);
    if (choice.awaited != nullptr) awaited.push_back(choice.awaited);
  }
  std::ranges::copy_if(queue, std::back_inserter(queue_), [this](const Retransmission& each) {
    return channels_.at(each.channel).send().needs_delivery(each.chunk);
  });
  return awaited;
}

// A path that gets no chunks because it was slow needs a probe to show that it has recovered.
void ChunkSender::probe_slow_paths(TimeNs now) {
  for (Path* path : paths_) {
    if (!path->carries() || path->broken) continue;
    if (!path->can_start_frame() || !path->model.wants_probe(now)) continue;
    payload_probed_ = payload_bytes_;
    send_probe(*path, path->model.probe_bytes(), now);
  }
}

bool ChunkSender::may_hedge(uint64_t bytes) const {
  return hedged_bytes_ + bytes <= kHedgeBurst + payload_bytes_ / kHedgeShare;
}

void ChunkSender::on_suspect(Path& path) {
  note_stalled(path);
  if (mutated(Mutant::tune_suspect_hedge)) return;
  for (const Transmission& transmission : path.model.outstanding()) {
    if (transmission.probe) continue;
    const Channel& from = channels_.at(transmission.channel);
    if (from.send().needs_delivery(transmission.chunk) &&
        from.send().copies(transmission.chunk) == 1) {
      queue_.push_back({transmission.channel, transmission.chunk, &path, true});
    }
  }
}

// Retransmits the chunks that were outstanding on the failed path and on no other.
uint64_t ChunkSender::on_failed(const Fifo<Transmission>& lost) {
  uint64_t bytes = 0;
  std::vector<Retransmission> again;
  for (const Transmission& transmission : lost) {
    if (transmission.probe) continue;
    Channel& from = channels_.at(transmission.channel);
    if (mutated(Mutant::trust_the_socket) && &transmission != &lost.back()) continue;
    if (!from.send().copy_gone(transmission.chunk) || mutated(Mutant::no_replay)) continue;
    again.push_back({transmission.channel, transmission.chunk, nullptr, false});
    bytes += from.send().bytes(transmission.chunk).size();
  }
  queue_.insert(queue_.begin(), again.begin(), again.end());
  return bytes;
}

// The oldest outstanding chunk has waited longest. Its delivery gives the stall.
void ChunkSender::note_stalled(Path& path) {
  path.stall = 0;
  for (const Transmission& transmission : path.model.outstanding()) {
    if (transmission.probe) continue;
    if (!channels_.at(transmission.channel).send().needs_delivery(transmission.chunk)) continue;
    stalled_.push_back({&path, transmission.channel, transmission.chunk, transmission.sent_at});
    return;
  }
}

void ChunkSender::settle_stalled(TimeNs now) {
  std::erase_if(stalled_, [&](const StalledChunk& one) {
    if (channels_.at(one.channel).send().needs_delivery(one.chunk)) return false;
    one.path->stall = std::max(one.path->stall, now - one.sent_at);
    return true;
  });
}

void ChunkSender::on_delivered(const Path& path, const Transmission& transmission,
                               uint64_t counted) {
  if (transmission.probe) return;
  R2CCL_CHECK(paths_[path.index] == &path);
  // Other copies are outstanding, or the chunk is acknowledged.
  if (!channels_.at(transmission.channel).send().copy_gone(transmission.chunk)) return;
  unlisted_.push_back({paths_[path.index], path.state.incarnation(), transmission.channel,
                       transmission.chunk, counted});
}

void ChunkSender::settle_unlisted(uint64_t version, const Contradicts& contradicts) {
  std::erase_if(unlisted_, [&](const Unlisted& one) {
    if (one.counted > version) return false;
    const SendLedger& send = channels_.at(one.channel).send();
    if (send.needs_delivery(one.chunk) && !send.peer_discards()) {
      retransmit_unlisted(one, contradicts);
    }
    return true;
  });
}

void ChunkSender::retransmit_unlisted(const Unlisted& lost, const Contradicts& contradicts) {
  if (mutated(Mutant::believe_the_path)) return;
  contradicts(*lost.path, lost.incarnation,
              "counts chunk " + std::to_string(lost.chunk.index) + " of message " +
                  std::to_string(lost.chunk.message.value()) + " of channel " +
                  std::to_string(lost.channel.value()) + " as received and does not list it");
  if (channels_.at(lost.channel).send().copies(lost.chunk) > 0) return;
  queue_.push_back({lost.channel, lost.chunk, nullptr, false});
}

void ChunkSender::cancel(ChannelId channel) {
  std::erase_if(queue_, [channel](const Retransmission& r) { return r.channel == channel; });
  note_load();
}

bool ChunkSender::refers_to(ChannelId channel) const {
  const auto of_channel = [channel](const auto& each) { return each.channel == channel; };
  const auto carries_it = [channel](const Path* path) {
    for (const Transmission& each : path->model.outstanding()) {
      if (!each.probe && each.channel == channel) return true;
    }
    return false;
  };
  return std::ranges::any_of(queue_, of_channel) || std::ranges::any_of(stalled_, of_channel) ||
         std::ranges::any_of(unlisted_, of_channel) || std::ranges::any_of(paths_, carries_it);
}

}  // namespace r2ccl
