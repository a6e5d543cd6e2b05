#include "protocol/delivery/send_ledger.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

template <typename T>
constexpr T round_up(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

uint32_t chunk_cut(uint64_t message_bytes, size_t path_count, uint64_t chunk_bytes) {
  // Equal chunks, the same number for each path: paths that are equally fast finish together.
  const uint64_t share = message_bytes / std::max<size_t>(path_count, 1);
  const uint64_t chunks_per_path = share / std::max<uint64_t>(chunk_bytes, 1) + 1;
  const uint64_t wanted =
      std::clamp<uint64_t>(share / chunks_per_path, limits::kChunkBytesMin, limits::kChunkBytesMax);
  return static_cast<uint32_t>(std::min<uint64_t>(
      round_up<uint64_t>(wanted, limits::kChunkAlignment), limits::kChunkBytesMax));
}

SendLedger::Posted SendLedger::post(std::span<const std::byte> bytes, uint64_t context) {
  const MessageNo number(first_.value() + open_.size());
  Open& open = open_.emplace_back();
  open.data = bytes.data();
  open.size = bytes.size();
  open.context = context;
  fresh_bytes_ += open.size;
  if (open.size <= limits::kBufferedSendBytesMax) buffer(open, 0);
  return {number, open.buffered()};
}

void SendLedger::buffer(Open& open, uint64_t from) {
  R2CCL_CHECK(from <= open.size);
  const uint64_t bytes = open.size - from;
  if (bytes == 0 || buffered_bytes_ + bytes > limits::kBufferedBytesPerChannel) return;
  open.buffer = spare_.take(bytes);
  open.buffer.assign(open.data + from, open.data + open.size);
  open.buffered_from = from;
  open.data = nullptr;
  buffered_bytes_ += bytes;
}

void SendLedger::reuse_retired() {
  for (std::vector<std::byte>& memory : retired_) spare_.give(std::move(memory));
  retired_.clear();
}

bool SendLedger::copy_remainder(std::vector<Posted>& ended) {
  if (cursor_ < open_.size()) return false;
  bool all = true;
  for (size_t i = 0; i < open_.size(); ++i) {
    Open& open = open_[i];
    if (open.complete || open.buffered()) continue;
    if (open.in_place && !mutated(Mutant::complete_in_place)) {
      all = false;
      continue;
    }
    buffer(open, uint64_t{open.acknowledged.prefix()} * open.chunk_bytes);
    all = all && open.buffered();
    if (open.buffered()) ended.push_back({MessageNo(first_.value() + i), true});
  }
  return all;
}

SendLedger::Open* SendLedger::find(MessageNo message) {
  if (message < first_ || message.value() - first_.value() >= open_.size()) return nullptr;
  return &open_[message.value() - first_.value()];
}

const SendLedger::Open* SendLedger::find(MessageNo message) const {
  return const_cast<SendLedger*>(this)->find(message);
}

void SendLedger::cut(Open& open, uint32_t chunk_bytes) {
  R2CCL_CHECK(chunk_bytes > 0);
  // The receiver may have accepted a chunk of the old cut.
  R2CCL_CHECK(open.next_fresh == 0 || mutated(Mutant::recut));
  if (open.context == kNoContext)
    chunk_bytes = round_up(chunk_bytes, limits::kPolledChunkAlignment);
  open.chunk_bytes = chunk_bytes;
  // A message of no bytes is one chunk of no bytes, because it must still arrive.
  const uint64_t chunks = std::max<uint64_t>((open.size + chunk_bytes - 1) / chunk_bytes, 1);
  R2CCL_CHECK(chunks <= UINT32_MAX);
  open.acknowledged = ChunkSet(static_cast<uint32_t>(chunks));
  open.sent = SmallArray<Sent, 8>(chunks);
}

uint64_t SendLedger::chunk_size(const Open& open, uint32_t index) {
  const uint64_t offset = uint64_t{index} * open.chunk_bytes;
  return std::min<uint64_t>(open.chunk_bytes, open.size - offset);
}

uint64_t SendLedger::next_message_bytes() const {
  return cursor_ < open_.size() ? open_[cursor_].size : 0;
}

std::optional<ChunkRef> SendLedger::next_fresh(uint32_t chunk_bytes) {
  if (cursor_ >= open_.size()) return std::nullopt;
  const MessageNo number(first_.value() + cursor_);
  if (too_far_ahead(number)) return std::nullopt;
  Open& open = open_[cursor_];
  const bool recut = mutated(Mutant::recut) && open.chunk_bytes != chunk_bytes;
  if (open.chunk_bytes == 0 || recut) cut(open, chunk_bytes);
  if (open.next_fresh >= open.acknowledged.prefix() + limits::kAckBitmapChunks) return std::nullopt;
  const uint64_t size = chunk_size(open, open.next_fresh);
  const bool permitted = number < posted_ || eager_used_ + size <= eager_total_;
  if (!permitted && !mutated(Mutant::no_permission)) return std::nullopt;
  return ChunkRef{number, open.next_fresh};
}

// Returns whether the receiver would refuse the message. The receiver refuses messages that are
// this far beyond its own low-water mark, so the sender must count from the same mark. The
// receiver's mark only rises, so the sender's copy of it is safe.
bool SendLedger::too_far_ahead(MessageNo number) const {
  const MessageNo from = mutated(Mutant::own_low_water) ? first_ : receiver_low_water_;
  return number.value() - from.value() >= messages_ahead_;
}

DataHeader SendLedger::transmit(ChunkRef chunk) {
  Open* open = find(chunk.message);
  R2CCL_CHECK(open != nullptr && open->chunk_bytes != 0 && !open->complete);
  R2CCL_CHECK(chunk.index < open->acknowledged.count() && chunk.index <= open->next_fresh);
  Sent& sent = open->sent[chunk.index];
  R2CCL_CHECK(sent.copies < UINT8_MAX);
  const uint64_t size = chunk_size(*open, chunk.index);
  if (chunk.index == open->next_fresh) {
    if (chunk.message >= posted_) {
      sent.eager = true;
      eager_used_ += size;
    }
    fresh_bytes_ -= size;
    if (++open->next_fresh == open->acknowledged.count()) ++cursor_;
  }
  ++sent.copies;
  DataHeader header;
  header.eager = sent.eager;
  header.payload_bytes = static_cast<uint32_t>(size);
  header.channel = channel_;
  header.message = chunk.message;
  header.message_bytes = open->size;
  header.offset = uint64_t{chunk.index} * open->chunk_bytes;
  header.chunk_bytes = open->chunk_bytes;
  header.context = open->context;
  return header;
}

std::span<const std::byte> SendLedger::bytes(ChunkRef chunk) const {
  const Open* open = find(chunk.message);
  R2CCL_CHECK(open != nullptr && chunk.index < open->acknowledged.count());
  const uint64_t offset = uint64_t{chunk.index} * open->chunk_bytes;
  const uint64_t size = chunk_size(*open, chunk.index);
  if (!open->buffered()) return {open->data + offset, size};
  R2CCL_CHECK(offset >= open->buffered_from);
  return {open->buffer.data() + (offset - open->buffered_from), size};
}

void SendLedger::keep_source(MessageNo message) {
  Open* open = find(message);
  R2CCL_CHECK(open != nullptr);
  open->in_place = !open->buffered();
}

bool SendLedger::copy_gone(ChunkRef chunk) {
  Open* open = find(chunk.message);
  if (open == nullptr || open->complete) return false;
  Sent& sent = open->sent[chunk.index];
  R2CCL_CHECK(sent.copies > 0);
  return --sent.copies == 0 && !open->acknowledged.contains(chunk.index);
}

bool SendLedger::needs_delivery(ChunkRef chunk) const {
  const Open* open = find(chunk.message);
  return open != nullptr && !open->complete && !open->acknowledged.contains(chunk.index);
}

uint32_t SendLedger::copies(ChunkRef chunk) const {
  const Open* open = find(chunk.message);
  return open == nullptr || open->complete ? 0 : open->sent[chunk.index].copies;
}

Status SendLedger::apply(const ChannelReport& report, std::vector<Posted>& completed) {
  reuse_retired();
  // All messages before the cursor were sent whole (or cancelled), and none after it.
  if (report.low_water.value() > first_.value() + cursor_) {
    return {Code::remote, "acknowledges all messages below " +
                              std::to_string(report.low_water.value()) + " of channel " +
                              std::to_string(channel_.value()) + ", of which some were never sent"};
  }
  receiver_low_water_ = std::max(receiver_low_water_, report.low_water);
  posted_ = std::max(posted_, report.posted);
  eager_total_ = std::max(eager_total_, report.eager_total);
  peer_discards_ = peer_discards_ || report.discards;
  for (const PartialMessage& partial : report.partial) {
    R2CCL_RETURN_IF_ERROR(apply_partial(partial, completed));
  }
  retire(completed, report.low_water);
  return {};
}

Status SendLedger::never_sent(const PartialMessage& partial) const {
  return {Code::remote, "acknowledges chunks of message " +
                            std::to_string(partial.message.value()) + " of channel " +
                            std::to_string(channel_.value()) + " that were never sent"};
}

Status SendLedger::apply_partial(const PartialMessage& partial, std::vector<Posted>& completed) {
  if (partial.message.value() > first_.value() + cursor_) {
    return never_sent(partial);
  }
  Open* open = find(partial.message);
  if (open == nullptr || open->complete) return {};
  const uint64_t bits = partial.bitmap.size() * 8;
  const auto acknowledge = [&](uint64_t chunk) {
    if (chunk >= open->next_fresh) return false;
    open->acknowledged.insert(static_cast<uint32_t>(chunk));
    return true;
  };
  for (uint64_t chunk = open->acknowledged.prefix(); chunk < partial.prefix; ++chunk) {
    if (!acknowledge(chunk)) return never_sent(partial);
  }
  for (uint64_t bit = 0; bit < bits; ++bit) {
    if ((partial.bitmap[bit / 8] & static_cast<std::byte>(1u << (bit % 8))) == std::byte{0})
      continue;
    if (!acknowledge(partial.prefix + bit)) return never_sent(partial);
  }
  if (open->chunk_bytes != 0 && open->acknowledged.full()) {
    complete(*open, partial.message, completed);
  }
  return {};
}

void SendLedger::complete(Open& open, MessageNo number, std::vector<Posted>& completed) {
  open.complete = true;
  completed.push_back({number, open.buffered()});
  buffered_bytes_ -= open.buffer.size();
  // A half-written frame may still refer to the buffer until the caller has handled `completed`.
  if (open.buffered()) retired_.push_back(std::move(open.buffer));
}

void SendLedger::retire(std::vector<Posted>& completed, MessageNo low_water) {
  while (!open_.empty() && (open_.front().complete || first_ < low_water)) {
    if (!open_.front().complete) complete(open_.front(), first_, completed);
    open_.pop_front();
    if (!mutated(Mutant::reuse_number) || first_.value() % 8 != 5) first_ = next(first_);
    if (cursor_ > 0) --cursor_;
  }
}

void SendLedger::cancel() {
  first_ = MessageNo(first_.value() + open_.size());
  open_.clear();
  spare_.clear();
  cursor_ = 0;
  fresh_bytes_ = 0;
  buffered_bytes_ = 0;
  cancelled_ = true;
}

void SendLedger::check_open(const Open& open) {
  R2CCL_CHECK(open.next_fresh <= open.acknowledged.count());
  R2CCL_CHECK(open.acknowledged.size() <= open.next_fresh);
  R2CCL_CHECK(open.sent.size() == open.acknowledged.count());
  R2CCL_CHECK(!open.buffered() ||
              (open.data == nullptr && open.buffered_from + open.buffer.size() == open.size));
  R2CCL_CHECK(!open.complete || open.acknowledged.full());
  open.acknowledged.check_invariants();
}

void SendLedger::check_invariants() const {
  uint64_t fresh = 0;
  uint64_t buffered = 0;
  size_t i = 0;
  for (const Open& open : open_) {
    fresh += open.fresh();
    buffered += open.buffer.size();
    if (i <= cursor_) check_open(open);
    R2CCL_CHECK(open.all_sent() == (i < cursor_));
    R2CCL_CHECK(open.next_fresh == 0 || i <= cursor_);
    ++i;
  }
  R2CCL_CHECK(cursor_ <= open_.size());
  R2CCL_CHECK(fresh == fresh_bytes_);
  R2CCL_CHECK(buffered == buffered_bytes_ && buffered <= limits::kBufferedBytesPerChannel);
  spare_.check_invariants();
  R2CCL_CHECK(eager_used_ <= eager_total_ || mutated(Mutant::no_permission));
  R2CCL_CHECK(receiver_low_water_.value() <= first_.value() + cursor_ ||
              mutated(Mutant::reuse_number));
}

}  // namespace r2ccl
