#include "runtime/link/frame_writer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "runtime/link/user_memory.h"

namespace r2ccl {
namespace {

constexpr std::array<std::byte, 64 * 1024> kPadding{};

}  // namespace

void FrameWriter::start(const DataHeader& header, std::span<const std::byte> payload,
                        std::span<const std::byte> state, bool in_place) {
  R2CCL_CHECK(!busy_);
  R2CCL_CHECK(state.size() == header.state_bytes);
  R2CCL_CHECK(payload.empty() || payload.size() == header.payload_bytes);
  header_ = header;
  head_.resize(kDataHeaderBytes);
  encode(header, std::span(head_).first<kDataHeaderBytes>());
  tag_.seal(std::span(head_).first<kDataHeaderBytes>());
  head_.insert(head_.end(), state.begin(), state.end());
  if (!state.empty()) tag_.seal_state(std::span(head_).subspan(kDataHeaderBytes));
  payload_ = payload.empty() ? nullptr : payload.data();
  in_place_ = in_place && payload_ != nullptr;
  written_ = 0;
  busy_ = true;
}

IoResult FrameWriter::flush(Connection& connection) {
  if (abandoned_) return {IoKind::blocked, 0, 0};
  const size_t total = header_.frame_bytes();
  while (busy_) {
    std::array<iovec, 2> slices;
    size_t count = 0;
    if (written_ < head_.size()) {
      slices[count++] = {head_.data() + written_, head_.size() - written_};
    }
    const size_t payload_done = std::max(written_, head_.size()) - head_.size();
    size_t rest = header_.payload_bytes - payload_done;
    if (rest > 0) {
      // iovec is shared with reads, so it cannot say const. A write does not change the bytes.
      const std::byte* from = payload_ != nullptr ? payload_ + payload_done : kPadding.data();
      if (payload_ == nullptr) rest = std::min(rest, kPadding.size());
      slices[count++] = {const_cast<std::byte*>(from), rest};
    }
    const auto all = std::span(slices).first(count);
    const bool stays = in_place_ && rest > 0;
    const IoResult result = stays ? connection.send(all) : connection.write(all);
    if (result.kind != IoKind::progressed) return result;
    written_ += result.bytes;
    busy_ = written_ < total;
  }
  remainder_ = {};
  return {IoKind::progressed, total, 0};
}

void FrameWriter::finish_with_padding(ChannelId channel, MessageNo message) {
  if (busy_ && header_.channel == channel && header_.message == message) {
    payload_ = nullptr;
    in_place_ = false;
  }
}

std::span<const std::byte> FrameWriter::unwritten() const {
  if (!busy_ || payload_ == nullptr) return {};
  const size_t done = std::max(written_, head_.size()) - head_.size();
  return {payload_ + done, header_.payload_bytes - done};
}

bool FrameWriter::copy_remainder(ChannelId channel) {
  if (!busy_ || header_.channel != channel || payload_ == nullptr) return true;
  if (payload_ == remainder_.data()) return true;
  const std::span<const std::byte> rest = unwritten();
  remainder_.resize(header_.payload_bytes);
  abandoned_ = !copy_if_readable(remainder_.data() + (remainder_.size() - rest.size()), rest);
  payload_ = abandoned_ ? nullptr : remainder_.data();
  in_place_ = false;
  return !abandoned_;
}

}  // namespace r2ccl
