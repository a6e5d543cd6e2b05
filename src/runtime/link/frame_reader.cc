#include "runtime/link/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "base/ordered_copy.h"

namespace r2ccl {

using Placement = ReceiveLedger::Placement;

std::byte* FrameReader::payload_target() {
  switch (place_.placement) {
    case Placement::direct:
      return place_.destination + payload_have_;
    case Placement::in_order:
      return staging_.data();
    case Placement::early:
      return early_.data() + payload_have_;
    case Placement::discard:
      return scratch_.data();
  }
  return nullptr;
}

size_t FrameReader::payload_slice() const {
  const size_t rest = header_.payload_bytes - payload_have_;
  switch (place_.placement) {
    case Placement::in_order:
      return std::min(rest, staging_.size());
    case Placement::discard:
      return std::min(rest, scratch_.size());
    case Placement::direct:
    case Placement::early:
      return rest;
  }
  return rest;
}

// TCP keeps the order, so a wrong number is no accident of the network.
Status FrameReader::check_stream(const DataHeader& header) {
  if (header.transmission == frames_ || mutated(Mutant::any_transmission)) return {};
  corrupted_ = true;
  return {Code::remote, "data frame " + std::to_string(header.transmission) + " came where frame " +
                            std::to_string(frames_) +
                            " was due: frames were repeated or left out on the way"};
}

Status FrameReader::take_header() {
  if (!tag_.fits(header_bytes_) && !mutated(Mutant::any_header)) {
    corrupted_ = true;
    return {Code::remote, "a data header with a wrong tag: its bytes were changed on the way"};
  }
  Result<DecodedHeader> decoded = decode_data_header(header_bytes_);
  if (!decoded.ok()) return decoded.status();
  R2CCL_RETURN_IF_ERROR(check_stream(decoded.value().header));
  header_ = decoded.value().header;
  bytes_ += kDataHeaderBytes;
  frame_known_ = decoded.value().known;
  header_known_ = true;
  header_have_ = 0;
  state_have_ = 0;
  if (state_.size() < header_.state_bytes) state_.resize(header_.state_bytes);
  payload_have_ = 0;
  place_ = {};
  small_frames_ = header_.frame_bytes() <= kSpillBytes;
  if (small_frames_ && spill_.empty()) spill_.resize(kSpillBytes);
  if (frame_known_) {
    auto place = owner_.on_header(header_);
    if (!place.ok()) return place.status();
    place_ = std::move(place).value();
    early_ = std::move(place_.early);
    if (place_.placement != Placement::direct) make_room();
  }
  if (header_.state_bytes == 0 && header_.payload_bytes == 0) finish_frame();
  return {};
}

// Provides the memory of a payload that does not go straight into its destination.
void FrameReader::make_room() {
  if (place_.placement == Placement::early) early_.resize(header_.payload_bytes);
  const size_t staged = std::min<size_t>(header_.payload_bytes, kStagingBytesMax);
  if (in_order() && staging_.size() < staged) staging_.resize(staged);
}

// The state is complete.
Status FrameReader::take_state() {
  const auto bytes = std::span(std::as_const(state_)).first(header_.state_bytes);
  if (!tag_.fits_state(bytes) && !mutated(Mutant::any_header)) {
    corrupted_ = true;
    return {Code::remote, "carried state with a wrong tag: its bytes were changed on the way"};
  }
  auto state = decode_carried_state(bytes);
  if (!state.ok()) return state.status();
  if (state.value().control_sequence != header_.transmission) {
    corrupted_ = true;
    return {Code::remote, "carried state of another frame: frames were mixed up on the way"};
  }
  owner_.on_state(std::move(state).value());
  return {};
}

void FrameReader::finish_frame() {
  ++frames_;
  header_known_ = false;
  const bool discarded = place_.placement == Placement::discard;
  std::vector<std::byte> early = std::move(early_);
  early_.clear();
  if (frame_known_) owner_.on_frame(header_, std::move(early), discarded);
}

// Accounts for bytes that a read has put first into the memory of the state, then into the
// payload's, then into the header. A payload that must appear in order lies at `payload`.
Status FrameReader::advance(size_t count, const std::byte* payload) {
  if (in_state()) {
    const size_t part = std::min(count, header_.state_bytes - state_have_);
    state_have_ += part;
    bytes_ += part;
    count -= part;
    if (in_state()) return {};
    R2CCL_RETURN_IF_ERROR(take_state());
  }
  if (in_payload()) {
    const size_t part = std::min(count, payload_slice());
    if (in_order()) copy_in_order(place_.destination + payload_have_, {payload, part});
    payload_have_ += part;
    bytes_ += part;
    count -= part;
    if (payload_have_ == header_.payload_bytes) finish_frame();
  }
  header_have_ += count;
  R2CCL_CHECK(header_have_ <= kDataHeaderBytes);
  return header_have_ == kDataHeaderBytes ? take_header() : Status();
}

// Returns the memory of the next bytes: of the state, the payload or the header.
std::span<std::byte> FrameReader::next_part() {
  if (in_state()) return std::span(state_).first(header_.state_bytes).subspan(state_have_);
  if (in_payload()) return {payload_target(), payload_slice()};
  return std::span(header_bytes_).subspan(header_have_);
}

Status FrameReader::prefill(std::span<const std::byte> bytes) {
  return consume(bytes);
}

// Takes bytes from other memory.
Status FrameReader::consume(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> target = next_part();
    const size_t part = std::min(target.size(), bytes.size());
    if (!in_payload() || !in_order()) std::memcpy(target.data(), bytes.data(), part);
    R2CCL_RETURN_IF_ERROR(advance(part, bytes.data()));
    bytes = bytes.subspan(part);
  }
  return {};
}

FrameReader::Pumped FrameReader::pump(Connection& connection, size_t budget) {
  size_t taken = 0;
  while (taken < budget) {
    if (in_payload() && place_.placement == Placement::discard) {
      if (const size_t dropped = connection.skip(payload_slice()); dropped > 0) {
        taken += dropped;
        if (Status status = advance(dropped, nullptr); !status.ok()) return {status, {}};
        continue;
      }
    }
    std::array<iovec, 4> slices;
    size_t count = 0;
    size_t direct = 0;  // bytes that are read directly to their destination
    bool header_follows = true;
    if (in_state()) {
      const std::span<std::byte> part = next_part();
      slices[count++] = {part.data(), part.size()};
      direct += part.size();
    }
    if (header_known_ && payload_have_ < header_.payload_bytes) {
      const size_t part = payload_slice();
      slices[count++] = {payload_target(), part};
      direct += part;
      header_follows = payload_have_ + part == header_.payload_bytes;
    }
    if (header_follows) {
      slices[count++] = {header_bytes_.data() + header_have_, kDataHeaderBytes - header_have_};
      direct += kDataHeaderBytes - header_have_;
    }
    size_t wanted = direct;
    if (header_follows && small_frames_) {
      slices[count++] = {spill_.data(), spill_.size()};
      wanted += spill_.size();
    }
    const IoResult result = connection.receive(std::span(slices).first(count));
    if (result.kind != IoKind::progressed) return {{}, result};
    taken += result.bytes;
    Status status = advance(std::min(result.bytes, direct), staging_.data());
    if (status.ok() && result.bytes > direct) {
      status = consume(std::span(spill_).first(result.bytes - direct));
    }
    if (!status.ok()) return {status, result};
    // A short read means that no more bytes are there, so another read would be wasted.
    if (result.bytes < wanted) return {{}, {IoKind::blocked, 0, 0}};
  }
  return {{}, {IoKind::progressed, 0, 0}};
}

std::span<std::byte> FrameReader::destination() const {
  if (!in_payload() || place_.placement != Placement::direct) return {};
  return {place_.destination + payload_have_, payload_slice()};
}

bool FrameReader::in_chunk_of(ChannelId channel) const {
  return header_known_ && frame_known_ && header_.type == FrameType::chunk &&
         header_.channel == channel;
}

bool FrameReader::discard_rest() {
  const bool was_kept = place_.placement != Placement::discard;
  place_ = {};
  return was_kept;
}

bool FrameReader::discard_remainder(ChannelId channel, MessageNo message, uint64_t offset) {
  return in_chunk_of(channel) && header_.message == message && header_.offset == offset &&
         discard_rest();
}

bool FrameReader::discard_remainder(ChannelId channel) {
  return in_chunk_of(channel) && discard_rest();
}

}  // namespace r2ccl
