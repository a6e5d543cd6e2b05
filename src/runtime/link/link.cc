// Construction, the MessagePort side, progress and the end of a link.
#include "runtime/link/link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {

Link::Link(LinkHost& host, Rank self, Rank peer, const std::vector<PathSpec>& paths,
           const LinkSettings& settings)
    : host_(host),
      end_{self, peer},
      settings_(settings),
      paths_(host, end_, paths, settings_, *this, *this),
      heartbeats_({paths_.with_relay().begin(), paths_.with_relay().end()}, paths_.opens(),
                  settings_.links, static_cast<size_t>(self.value() + peer.value())),
      sender_(host, end_, settings_, channels_, paths_.scheduler(),
              {paths_.with_relay().begin(), paths_.with_relay().end()},
              [this](const Path& path, TimeNs now) { return take_state(path, now); }) {}

void Link::changed() {
  state_.bump_version();
  wake();
}

void Link::wake() {
  if (std::exchange(dirty_, true)) return;
  host_.wake(end_.peer);
}

void Link::open_channel(ChannelId id, MessageClient& client, Rank peer) {
  Channel* known = channels_.find(id);
  // The peer has ended the communicator before this end has made it.
  if (known != nullptr && std::exchange(known->closing, false)) --closing_;
  channels_.open(id, client, peer);
}

void Link::prefer_nic(ChannelId id, NicId nic) {
  channels_.at(id).home = &host_.queue(nic);
}

// A context may open its channels one after the other. The peer may be ahead in others.
bool Link::has_room(size_t others) const {
  return channels_.contexts().all + others < limits::kContextsMax;
}

void Link::discard(ContextId context) {
  for (uint64_t place = 0; place < kChannelsOfContext; ++place) {
    const Channel* channel = channels_.find(channel_of(context, place));
    if (channel != nullptr && !channel->cancelled()) {
      cancel_channel(channel_of(context, place));
    }
  }
  // One is enough: hear() adds the others when the peer uses them.
  if (!channels_.has(context)) add_cancelled(channel_of(context, 0));
}

// The peer learns that chunks of the channel may be counted and never be listed. Returns null if
// there is no room for it: then they are thrown away all the same.
Channel* Link::add_cancelled(ChannelId id) {
  Channel* added = channels_.add_cancelled(id);
  if (added == nullptr) return nullptr;
  changed();
  added->changed_version = state_.version();
  return added;
}

bool Link::idle(ContextId context) const {
  for (uint64_t place = 0; place < kChannelsOfContext; ++place) {
    const Channel* channel = channels_.find(channel_of(context, place));
    if (channel != nullptr && !channel->idle()) return false;
  }
  return true;
}

void Link::close(ContextId context) {
  for (uint64_t place = 0; place < kChannelsOfContext; ++place) {
    const ChannelId id = channel_of(context, place);
    Channel* channel = channels_.find(id);
    if (channel == nullptr || channel->closing) continue;
    if (!channel->cancelled()) cancel_channel(id);
    channel->closing = true;
    ++closing_;
  }
  wake();
}

// A chunk that was acknowledged may have copies on their way: those that this end has sent, and one
// that a path reads. Later ones are not heard, because the host knows the context as closed.
void Link::forget_closed() {
  const auto is_unused = [this](ChannelId id) {
    const auto reads = [id](const Path* path) { return path->reads_chunk_of(id); };
    return !std::ranges::any_of(paths(), reads) && !sender_.refers_to(id);
  };
  for (size_t i = 0; i < channels_.all().size();) {
    const auto& [id, channel] = channels_.all()[i];
    if (channel->closing && (is_unused(id) || mutated(Mutant::forget_at_once))) {
      channels_.remove(id);
      --closing_;
    } else {
      ++i;
    }
  }
}

// Returns the channel that the peer names; null: its messages there are thrown away.
Result<Channel*> Link::hear(ChannelId id) {
  if (Channel* known = channels_.find(id); known != nullptr) return &known->use();
  if (!channels_.has(context_of(id))) {
    host_.on_new_context(context_of(id), end_.peer);
    if (Channel* opened = channels_.find(id); opened != nullptr) return &opened->use();
  }
  const bool closed = host_.is_closed(context_of(id), end_.peer);
  if (!closed || mutated(Mutant::closed_heard)) return channels_.heard(id);
  return channels_.has(context_of(id)) ? add_cancelled(id) : nullptr;
}

// The other end learns of it at once: the lower rank dials, whichever has the messages.
void Link::expect_messages() {
  if (!paths_.want_data()) return;
  changed();
  state_.mark_urgent();
}

MessageNo Link::post_send(ChannelId id, std::span<const std::byte> bytes, uint64_t context) {
  R2CCL_CHECK(bytes.size() <= limits::kMessageBytesMax);
  if (!paths_.wants_data()) expect_messages();
  wake();
  Channel& source = channels_.at(id).use();
  source.releasing = false;
  const SendLedger::Posted posted = source.send().post(bytes, context);
  sender_.note_load();
  if (posted.buffered || mutated(Mutant::complete_before_acknowledged)) {
    channels_.complete_send(source, posted.number);
  }
  return posted.number;
}

MessageNo Link::post(ChannelId id, const ReceiveLedger::Receive& receive) {
  if (!paths_.wants_data() && !receive.standing) expect_messages();
  Channel& target = channels_.at(id).use();
  const ReceiveLedger::Posted posted = target.receive().post(receive);
  if (!posted.mismatch.ok()) {
    channels_.complete_mismatch(target, posted.number, posted.mismatch);
  } else if (posted.complete) {
    channels_.complete_receive(target, posted.number, posted.message_bytes);
  }
  changed();
  // Small messages are sent eagerly, so the sender waits for room in the eager pool alone. The
  // sender of a large one waits for this receive.
  state_.on_freed(posted.freed_bytes);
  const bool large = receive.bytes.size() > limits::kBufferedSendBytesMax;
  if (large) sender_.note_receive();
  if (large || state_.much_unreported()) state_.mark_urgent();
  target.changed_version = state_.version();
  return posted.number;
}

void Link::release_send_buffers(ChannelId id) {
  channels_.at(id).use().releasing = true;
  wake();
}

// Runs after dispatch: it copies only the bytes that no path has taken.
void Link::copy_remainders() {
  std::vector<SendLedger::Posted> ended;
  for (const auto& [id, channel] : channels_.all()) {
    if (!channel->releasing) continue;
    ended.clear();
    channel->releasing = !channel->send().copy_remainder(ended);
    if (ended.empty()) continue;
    // Half-written frames still refer to the client's bytes.
    for (Path* path : paths()) {
      if (!mutated(Mutant::no_keep)) path->copy_remainder(id);
    }
    for (const auto& message : ended) {
      channels_.complete_send(*channel, message.number);
    }
    wake();
  }
}

void Link::cancel_channel(ChannelId id) {
  Channel& target = channels_.at(id);
  target.client = nullptr;
  for (Path* path : paths()) {
    path->copy_remainder(id);
    if (!mutated(Mutant::no_release)) path->release_payloads();
    path->discard_remainder(id);
  }
  target.cancel();
  changed();
  target.changed_version = state_.version();  // tells the peer where its chunks go
  sender_.cancel(id);
  channels_.forget_completions(target);
}

void Link::send_notice(Notice notice) {
  const bool more = notices_.pending() > 0;
  notices_.set(std::move(notice));
  // The kernel of a peer that reads nothing would keep each frame. The next retransmission of the
  // state carries this notice, or the first frame after the peer has applied the earlier ones.
  if (more && paths_.detector().unheard(now()) > limits::kStateResendMax) return;
  changed();
  state_.mark_urgent();
}

bool Link::send_last(ControlFrame& frame, std::vector<std::byte>& memory) {
  if (peer_end_) return true;
  frame.notices.front().number = notices_.next();
  return paths_.send_last(frame, memory);
}

void Link::progress(TimeNs now, TimeNs idle_ns) {
  dirty_ = false;
  if (const auto bad = std::exchange(bad_memory_, std::nullopt)) host_.on_bad_memory(*bad);
  if (peer_end_) return channels_.deliver_completions();
  paths_.act_on_breaks(now);
  tell_contradiction();
  const size_t most = idle_ns > limits::kPauseThreshold ? SIZE_MAX : settings_.completions_per_pass;
  channels_.deliver_completions(most);
  // Everything that has arrived counts before a decision that the peer is gone.
  if (!channels_.all_delivered()) return wake();
  paths_.progress(now, idle_ns);
  if (sender_.dispatch(now)) wake();
  copy_remainders();
  if (goodbye_.wanted) check_goodbye();
  if (closing_ > 0) forget_closed();
  send_due_frames(now);
}

TimeNs Link::next_timeout(TimeNs now) const {
  if (peer_end_) return kNever;
  TimeNs next = std::min(state_.next_timeout(), paths_.next_timeout(now));
  // The control stream of a peer that has been stopped for long is full. Its poller reports when it
  // has room again.
  if (paths_.detector().pinged()) return next;
  const bool any = std::ranges::any_of(
      paths(), [](const Path* path) { return path->control_writable() && !path->paused(); });
  return any ? std::min(next, heartbeats_.next_at()) : next;
}

bool Link::ping(NicId local_nic) {
  wake();
  return paths_.ping(local_nic);
}

bool Link::has_unsent() const {
  if (peer_end_) return false;
  return dirty_ || channels_.fresh_bytes() > 0 || sender_.retransmits() ||
         std::ranges::any_of(paths(), [](const Path* path) {
           return path->has_data() && !path->can_start_frame();
         });
}

void Link::on_path_event(const PathEvent& event) {
  state_.mark_urgent();
  host_.on_path_event(event);
}

// Called from inside reads and writes, where no channel can be cancelled.
void Link::on_bad_memory(const BadMemory& bad) {
  bad_memory_ = bad;
  wake();
}

void Link::begin_goodbye() {
  goodbye_.wanted = true;
  wake();
}

void Link::check_goodbye() {
  if (goodbye_.sent) return;
  if (!mutated(Mutant::part_early) && !channels_.idle()) return;
  if (notices_.pending() > 0) return;
  goodbye_.sent = true;
  changed();
  state_.mark_urgent();
  goodbye_.version = state_.version();
}

bool Link::goodbye_done() const {
  if (peer_end_) return true;
  // Each end has the other's goodbye. This end need not know that the peer has that state too: at
  // worst the peer finds its connections closed and no listener here.
  return goodbye_told() && goodbye_.received && state_.peer_informed() && all_delivered();
}

void Link::on_peer_gone(const PeerLiveness::End& end) {
  peer_end_ = end.end;
  paths_.close(now());
  wake();
  host_.on_peer_end(end_.peer, end.end, end.why);
}

void Link::check_invariants() const {
  state_.check_invariants();
  paths_.check_invariants();
  heartbeats_.check_invariants();
  channels_.check_invariants();
  notices_.check_invariants();
  contradictions_.check_invariants();
  for (const auto& [id, channel] : channels_.all()) {
    R2CCL_CHECK(channel->changed_version <= state_.version());
  }
  R2CCL_CHECK(!goodbye_.sent || goodbye_.wanted);
  R2CCL_CHECK(goodbye_.version <= state_.version());
}

void Link::check_idle_until(TimeNs deadline, TimeNs at) const {
  if (dirty_) return;
  R2CCL_CHECK(channels_.all_delivered());
  R2CCL_CHECK(!bad_memory_);
  R2CCL_CHECK(
      std::ranges::none_of(paths(), [](const Path* path) { return path->broken.has_value(); }));
  // Chunks of other links that are delivered meanwhile may shorten a shared NIC's queue.
  const TimeNs due = std::max(next_timeout(at), at);
  R2CCL_CHECK(deadline == kNever ? due == kNever
                                 : deadline - FailureDetector::kSharedNicInterval <= due);
}

}  // namespace r2ccl
