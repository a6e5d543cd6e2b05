#include "runtime/link/channels.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// Messages up to this size overtake larger ones of other channels.
constexpr uint64_t kSmallMessage = 32 * 1024;
// Byte credit that a channel gets when its turn comes.
constexpr int64_t kQuantum = 256 * 1024;

}  // namespace

void Channel::make_ledgers() {
  ledgers_ = std::make_unique<Ledgers>(id);
  if (cancelled_) cancel();
}

void Channel::cancel() {
  cancelled_ = true;
  if (!used()) return;
  send().cancel();
  receive().cancel();
}

ChannelReport Channel::report(uint64_t since, uint64_t up_to) const {
  if (used()) return receive().report(since, up_to);
  ReceiveLedger unused(id, limits::kEagerBytes);
  if (cancelled_) unused.cancel();
  return unused.report(since, up_to);
}

Channel& ChannelSet::at(ChannelId id) {
  Channel* found = find(id);
  R2CCL_CHECK(found != nullptr);
  return *found;
}

const Channel& ChannelSet::at(ChannelId id) const {
  return const_cast<ChannelSet*>(this)->at(id);
}

Channel* ChannelSet::find(ChannelId id) const {
  const auto found = std::ranges::lower_bound(channels_, id, {}, &Entry::first);
  return found != channels_.end() && found->first == id ? found->second.get() : nullptr;
}

Channel& ChannelSet::add(ChannelId id) {
  R2CCL_CHECK(channels_.size() < limits::kChannelsMax);
  auto made = std::make_unique<Channel>(id);
  if (channels_.size() == channels_.capacity()) {
    // Twice the room would be much for the many links of a rank.
    channels_.reserve(channels_.size() + kChannelsOfContext);
    order_.reserve(channels_.capacity());
  }
  const auto place = std::ranges::lower_bound(channels_, id, {}, &Entry::first);
  order_.push_back(channels_.emplace(place, id, std::move(made))->second.get());
  return *order_.back();
}

void ChannelSet::open(ChannelId id, MessageClient& client, Rank peer) {
  Channel* found = find(id);
  Channel& opened = found != nullptr ? *found : add(id);
  R2CCL_CHECK(!opened.opened);
  opened.opened = true;
  opened.client = &client;
  opened.peer = peer;
}

void ChannelSet::remove(ChannelId id) {
  const auto found = std::ranges::lower_bound(channels_, id, {}, &Entry::first);
  R2CCL_CHECK(found != channels_.end() && found->first == id);
  forget_completions(*found->second);
  std::erase(order_, found->second.get());
  channels_.erase(found);
  cursor_ = 0;
}

Result<Channel*> ChannelSet::heard(ChannelId id) {
  if (Channel* found = find(id); found != nullptr) return &found->use();
  const bool ahead = !has(context_of(id)) && contexts().unopened >= limits::kContextsUnopenedMax;
  if (ahead || channels_.size() >= limits::kChannelsMax) {
    return Status(Code::remote, "channel " + std::to_string(id.value()) +
                                    ", beyond what may be used before it is opened here");
  }
  return &add(id).use();
}

bool ChannelSet::has(ContextId context) const {
  const auto first = std::ranges::lower_bound(channels_, channel_of(context, 0), {}, &Entry::first);
  return first != channels_.end() && context_of(first->first) == context;
}

Channel* ChannelSet::add_cancelled(ChannelId id) {
  if (channels_.size() >= limits::kChannelsMax) return nullptr;
  Channel& added = add(id).use();
  added.cancel();
  return &added;
}

ChannelSet::Contexts ChannelSet::contexts() const {
  Contexts contexts;
  for (size_t i = 0; i < channels_.size();) {
    const ContextId context = context_of(channels_[i].first);
    bool opened = false;
    for (; i < channels_.size() && context_of(channels_[i].first) == context; ++i) {
      opened = opened || channels_[i].second->opened || channels_[i].second->cancelled();
    }
    ++contexts.all;
    if (!opened) ++contexts.unopened;
  }
  return contexts;
}

bool ChannelSet::idle() const {
  return std::ranges::all_of(channels_, [](const auto& entry) { return entry.second->idle(); });
}

bool ChannelSet::sends() const {
  return std::ranges::any_of(channels_, [](const auto& each) {
    return each.second->used() && !each.second->send().idle();
  });
}

bool ChannelSet::receives() const {
  return std::ranges::any_of(channels_, [](const auto& each) {
    const Channel& channel = *each.second;
    return channel.used() && !channel.cancelled() && !channel.receive().idle();
  });
}

ChannelSet::Fresh ChannelSet::next_fresh(const PathScheduler& scheduler, TimeNs now) {
  Fresh large;
  for (size_t i = 0; i < order_.size(); ++i) {
    const size_t place = (cursor_ + i) % order_.size();
    Channel& candidate = *order_[place];
    if (!candidate.used() || candidate.send().messages_waiting() == 0) continue;
    const uint64_t message = candidate.send().next_message_bytes();
    uint32_t cut = 0;
    if (candidate.send().needs_cut()) {
      cut = scheduler.chunk_bytes(message, candidate.send().messages_waiting(), now);
      if (cut == 0) continue;
    }
    const auto chunk = candidate.send().next_fresh(cut);
    if (!chunk) continue;
    if (message <= kSmallMessage) return {&candidate, *chunk};
    if (large.from == nullptr) {
      large = {&candidate, *chunk};
      if (candidate.quantum <= 0) {
        candidate.quantum = kQuantum;
        cursor_ = (place + 1) % order_.size();
      }
    }
  }
  return large;
}

uint64_t ChannelSet::fresh_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, channel] : channels_) {
    if (channel->used()) bytes += channel->send().fresh_bytes();
  }
  return bytes;
}

void ChannelSet::forget_completions(const Channel& channel) {
  completions_.erase_if([&](const Completion& c) { return c.channel == &channel; });
}

void ChannelSet::deliver_completions(size_t most) {
  // A client's callback may post more, and that may complete at once.
  for (; most > 0 && !completions_.empty(); --most) {
    const Completion ended = std::move(completions_.front());
    completions_.pop_front();
    MessageClient* client = ended.channel->client;
    if (client == nullptr) continue;  // cancelled
    const ChannelId id = ended.channel->id;
    switch (ended.what) {
      case Ended::sent:
        client->on_sent(ended.channel->peer, id, ended.number);
        break;
      case Ended::received:
        client->on_received(ended.channel->peer, id, ended.number, ended.bytes);
        break;
      case Ended::mismatch:
        client->on_mismatch(ended.channel->peer, id, ended.why);
        break;
    }
  }
}

void ChannelSet::check_invariants() const {
  R2CCL_CHECK(order_.size() == channels_.size());
  R2CCL_CHECK(channels_.size() <= limits::kChannelsMax);
  R2CCL_CHECK(order_.empty() || cursor_ < order_.size());
  for (const auto& [id, channel] : channels_) {
    R2CCL_CHECK(channel->id == id);
    R2CCL_CHECK(channel->opened || channel->client == nullptr);
    if (!channel->used()) continue;
    R2CCL_CHECK(channel->cancelled() == channel->receive().cancelled());
    channel->send().check_invariants();
    channel->receive().check_invariants();
  }
}

}  // namespace r2ccl
