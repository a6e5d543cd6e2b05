#include "sim/cluster/data_path_check.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "runtime/link/path.h"

namespace r2ccl::sim {
namespace {

using Placement = ReceiveLedger::Placement;

constexpr size_t kViolationsMax = 20;

// An empty message may have a null pointer, which memcmp does not accept.
bool same(const std::byte* a, const std::byte* b, size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

// Calls `each` with the touched part of every slice.
template <typename Each>
void for_each_touched(std::span<const iovec> slices, size_t bytes, const Each& each) {
  for (const iovec& slice : slices) {
    const size_t part = std::min(bytes, slice.iov_len);
    if (part == 0) return;
    const auto* begin = static_cast<const std::byte*>(slice.iov_base);
    each(begin, begin + part);
    bytes -= part;
  }
}

}  // namespace

std::string DataPathCheck::describe(const Name& name) {
  return "message " + std::to_string(name.number.value()) + " of channel " +
         std::to_string(name.channel.value()) + " from rank " + std::to_string(name.from.value()) +
         " to rank " + std::to_string(name.to.value());
}

void DataPathCheck::violated(const std::string& what) {
  if (violations_.size() >= kViolationsMax) return;
  char time[48];
  std::snprintf(time, sizeof(time), "%.6f s: ", static_cast<double>(clock_.now()) / 1e9);
  violations_.push_back(time + what);
}

void DataPathCheck::violated(const Name& name, const std::string& what) {
  violated(describe(name) + ": " + what);
}

// --- memory
// ---------------------------------------------------------------------------------------

void DataPathCheck::add_live(Live& live, const Range& range, const Name& name) {
  if (range.begin == range.end) return;
  longest_ = std::max(longest_, range.end - range.begin);
  live.emplace(range.end, name);
  remember(range);
}

void DataPathCheck::remove_live(Live& live, const Range& range, const Name& name) {
  const auto [first, last] = live.equal_range(range.end);
  const auto found = std::find_if(first, last, [&](const auto& one) { return one.second == name; });
  if (found != last) live.erase(found);
}

void DataPathCheck::remember(const Range& range) {
  const std::byte* begin = range.begin;
  const std::byte* end = range.end;
  auto next = known_.lower_bound(begin);
  while (next != known_.end() && next->second <= end) {
    begin = std::min(begin, next->second);
    end = std::max(end, next->first);
    next = known_.erase(next);
  }
  known_[end] = begin;
}

void DataPathCheck::forget(std::span<const std::byte> bytes) {
  const std::byte* begin = bytes.data();
  const std::byte* end = begin + bytes.size();
  auto next = known_.upper_bound(begin);
  while (next != known_.end() && next->second < end) {
    const Range whole{next->second, next->first};
    next = known_.erase(next);
    if (whole.begin < begin) known_[begin] = whole.begin;
    if (whole.end > end) known_[whole.end] = end;
  }
}

bool DataPathCheck::known(const Range& touched) const {
  const auto next = known_.upper_bound(touched.begin);
  return next != known_.end() && next->second < touched.end;
}

template <typename Fits>
bool DataPathCheck::inside(const Live& live, const Range& touched, const Fits& fits) const {
  for (auto it = live.lower_bound(touched.end); it != live.end(); ++it) {
    if (it->first - touched.end > longest_) return false;
    if (fits(messages_.at(it->second))) return true;
  }
  return false;
}

void DataPathCheck::on_write(std::span<const iovec> slices, size_t bytes) {
  for_each_touched(slices, bytes, [this](const std::byte* begin, const std::byte* end) {
    const Range touched{begin, end};
    if (!known(touched)) return;
    const auto fits = [&](const Message& open) { return open.source.begin <= begin; };
    if (inside(sources_, touched, fits)) return;
    violated("a kernel was given bytes of a buffer that no unfinished send needs");
  });
}

void DataPathCheck::on_read(std::span<const iovec> slices, size_t bytes) {
  for_each_touched(slices, bytes, [this](const std::byte* begin, const std::byte* end) {
    const Range touched{begin, end};
    if (!known(touched)) return;
    const auto fits = [&](const Message& open) { return may_land(open, touched); };
    if (inside(targets_, touched, fits)) return;
    violated("bytes were put where no unfinished receive, or an accepted chunk, has its place");
  });
}

bool DataPathCheck::may_land(const Message& open, const Range& touched) {
  if (open.target.begin > touched.begin || open.chunk_bytes == 0) return false;
  const auto first = static_cast<uint64_t>(touched.begin - open.target.begin);
  const auto last = static_cast<uint64_t>(touched.end - open.target.begin);
  const uint64_t chunk = first / open.chunk_bytes * open.chunk_bytes;
  const auto hit = open.accepted.lower_bound(chunk);
  return hit == open.accepted.end() || *hit >= last;
}

// --- messages
// -------------------------------------------------------------------------------------

void DataPathCheck::check_unused(Rank self, const Link& link) {
  if (used_.contains(std::minmax(self, link.peer()))) return;
  const bool any =
      std::ranges::any_of(link.paths(), [](const Path* path) { return path->has_data(); });
  if (!any) return;
  violated("rank " + std::to_string(self.value()) + " has a data connection to rank " +
           std::to_string(link.peer().value()) + ", and no message for it");
}

void DataPathCheck::on_post_send(LinkEnd at, ChannelId channel, MessageNo number,
                                 std::span<const std::byte> bytes, bool standing) {
  on_messages(at);
  const Name name{at.self, at.peer, channel, number};
  uint64_t& next = sends_[{at.self, at.peer, channel}];
  if (number.value() != next++) violated(name, "its number is not the next one");
  Message& one = message(name);
  one.standing = standing;
  one.sending = true;
  one.source = {bytes.data(), bytes.data() + bytes.size()};
  one.content.assign(bytes.begin(), bytes.end());
  add_live(sources_, one.source, name);
}

void DataPathCheck::on_sent(LinkEnd at, ChannelId channel, MessageNo number) {
  const Name name{at.self, at.peer, channel, number};
  Message& one = message(name);
  if (!one.sending) return violated(name, "its send ended twice");
  if (!same(one.source.begin, one.content.data(), one.content.size())) {
    violated(name, "its source changed before it was sent");
  }
  one.sending = false;
  remove_live(sources_, one.source, name);
  forget_own(one, one.source);
  retire_if_over(name);
}

void DataPathCheck::on_post_receive(LinkEnd at, ChannelId channel, MessageNo number,
                                    std::span<std::byte> bytes, bool standing) {
  if (!standing) on_messages(at);
  const Name name{at.peer, at.self, channel, number};
  uint64_t& next = receives_[{at.peer, at.self, channel}];
  if (number.value() != next++) violated(name, "its receive's number is not the next one");
  Message& one = message(name);
  one.standing = standing;
  one.posted = true;
  one.target = {bytes.data(), bytes.data() + bytes.size()};
  early_[{at.peer, at.self, channel}] -= one.early_bytes;
  eager_returned_[{at.peer, at.self, channel}] += one.early_bytes;
  one.early_bytes = 0;
  add_live(targets_, one.target, name);
}

void DataPathCheck::on_received(LinkEnd at, ChannelId channel, MessageNo number) {
  const Name name{at.peer, at.self, channel, number};
  Message& one = message(name);
  if (!one.posted || one.received) return violated(name, "it was received, and should not be");
  const auto room = static_cast<uint64_t>(one.target.end - one.target.begin);
  const uint64_t size = one.standing ? std::min<uint64_t>(room, one.content.size()) : room;
  if (one.accepted_bytes != size) violated(name, "it is complete, and bytes of it are missing");
  if (one.content.size() != size || !same(one.target.begin, one.content.data(), size)) {
    violated(name, "what was received is not what was sent");
  }
  one.received = true;
  remove_live(targets_, one.target, name);
  forget_own(one, one.target);
  retire_if_over(name);
}

void DataPathCheck::on_cancel(LinkEnd at, ChannelId channel) {
  cancelled_.insert({at.self, at.peer, channel});
  cancelled_.insert({at.peer, at.self, channel});
  for (auto& [name, one] : messages_) {
    if (name.channel != channel) continue;
    if (name.from == at.self && name.to == at.peer) {
      remove_live(sources_, one.source, name);
      if (one.sending) forget_own(one, one.source);
    }
    if (name.to == at.self && name.from == at.peer) {
      remove_live(targets_, one.target, name);
      if (!one.received) forget_own(one, one.target);
    }
  }
}

// The bytes of a message to a standing receive are the library's own memory, which it may use again
// for anything.
void DataPathCheck::forget_own(const Message& one, const Range& range) {
  if (one.standing) forget({range.begin, range.end});
}

// Keeps the content for a while, because copies of its chunks may still be in flight.
void DataPathCheck::retire_if_over(const Name& name) {
  const Message& one = messages_.at(name);
  if (!one.received || one.sending) return;
  retired_.push_back(name);
  retired_bytes_ += one.content.size();
  while (retired_bytes_ > kRetiredBytesMax) {
    const auto oldest = messages_.find(retired_.front());
    retired_bytes_ -= oldest->second.content.size();
    messages_.erase(oldest);
    retired_.pop_front();
  }
}

// --- chunks
// ---------------------------------------------------------------------------------------

void DataPathCheck::on_transmit(LinkEnd at, const Path& path, const DataHeader& header,
                                std::span<const std::byte> payload) {
  if (path.model.frames_sent() == 0 || !path.probe_received()) {
    violated("rank " + std::to_string(at.self.value()) +
             " sends a chunk on a connection that full-size frames have not passed");
  }
  const Name name{at.self, at.peer, header.channel, header.message};
  const auto found = messages_.find(name);
  if (found == messages_.end()) return;  // the message is retired
  Message& one = found->second;
  const bool first = one.transmitted.insert(header.offset).second;
  seen_.resent += first ? 0 : 1;
  if (first) check_permission(name, one, header);
  if (header.offset + payload.size() > one.content.size() ||
      !same(payload.data(), one.content.data() + header.offset, payload.size())) {
    violated(name, "bytes are sent that were not posted, or have changed since");
  }
  if (path.state.incarnation() == Incarnation{}) violated(name, "it is sent on no connection");
}

// Each first copy needs a posted receive, or space in the eager pool of the receiver.
void DataPathCheck::check_permission(const Name& name, const Message& one,
                                     const DataHeader& header) {
  if (!header.eager) {
    if (!one.posted) violated(name, "it is sent without credit, no receive being posted");
    return;
  }
  const Direction direction{name.from, name.to, name.channel};
  uint64_t& sent = eager_sent_[direction];
  sent += header.payload_bytes;
  const uint64_t returned = eager_returned_[direction];
  if (sent > limits::kEagerBytes + returned) {
    violated(name, "it is sent without credit: " + std::to_string(sent) + " bytes eagerly, and " +
                       std::to_string(returned) + " were given back");
  }
}

void DataPathCheck::on_report(LinkEnd at, const Path& path, const PathReport& report) {
  if (report.incarnation == path.state.incarnation()) return;
  violated("rank " + std::to_string(at.self.value()) + " believes what rank " +
           std::to_string(at.peer.value()) + " says of a connection that is over");
}

void DataPathCheck::on_place(LinkEnd at, const Path& path, const DataHeader& header,
                             const ReceiveLedger::Place& place) {
  const Name name{at.peer, at.self, header.channel, header.message};
  if (header.incarnation != path.state.incarnation()) {
    violated(name, "a frame of an old incarnation is taken");
  }
  if (header.transmission != path.frames_received()) {
    violated(name, "a frame is taken that is not the next one of its stream");
  }
  const auto found = messages_.find(name);
  if (found == messages_.end()) {
    if (place.placement != Placement::discard) violated(name, "it came back after its end");
    return;
  }
  Message& one = found->second;
  const bool accepted = one.accepted.contains(header.offset);
  if (place.placement == Placement::discard) {
    if (!accepted && !refused(name)) violated(name, "a chunk that is needed is thrown away");
    return;
  }
  if (accepted) violated(name, "a second copy of an accepted chunk gets a place");
  one.chunk_bytes = header.chunk_bytes;
  if (place.placement != Placement::early &&
      place.destination != one.target.begin + header.offset) {
    violated(name, "a chunk gets the wrong place");
  }
}

void DataPathCheck::on_arrive(LinkEnd at, const Path&, const DataHeader& header, bool discarded,
                              bool fresh) {
  const Name name{at.peer, at.self, header.channel, header.message};
  const auto found = messages_.find(name);
  if (found == messages_.end()) {
    if (fresh) violated(name, "it was accepted again after its end");
    ++seen_.duplicates;
    ++seen_.late;
    return;
  }
  Message& one = found->second;
  if (!fresh) {
    if (!one.accepted.contains(header.offset) && !refused(name) && !discarded) {
      violated(name, "a first copy is taken for a duplicate");
    }
    ++seen_.duplicates;
    seen_.late += one.received ? 1 : 0;
    return;
  }
  ++seen_.chunks;
  if (!one.accepted.insert(header.offset).second) violated(name, "a chunk is accepted twice");
  if (one.received) violated(name, "a chunk is accepted after the end of its message");
  one.accepted_bytes += header.payload_bytes;
  if (one.posted && header.eager) {
    eager_returned_[{name.from, name.to, name.channel}] += header.payload_bytes;
  }
  one.posted ? check_landed(name, one, header) : hold_early(name, one, header);
}

void DataPathCheck::check_landed(const Name& name, const Message& one, const DataHeader& header) {
  const std::byte* landed = one.target.begin + header.offset;
  if (!same(landed, one.content.data() + header.offset, header.payload_bytes)) {
    violated(name, "a chunk is accepted whose bytes are not in their place");
  }
}

void DataPathCheck::hold_early(const Name& name, Message& one, const DataHeader& header) {
  ++seen_.early;
  one.early_bytes += header.payload_bytes;
  uint64_t& held = early_[{name.from, name.to, name.channel}];
  held += header.payload_bytes;
  seen_.early_bytes_max = std::max(seen_.early_bytes_max, held);
  if (held > limits::kEagerBytes) violated(name, "more is held early than the pool has");
}

}  // namespace r2ccl::sim
