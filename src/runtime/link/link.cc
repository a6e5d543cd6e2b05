// Construction, the MessagePort side, completions and the end of a link.
#include "runtime/link/link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutant.h"

namespace r2ccl {

Link::Link(LinkHost& host, Rank self, Rank peer, const std::vector<PathSpec>& paths,
           const LinkSettings& settings)
    : host_(host), self_(self), peer_(peer), settings_(settings), death_evidence_(paths.size()) {
  for (const PathSpec& spec : paths) {
    PathSlot slot;
    slot.path = std::make_unique<Path>(static_cast<Path::Owner&>(*this), spec, host.scratch(),
                                       settings.damping);
    slot.dialer = std::make_unique<PathDialer>(static_cast<PathDialer::Owner&>(*this),
                                               host.reactor(), host.transport(), host.run());
    if (!spec.lane_only) slot.pace_sender = host.pace(spec.local_nic).add_sender();
    slots_.push_back(std::move(slot));
  }
}

Link::~Link() = default;

Link::Channel& Link::channel(ChannelId id) {
  const auto found = channels_.find(id);
  R2CCL_CHECK(found != channels_.end());
  return *found->second;
}

Link::Channel& Link::add_channel(ChannelId id) {
  R2CCL_CHECK(channels_.size() < limits::kChannelsMax);
  channel_order_.push_back(id);
  return *channels_.emplace(id, std::make_unique<Channel>(id)).first->second;
}

// The channel that the peer speaks of. It may have opened it first, but not any number of them.
Result<Link::Channel*> Link::heard_channel(ChannelId id) {
  if (const auto found = channels_.find(id); found != channels_.end()) return found->second.get();
  const auto unopened =
      std::ranges::count_if(channels_, [](const auto& entry) { return !entry.second->opened; });
  if (static_cast<size_t>(unopened) >= limits::kChannelsUnopenedMax ||
      channels_.size() >= limits::kChannelsMax) {
    return Status(Code::remote, "channel " + std::to_string(id.value()) +
                                    ", beyond what may be used before it is opened here");
  }
  return &add_channel(id);
}

Path* Link::find(PathId id) {
  for (Path* path : paths()) {
    if (path->spec.id == id) return path;
  }
  return nullptr;
}

size_t Link::index_of(const Path& path) const {
  size_t index = 0;
  while (slots_[index].path.get() != &path) ++index;
  return index;
}

void Link::open_channel(ChannelId id, MessageClient& client) {
  const auto found = channels_.find(id);
  Channel& opened = found != channels_.end() ? *found->second : add_channel(id);
  R2CCL_CHECK(!opened.opened);
  opened.opened = true;
  opened.client = &client;
}

MessageNo Link::post_send(ChannelId id, std::span<const std::byte> bytes, uint64_t context) {
  R2CCL_CHECK(bytes.size() <= limits::kMessageBytesMax);
  touch();
  Channel& source = channel(id);
  source.hastened = false;
  const SendLedger::Posted posted = source.send.post(bytes, context);
  if (posted.buffered || mutated(Mutant::complete_before_acknowledged)) {
    completions_.push_back({Ended::sent, id, posted.number, {}});
  }
  return posted.number;
}

MessageNo Link::post_receive(ChannelId id, std::span<std::byte> bytes, uint64_t context) {
  Channel& target = channel(id);
  const ReceiveLedger::Posted posted = target.receive.post(bytes, context);
  if (!posted.mismatch.ok()) {
    completions_.push_back({Ended::mismatch, id, posted.number, posted.mismatch});
  } else if (posted.complete) {
    completions_.push_back({Ended::received, id, posted.number, {}});
  }
  changed();
  // Small messages come eagerly; the sender of a large one is waiting for this.
  if (bytes.size() > limits::kBufferedSendBytesMax) state_.mark_urgent();
  target.changed_version = state_.version();
  return posted.number;
}

void Link::hasten_sends(ChannelId id) {
  channel(id).hastened = true;
  touch();
}

// After what could be sent was sent.
void Link::end_hastened_sends() {
  std::vector<SendLedger::Posted> ended;
  for (const auto& [id, open] : channels_) {
    if (!open->hastened) continue;
    ended.clear();
    open->hastened = !open->send.buffer_rest(ended);
    if (ended.empty()) continue;
    // Half-written frames still refer to the client's bytes.
    for (Path* path : paths()) {
      if (!mutated(Mutant::no_keep)) path->keep(id);
    }
    for (const auto& message : ended) completions_.push_back({Ended::sent, id, message.number, {}});
    touch();
  }
}

void Link::cancel_channel(ChannelId id) {
  Channel& target = channel(id);
  target.client = nullptr;
  for (Path* path : paths()) {
    path->keep(id);
    path->redirect(id);
  }
  target.send.cancel();
  target.receive.cancel();
  changed();
  target.changed_version = state_.version();  // the peer need not wonder where its chunks go
  std::erase_if(resend_, [id](const Resend& r) { return r.channel == id; });
  std::erase_if(completions_, [id](const Completion& c) { return c.channel == id; });
  touch();
}

void Link::send_notice(Notice notice) {
  R2CCL_CHECK(notice.bytes.size() <= limits::kNoticeBytesMax);
  const bool more = notices_.pending() > 0;
  notices_.set(std::move(notice));
  // The kernel of a peer that reads nothing would keep each frame. The next repetition of the state
  // carries this notice, or the first frame after the peer has applied the earlier ones.
  if (more && unheard(now()) > limits::kStateResendMax) return;
  changed();
  state_.mark_urgent();
}

void Link::deliver_completions() {
  // Clients post more from inside their callbacks, which may complete at once.
  while (!completions_.empty()) {
    std::vector<Completion> batch;
    batch.swap(completions_);
    for (const Completion& ended : batch) {
      MessageClient* client = channel(ended.channel).client;
      if (client == nullptr) continue;  // cancelled by an earlier callback of this batch
      switch (ended.what) {
        case Ended::sent:
          client->on_sent(peer_, ended.channel, ended.number);
          break;
        case Ended::received:
          client->on_received(peer_, ended.channel, ended.number);
          break;
        case Ended::mismatch:
          client->on_mismatch(peer_, ended.channel, ended.why);
          break;
      }
    }
  }
}

void Link::progress(TimeNs now, TimeNs idle_ns) {
  dirty_ = false;
  report_bad_memory();
  if (peer_end_) return deliver_completions();
  act_on_breaks(now);
  tell_contradiction();
  deliver_completions();
  resume_paused(now);
  health(now, idle_ns);
  rest_drained();
  dispatch(now);
  end_hastened_sends();
  if (goodbye_wanted_) check_goodbye();
  control(now);
}

TimeNs Link::next_timeout(TimeNs now) const {
  if (peer_end_) return kNever;
  TimeNs next = state_.next_timeout();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Path& path = *slots_[i].path;
    if (path.paused()) {
      next = std::min(next, path.paused_until());
      continue;
    }
    next = std::min(next, slots_[i].dialer->next_timeout());
    if (!path.state.connected()) {
      const bool dials = opens_paths() || goodbye_received_ || all_down_since_ != 0;
      if (dials && !slots_[i].dialer->busy()) next = std::min(next, path.returns.next_attempt());
      continue;
    }
    // The lane of a peer that has been stopped for long is full, and says so when it no longer is.
    if (path.lane_ready() && asked_at_ == 0) {
      next = std::min(next, path.health.last_sent_at + limits::kHeartbeatInterval);
    }
    if (!settings_.monitor) continue;
    if (path.state.phase() == PathPhase::proving) {
      next = std::min(next, now + 20 * kMillisecond);
      continue;
    }
    next = std::min(next, std::max(std::min(overdue_at(path), lane_overdue_at(path)), next_ask_));
    if (path.state.phase() == PathPhase::suspect) next = std::min(next, now + 5 * kMillisecond);
  }
  if (no_data_since_ != 0) next = std::min(next, no_data_since_ + settings_.cutoff);
  if (all_down_since_ != 0) next = std::min(next, now + 20 * kMillisecond);
  if (asked_at_ != 0) next = std::min(next, now + 50 * kMillisecond);
  return next;
}

TimeNs Link::stall_of(PathId id) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].path->spec.id == id) return slots_[i].stall;
  }
  return 0;
}

bool Link::ready() const {
  return std::ranges::any_of(
      paths(), [](const Path* path) { return !path->spec.lane_only && path->state.usable(); });
}

void Link::set_remote(NicId remote_nic, const std::vector<Address>& addresses, uint16_t port) {
  for (Path* path : paths()) {
    if (path->spec.remote_nic != remote_nic) continue;
    const auto same_family = std::find_if(
        addresses.begin(), addresses.end(),
        [&](const Address& a) { return a.family == path->spec.remote.address.family; });
    if (same_family == addresses.end()) continue;
    path->spec.remote = {*same_family, port};
    path->spec.remote.address.scope = path->spec.source.scope;
    path->returns.on_news(now());
    touch();
  }
}

void Link::set_source(NicId local_nic, const std::vector<Address>& addresses) {
  for (Path* path : paths()) {
    if (path->spec.local_nic != local_nic) continue;
    const auto same_family =
        std::find_if(addresses.begin(), addresses.end(),
                     [&](const Address& a) { return a.family == path->spec.source.family; });
    if (same_family == addresses.end()) continue;
    path->spec.source = *same_family;
    path->returns.on_news(now());
    touch();
  }
}

// Called from inside reads and writes, where no channel can be cancelled.
void Link::on_bad_memory(const BadMemory& bad) {
  bad_memory_ = bad;
  touch();
}

void Link::report_bad_memory() {
  const std::optional<BadMemory> bad = std::exchange(bad_memory_, std::nullopt);
  if (bad) host_.on_bad_memory(*bad);
}

// A shortage is this host's: nothing that is under way is the later for it, on any path.
void Link::resume_paused(TimeNs at) {
  bool any = false;
  for (Path* path : paths()) any = path->resume(at) || any;
  if (any) excuse(limits::kShortagePause);
}

void Link::begin_goodbye() {
  goodbye_wanted_ = true;
  touch();
}

void Link::check_goodbye() {
  if (goodbye_sent_) return;
  for (const auto& [id, open] : channels_) {
    if (mutated(Mutant::part_early)) break;
    if (!open->send.idle() || (!open->receive.idle() && !open->receive.cancelled())) return;
  }
  if (notices_.pending() > 0) return;
  goodbye_sent_ = true;
  changed();
  state_.mark_urgent();
  goodbye_version_ = state_.version();
}

bool Link::goodbye_done() const {
  if (peer_end_) return true;
  // The peer has ours and we have the peer's; that the peer knows the latter is its own affair: at
  // worst it finds its connections closed and no listener where this end was.
  return goodbye_sent_ && goodbye_received_ && state_.acknowledged() >= goodbye_version_ &&
         state_.peer_informed();
}

// Returns what was under way.
std::deque<Transmission> Link::detach(Path& path, DownCause cause, TimeNs at) {
  host_.queue(path.spec.local_nic).on_lost(path.model.bytes_outstanding());
  return path.detach(cause, at);
}

void Link::end_peer(PeerEnd end, const std::string& why) {
  if (peer_end_) return;
  peer_end_ = end;
  const TimeNs at = now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].dialer->cancel();
    slots_[i].pending_data.reset();
    (void)detach(*slots_[i].path, DownCause::closing, at);
  }
  touch();
  host_.on_peer_end(peer_, end, why);
}

}  // namespace r2ccl
