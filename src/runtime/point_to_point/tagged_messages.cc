#include "runtime/point_to_point/tagged_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

// Credit goes back with every frame, or in one of its own once this much is due.
constexpr uint64_t kCreditDue = limits::kTaggedWholeBytes / 4;
// Rooms are as large as the largest frame.
constexpr size_t kRoomBytes = limits::kBufferedSendBytesMax;

std::string words_for(const TaggedFrame& message) {
  return std::to_string(message.bytes) + " bytes of " + to_string(message.type) + " with tag " +
         std::to_string(message.tag);
}

// Returns the first entry of the tag, or the end.
template <typename Tagged>
auto first_of(Tagged& all, int32_t tag) {
  const auto found = all.lower_bound(tag);
  return found != all.end() && found->first == tag ? found : all.end();
}

BufferUse use_of(bool sends, Rank peer, uint64_t number, int32_t tag,
                 std::span<const std::byte> bytes, const BadMemory& bad) {
  BufferUse use;
  use.call = (sends ? "SendTagged " : "RecvTagged ") + std::to_string(number) +
             (sends ? " to rank " : " from rank ") + std::to_string(peer.value()) + " with tag " +
             std::to_string(tag);
  use.buffer = sends ? "sendbuff" : "recvbuff";
  use.offset = offset_in(bytes.data(), bytes.size(), bad.at).value_or(0);
  use.bytes = bytes.size();
  return use;
}

}  // namespace

TaggedMessages::TaggedMessages(Rank self, ChannelId frames, ChannelId payloads,
                               std::vector<MessagePort*> ports)
    : self_(self),
      frame_channel_(frames),
      payload_channel_(payloads),
      ports_(std::move(ports)),
      peers_(ports_.size()),
      who_([](Rank rank) { return "rank " + std::to_string(rank.value()); }) {}

void TaggedMessages::open_channels() {
  if (frames_) return;
  frames_.emplace(self_, frame_channel_, ports_);
  payloads_.emplace(self_, payload_channel_, ports_);
  const auto diverged = [this](Rank peer, const Status& why) { refuse(peer, why.message()); };
  frames_->set_mismatch_handler(diverged);
  payloads_->set_mismatch_handler(diverged);
}

TaggedMessages::~TaggedMessages() {
  cancel(Status::in_any_case(Code::aborted, "the communicator was destroyed"));
}

TaggedMessages::Peer& TaggedMessages::at(Rank peer) {
  std::unique_ptr<Peer>& found = peers_[static_cast<size_t>(peer.value())];
  if (found == nullptr) found = std::make_unique<Peer>();
  return *found;
}

// --- sending
// ---------------------------------------------------------------------------------------

void TaggedMessages::send(Rank peer, std::span<const std::byte> bytes, DataType type, int32_t tag,
                          Done done) {
  if (!failure_.ok()) return done(failure_);
  Peer& to = at(peer);
  open_rooms(peer);
  const uint64_t number = to.sends++;
  Send send{bytes, type, tag, false, std::move(done)};
  if (to.held_back.empty() && send_whole(peer, number, send)) {
    return send.done(Status::ok_status());
  }
  to.sending.emplace(number, std::move(send));
  ++unfinished_;
  if (peer == self_) {
    return on_message(peer, {TaggedFrame::Kind::announce, type, tag, number, bytes.size()});
  }
  to.held_back.push_back(number);
  send_more(peer);
}

// Returns false when the message is too large, or has no credit.
bool TaggedMessages::send_whole(Rank peer, uint64_t number, const Send& send) {
  const uint64_t bytes = send.bytes.size();
  if (peer == self_ || bytes > kTaggedWholeMax) return false;
  Peer& to = at(peer);
  const uint64_t used = to.charged - to.given_back + charge_of(bytes);
  if (used > limits::kTaggedWholeBytes && !mutated(Mutant::tagged_no_credit)) return false;
  to.charged += charge_of(bytes);
  send_frame(peer, {.kind = TaggedFrame::Kind::whole,
                    .type = send.type,
                    .tag = send.tag,
                    .number = number,
                    .bytes = bytes,
                    .payload = send.bytes});
  return true;
}

// Sends the frames of messages that have none, in their order, as far as the bounds allow.
void TaggedMessages::send_more(Rank peer) {
  Peer& to = at(peer);
  while (!to.held_back.empty()) {
    const uint64_t number = to.held_back.front();
    const auto sending = to.sending.find(number);
    const Send& send = sending->second;
    if (send_whole(peer, number, send)) {
      const Done done = std::move(sending->second.done);
      to.held_back.pop_front();
      to.sending.erase(sending);
      --unfinished_;
      done(Status::ok_status());
      if (!failure_.ok()) return;
      continue;
    }
    if (to.announced == limits::kTaggedAnnouncedMax) return;
    to.held_back.pop_front();
    ++to.announced;
    send_frame(peer, {TaggedFrame::Kind::announce, send.type, send.tag, number, send.bytes.size()});
  }
}

void TaggedMessages::send_frame(Rank peer, TaggedFrame frame) {
  Peer& to = at(peer);
  frame.taken = to.taken_told = to.taken;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode(frame));
  frames_->send_frame(peer, *bytes, [bytes](const Status&) {});
}

void TaggedMessages::on_grant(Rank peer, const TaggedFrame& frame) {
  Peer& to = at(peer);
  const auto found = to.sending.find(frame.number);
  const bool announced = found != to.sending.end() && !found->second.granted &&
                         (to.held_back.empty() || frame.number < to.held_back.front());
  if (!announced) return refuse(peer, "grants a tagged message that does not wait for it");
  found->second.granted = true;
  --to.announced;
  const Send& send = found->second;
  payloads_->send(peer, send.bytes, send.type, [this, peer, number = frame.number](const Status&) {
    if (!failure_.ok()) return;
    Peer& other = at(peer);
    const auto ended = other.sending.find(number);
    const Done done = std::move(ended->second.done);
    other.sending.erase(ended);
    --unfinished_;
    done(Status::ok_status());
  });
  send_more(peer);
}

// --- frames that come
// ------------------------------------------------------------------------------

void TaggedMessages::open_rooms(Rank peer) {
  if (peer == self_ || !at(peer).rooms.empty()) return;
  open_channels();
  // After the end a room only shows that a message has come.
  for (size_t i = 0; i < (ended_ ? 1 : limits::kTaggedRooms); ++i) {
    auto room = std::make_unique<Room>();
    room->bytes = std::make_unique_for_overwrite<std::byte[]>(kRoomBytes);
    post_room(peer, std::move(room));
  }
}

void TaggedMessages::post_room(Rank peer, std::unique_ptr<Room> room) {
  Room* const posted = room.get();
  posted->full = false;
  at(peer).rooms.push_back(std::move(room));
  frames_->receive_frame(peer, {posted->bytes.get(), kRoomBytes},
                         [this, peer, posted](const Status&) {
                           if (!failure_.ok()) return;
                           posted->full = true;
                           empty_rooms(peer);
                         });
}

// Frames may complete in any order; they are handled in that of the peer's calls.
void TaggedMessages::empty_rooms(Rank peer) {
  std::deque<std::unique_ptr<Room>>& rooms = at(peer).rooms;
  while (failure_.ok()) {
    auto next = rooms.begin();
    if (mutated(Mutant::tagged_unordered)) {
      next = std::ranges::find_if(rooms, [](const auto& room) { return room->full; });
    }
    if (next == rooms.end() || !(*next)->full) return;
    std::unique_ptr<Room> room = std::move(*next);
    rooms.erase(next);
    on_frame(peer, {room->bytes.get(), kRoomBytes});
    if (failure_.ok()) post_room(peer, std::move(room));
  }
}

void TaggedMessages::on_frame(Rank peer, std::span<const std::byte> bytes) {
  const Result<TaggedFrame> decoded = decode_tagged_frame(bytes);
  if (!decoded.ok()) return refuse(peer, decoded.status().message());
  const TaggedFrame& frame = decoded.value();
  Peer& from = at(peer);
  if (frame.taken < from.given_back || frame.taken > from.charged) {
    return refuse(peer, "gives back credit that no tagged message has taken");
  }
  from.given_back = frame.taken;
  switch (frame.kind) {
    case TaggedFrame::Kind::whole:
    case TaggedFrame::Kind::announce:
      return on_message(peer, frame);
    case TaggedFrame::Kind::grant:
      return on_grant(peer, frame);
    case TaggedFrame::Kind::credit:
      return;
  }
}

void TaggedMessages::on_message(Rank peer, const TaggedFrame& message) {
  Peer& from = at(peer);
  if (message.number != from.messages++) return refuse(peer, "sends tagged messages out of order");
  const Open receive = first_of(from.open, message.tag);
  if (receive != from.open.end()) return match(peer, receive, message);
  if (ended_) return fail(unmatched(peer, message));
  keep(peer, message);
}

void TaggedMessages::keep(Rank peer, const TaggedFrame& message) {
  Peer& from = at(peer);
  if (message.kind == TaggedFrame::Kind::whole) {
    from.held += charge_of(message.bytes);
  } else {
    ++from.announced_here;
  }
  const bool bounded = from.held <= limits::kTaggedWholeBytes &&
                       (from.announced_here <= limits::kTaggedAnnouncedMax || peer == self_);
  if (!bounded) return refuse(peer, "sends tagged messages without credit");
  Message kept{message, {message.payload.begin(), message.payload.end()}};
  kept.frame.payload = kept.kept;
  from.unexpected.emplace(message.tag, std::move(kept));
}

// --- receiving
// -------------------------------------------------------------------------------------

void TaggedMessages::receive(Rank peer, std::span<std::byte> bytes, DataType type, int32_t tag,
                             ReceiveDone done) {
  if (!failure_.ok()) return done(failure_, 0);
  Peer& from = at(peer);
  open_rooms(peer);
  const Open open =
      from.open.emplace(tag, Receive{bytes, type, tag, ++from.receives, std::move(done)});
  ++unfinished_;
  const auto first = first_of(from.unexpected, tag);
  if (first == from.unexpected.end()) return;
  const Message message = std::move(first->second);
  from.unexpected.erase(first);
  if (message.frame.kind == TaggedFrame::Kind::whole) {
    from.held -= charge_of(message.frame.bytes);
  } else {
    --from.announced_here;
  }
  match(peer, open, message.frame);
}

void TaggedMessages::match(Rank peer, Open open, const TaggedFrame& message) {
  if (message.type != open->second.type || message.bytes > open->second.bytes.size()) {
    return fail(misfit(peer, open->second, message));
  }
  if (message.kind == TaggedFrame::Kind::whole) return take_whole(peer, open, message);
  if (peer == self_) return take_local(open, message);
  grant(peer, open, message);
}

Status TaggedMessages::misfit(Rank peer, const Receive& receive, const TaggedFrame& message) const {
  const std::string why = who_(peer) + " sends " + words_for(message) + " to " + who_(self_) +
                          ", whose Recv takes at most " + std::to_string(receive.bytes.size()) +
                          " bytes of " + to_string(receive.type);
  return Status(Code::invalid_usage, why).with_ranks({peer, self_});
}

void TaggedMessages::take_whole(Rank peer, Open open, const TaggedFrame& message) {
  Peer& from = at(peer);
  const Receive receive = std::move(open->second);
  from.open.erase(open);
  std::ranges::copy(message.payload.first(message.bytes), receive.bytes.begin());
  from.taken += charge_of(message.bytes);
  --unfinished_;
  receive.done(Status::ok_status(), message.bytes);
  // Last, because it may run out of memory.
  if (failure_.ok() && from.taken - from.taken_told >= kCreditDue) send_frame(peer, {});
}

void TaggedMessages::take_local(Open open, const TaggedFrame& message) {
  const Receive receive = std::move(open->second);
  at(self_).open.erase(open);
  std::map<uint64_t, Send>& sending = at(self_).sending;
  const auto found = sending.find(message.number);
  const Send send = std::move(found->second);
  sending.erase(found);
  unfinished_ -= 2;
  // memmove, because a rank may send a buffer to the same place.
  if (message.bytes > 0) {
    std::memmove(receive.bytes.data(), send.bytes.data(), message.bytes);
  }
  send.done(Status::ok_status());
  receive.done(Status::ok_status(), message.bytes);
}

void TaggedMessages::grant(Rank peer, Open open, const TaggedFrame& message) {
  const auto target = open->second.bytes.first(message.bytes);
  const DataType type = open->second.type;
  // The receive is in one of both at any time, so that cancel() finds it.
  at(peer).granted.emplace(message.number, std::move(open->second));
  at(peer).open.erase(open);
  const auto done = [this, peer, number = message.number, bytes = message.bytes](const Status&) {
    if (!failure_.ok()) return;
    std::map<uint64_t, Receive>& granted = at(peer).granted;
    const auto found = granted.find(number);
    const ReceiveDone ended = std::move(found->second.done);
    granted.erase(found);
    --unfinished_;
    ended(Status::ok_status(), bytes);
  };
  payloads_->receive(peer, target, type, done);
  send_frame(peer, {.kind = TaggedFrame::Kind::grant, .number = message.number});
}

// --- the end
// ---------------------------------------------------------------------------------------

Status TaggedMessages::end() {
  ended_ = true;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Rank peer(static_cast<int32_t>(rank));
    open_rooms(peer);
    const auto& unexpected = at(peer).unexpected;
    if (!unexpected.empty()) return unmatched(peer, unexpected.begin()->second.frame);
  }
  return {};
}

Status TaggedMessages::unmatched(Rank peer, const TaggedFrame& message) const {
  const std::string why =
      who_(self_) + " finalizes without a Recv for " + words_for(message) + " from " + who_(peer);
  return Status(Code::invalid_usage, why).with_ranks({self_, peer});
}

void TaggedMessages::set_failure_handler(FailureHandler handler,
                                         std::function<std::string(Rank)> who) {
  on_failure_ = std::move(handler);
  who_ = std::move(who);
}

void TaggedMessages::fail(const Status& why) {
  if (on_failure_) on_failure_(why);
  cancel(why);
}

void TaggedMessages::refuse(Rank peer, const std::string& what) {
  const std::string why = who_(peer) + " breaks the protocol of tagged messages: it " + what;
  fail(Status(Code::remote, why).with_ranks({peer}));
}

void TaggedMessages::cancel(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  if (frames_) frames_->cancel(failure_);
  if (payloads_) payloads_->cancel(failure_);
  abandon(why);
}

// One after the other: each operation is either still there or has ended.
void TaggedMessages::abandon(const Status& why) noexcept {
  if (failure_.ok()) failure_ = why;
  if (frames_) frames_->abandon(failure_);
  if (payloads_) payloads_->abandon(failure_);
  const auto end_receives = [this](auto& receives) {
    while (!receives.empty()) {
      const auto ended = receives.extract(receives.begin());
      --unfinished_;
      ended.mapped().done(failure_, 0);
    }
  };
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer == nullptr) continue;
    peer->held_back.clear();
    peer->unexpected.clear();
    peer->rooms.clear();
    peer->announced = peer->announced_here = 0;
    peer->held = 0;
    while (!peer->sending.empty()) {
      const auto ended = peer->sending.extract(peer->sending.begin());
      --unfinished_;
      ended.mapped().done(failure_);
    }
    end_receives(peer->open);
    end_receives(peer->granted);
  }
}

// --- for reports
// -----------------------------------------------------------------------------------

size_t TaggedMessages::unmatched_local() const {
  const Peer* self = find(self_);
  return self == nullptr ? 0 : self->sending.size() + self->open.size();
}

uint64_t TaggedMessages::sends_to(Rank peer) const {
  const Peer* to = find(peer);
  return to == nullptr ? 0 : to->sends;
}

uint64_t TaggedMessages::receives_from(Rank peer) const {
  const Peer* from = find(peer);
  return from == nullptr ? 0 : from->receives;
}

bool TaggedMessages::lacks_receive(Rank peer, uint64_t number) const {
  const Peer* to = find(peer);
  if (to == nullptr) return false;
  const auto found = to->sending.find(number - 1);
  return found != to->sending.end() && !found->second.granted;
}

bool TaggedMessages::lacks_send(Rank peer, int32_t tag, uint64_t number) const {
  const Peer* from = find(peer);
  if (from == nullptr) return false;
  const auto [first, last] = from->open.equal_range(tag);
  return std::any_of(first, last, [&](const auto& one) { return one.second.number == number; });
}

std::string TaggedMessages::unmet_receive(Rank peer, uint64_t sends) const {
  const Peer* from = find(peer);
  if (from == nullptr || from->open.empty() || from->messages < sends) return "";
  const Receive& unmet = from->open.begin()->second;
  return "RecvTagged " + std::to_string(unmet.number) + " (tag " + std::to_string(unmet.tag) +
         ") from it";
}

std::vector<Rank> TaggedMessages::waits_on() const {
  std::vector<Rank> needed;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer* peer = peers_[rank].get();
    if (peer == nullptr || Rank(static_cast<int32_t>(rank)) == self_) continue;
    if (peer->sending.empty() && peer->open.empty() && peer->granted.empty()) continue;
    needed.emplace_back(static_cast<int32_t>(rank));
  }
  return needed;
}

std::optional<BufferUse> TaggedMessages::find_buffer(const BadMemory& bad) const {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer* all = peers_[rank].get();
    if (all == nullptr) continue;
    const Rank peer(static_cast<int32_t>(rank));
    if (bad.access == Access::read) {
      for (const auto& [number, send] : all->sending) {
        if (!offset_in(send.bytes.data(), send.bytes.size(), bad.at)) continue;
        return use_of(true, peer, number + 1, send.tag, send.bytes, bad);
      }
      continue;
    }
    for (const auto& [number, receive] : all->granted) {
      if (!offset_in(receive.bytes.data(), receive.bytes.size(), bad.at)) continue;
      return use_of(false, peer, receive.number, receive.tag, receive.bytes, bad);
    }
  }
  return std::nullopt;
}

BufferUse TaggedMessages::use_by_next(Rank peer, int32_t tag, std::span<const std::byte> bytes,
                                      const BadMemory& bad) const {
  const bool sends = bad.access == Access::read;
  const uint64_t before = sends ? sends_to(peer) : receives_from(peer);
  return use_of(sends, peer, before + 1, tag, bytes, bad);
}

void TaggedMessages::check_invariants() const {
  uint64_t unfinished = 0;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer == nullptr) continue;
    unfinished += peer->sending.size() + peer->open.size() + peer->granted.size();
    R2CCL_CHECK(peer->held_back.size() + peer->announced <= peer->sending.size());
    R2CCL_CHECK(peer->given_back <= peer->charged && peer->taken_told <= peer->taken);
    R2CCL_CHECK(peer->held <= limits::kTaggedWholeBytes);
    for (const auto& [tag, receive] : peer->open) R2CCL_CHECK(!peer->unexpected.contains(tag));
  }
  R2CCL_CHECK(unfinished == unfinished_);
}

}  // namespace r2ccl
