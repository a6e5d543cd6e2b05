#include "protocol/delivery/receive_ledger.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "base/ordered_copy.h"

namespace r2ccl {

namespace {

void copy(const ReceiveLedger::Receive& receive, uint64_t offset,
          std::span<const std::byte> early) {
  R2CCL_CHECK(offset + early.size() <= receive.bytes.size());
  std::byte* const to = receive.bytes.data() + offset;
  if (receive.standing) {
    copy_in_order(to, early);
  } else {
    std::memcpy(to, early.data(), early.size());
  }
}

}  // namespace

// Returns the message at this index, which may be the first mention of it.
ReceiveLedger::Open& ReceiveLedger::open_up_to(size_t index) {
  while (index >= open_.size()) open_.emplace_back();
  return open_[index];
}

ReceiveLedger::Posted ReceiveLedger::post(const Receive& receive) {
  Posted result;
  result.number = next_post_;
  next_post_ = next(next_post_);
  const size_t index = result.number.value() - low_water_.value();
  Open& open = open_up_to(index);
  open.receive = receive;
  open.posted = true;
  if (!open.known) return result;
  result.mismatch = check_match(open, result.number);
  for (auto& [chunk, early] : open.early) {
    if (!early.empty() && !open.mismatched) {
      const uint64_t offset = uint64_t{chunk} * open.chunk_bytes;
      copy(receive, offset, early);
    }
    early_bytes_ -= early.size();
    eager_total_ += early.size();
    result.freed_bytes += early.size();
    spare_.give(std::move(early));
  }
  open.early.clear();
  result.complete = open.complete();
  result.message_bytes = open.message_bytes;
  advance();
  return result;
}

Status ReceiveLedger::check_match(Open& open, MessageNo number) {
  std::string why;
  const Receive& receive = open.receive;
  const bool shorter = receive.standing && open.message_bytes < receive.bytes.size();
  if (open.message_bytes != receive.bytes.size() && !shorter) {
    why = " has " + std::to_string(open.message_bytes) + " bytes, but " +
          std::to_string(receive.bytes.size()) + " are expected here";
  } else if (open.sender_context != receive.context && !receive.standing) {
    why = " belongs to another operation there";
  } else {
    return {};
  }
  open.mismatched = true;
  discards_ = true;
  return {Code::invalid_usage, "message " + std::to_string(number.value()) + why};
}

Status ReceiveLedger::learn(Open& open, MessageNo number, const DataHeader& header) {
  if (open.known) {
    const bool same = open.message_bytes == header.message_bytes &&
                      open.chunk_bytes == header.chunk_bytes &&
                      open.sender_context == header.context;
    return same ? Status()
                : Status(Code::remote, "a chunk contradicts earlier chunks of its message");
  }
  const uint64_t chunks =
      header.message_bytes == 0
          ? 1
          : (header.message_bytes + header.chunk_bytes - 1) / header.chunk_bytes;
  if (chunks > UINT32_MAX) return {Code::remote, "a message with too many chunks"};
  // Before a receive is posted, nothing confirms the size, so the size must allocate no memory. The
  // eager pool bounds the bytes that the sender can have sent.
  const bool fits = open.posted || chunks <= limits::kMessageBytesMax / limits::kChunkBytesMin;
  if (!fits) return {Code::remote, "an early message is larger than any message may be"};
  open.known = true;
  open.message_bytes = header.message_bytes;
  open.sender_context = header.context;
  open.chunk_bytes = header.chunk_bytes;
  if (open.posted) R2CCL_RETURN_IF_ERROR(check_match(open, number));
  open.accepted = ChunkSet(static_cast<uint32_t>(chunks));
  return {};
}

Result<ReceiveLedger::Place> ReceiveLedger::place(const DataHeader& header) {
  if (cancelled_ || header.message < low_water_) return Place{};
  const uint64_t index = header.message.value() - low_water_.value();
  if (index >= messages_ahead_) {
    return Status(Code::remote, "a message number far beyond the open messages");
  }
  Open& open = open_up_to(index);
  R2CCL_RETURN_IF_ERROR(learn(open, header.message, header));
  const auto chunk =
      header.chunk_bytes == 0 ? 0 : static_cast<uint32_t>(header.offset / header.chunk_bytes);
  if (open.mismatched) return Place{};
  if (open.accepted.contains(chunk) && !mutated(Mutant::accept_every_copy)) return Place{};
  if (open.posted) {
    return Place{open.receive.standing ? Placement::in_order : Placement::direct,
                 open.receive.bytes.data() + header.offset};
  }
  if (!header.eager || early_bytes_ + header.payload_bytes > eager_limit_) {
    return Status(Code::remote, "bytes that no receive and no eager pool permits");
  }
  Place place{Placement::early, nullptr, spare_.take(header.payload_bytes)};
  place.early.resize(header.payload_bytes);
  return place;
}

ReceiveLedger::Accepted ReceiveLedger::accept(const DataHeader& header,
                                              std::vector<std::byte> early, uint64_t version) {
  if (cancelled_ || header.message < low_water_) return {};
  const uint64_t index = header.message.value() - low_water_.value();
  R2CCL_CHECK(index < open_.size() && open_[index].known);
  Open& open = open_[index];
  R2CCL_CHECK(version >= open.changed);
  const auto chunk =
      header.chunk_bytes == 0 ? 0 : static_cast<uint32_t>(header.offset / header.chunk_bytes);
  if (open.mismatched) return {};
  if (!open.accepted.insert(chunk) && !mutated(Mutant::accept_every_copy)) return {};
  open.changed = version;
  if (!open.posted) {
    early_bytes_ += early.size();
    open.early.emplace_back(chunk, std::move(early));
    return {true, false};
  }
  if (!early.empty()) {  // posted while the early copy was still arriving
    copy(open.receive, header.offset, early);
    spare_.give(std::move(early));
  }
  if (header.eager) eager_total_ += header.payload_bytes;
  const bool complete = open.complete();
  advance();
  return {true, complete};
}

void ReceiveLedger::advance() {
  while (!open_.empty() && open_.front().complete()) {
    open_.pop_front();
    low_water_ = next(low_water_);
  }
}

PartialMessage ReceiveLedger::partial(size_t index) const {
  PartialMessage partial;
  partial.message = MessageNo(low_water_.value() + index);
  partial.prefix = open_[index].accepted.prefix();
  partial.bitmap = open_[index].accepted.bitmap(limits::kAckBitmapChunks / 8);
  return partial;
}

ChannelReport ReceiveLedger::report(uint64_t since, uint64_t up_to) const {
  ChannelReport report;
  report.channel = channel_;
  report.low_water = low_water_;
  report.posted = next_post_;
  report.eager_total = eager_total_;
  report.discards = discards_;
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].changed > since && open_[i].changed <= up_to) report.partial.push_back(partial(i));
  }
  return report;
}

void ReceiveLedger::changes(uint64_t since, std::vector<Change>& out) const {
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].changed > since) out.push_back({open_[i].changed, encoded_bytes(partial(i))});
  }
}

void ReceiveLedger::cancel() {
  cancelled_ = true;
  discards_ = true;
  open_.clear();
  early_bytes_ = 0;
  spare_.clear();
}

bool ReceiveLedger::idle() const {
  return std::none_of(open_.begin(), open_.end(), [](const Open& open) {
    const bool awaited = open.posted && (open.known || !open.receive.standing);
    return awaited && !open.complete();
  });
}

void ReceiveLedger::check_open(const Open& open) const {
  if (!open.known) return R2CCL_CHECK(open.accepted.count() == 0 && open.early.empty());
  R2CCL_CHECK(!open.posted || open.early.empty());
  R2CCL_CHECK(!open.mismatched || discards_);
  R2CCL_CHECK(open.accepted.size() == 0 || open.changed != 0);
  open.accepted.check_invariants();
}

void ReceiveLedger::check_invariants() const {
  uint64_t early_bytes = 0;
  MessageNo number = low_water_;
  for (const Open& open : open_) {
    check_open(open);
    for (const auto& [chunk, bytes] : open.early) early_bytes += bytes.size();
    R2CCL_CHECK(cancelled_ || open.posted == (number < next_post_));
    number = next(number);
  }
  R2CCL_CHECK(early_bytes == early_bytes_);
  R2CCL_CHECK(low_water_ <= next_post_);
  R2CCL_CHECK(open_.empty() || !open_.front().complete());
  R2CCL_CHECK(eager_total_ >= eager_limit_);
  R2CCL_CHECK(!cancelled_ || discards_);
  spare_.check_invariants();
}

}  // namespace r2ccl
