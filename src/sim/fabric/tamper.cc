#include "sim/fabric/tamper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/wire/handshake.h"

namespace r2ccl::sim {
namespace {

using Magic = std::array<std::byte, 4>;
constexpr Magic kData{std::byte{'R'}, std::byte{'2'}, std::byte{'C'}, std::byte{'D'}};
constexpr Magic kControl{std::byte{'R'}, std::byte{'2'}, std::byte{'C'}, std::byte{'L'}};
constexpr uint64_t kRepeatedBytesMax = 64 * 1024;

template <size_t N>
std::array<std::byte, N> bytes_at(const Stream& stream, uint64_t offset) {
  std::array<std::byte, N> bytes;
  stream.peek(offset, bytes);
  return bytes;
}

}  // namespace

void Tampering::order(Tamper tamper, const Stream& stream) {
  ordered_ = std::move(tamper);
  from_ = stream.written();
}

std::optional<Tampering::Frame> Tampering::next_frame(const Stream& stream) {
  for (from_ = std::max(from_, stream.taken());; ++from_) {
    if (from_ + kControlHeaderBytes > stream.written()) return std::nullopt;
    const Magic magic = bytes_at<4>(stream, from_);
    if (magic == kData && ordered_->data) {
      if (from_ + kDataHeaderBytes > stream.written()) return std::nullopt;
      const auto header = decode_data_header(bytes_at<kDataHeaderBytes>(stream, from_));
      if (!header.ok()) continue;
      return Frame{from_, kDataHeaderBytes, header.value().header.frame_bytes(), true};
    }
    if (magic == kControl && ordered_->control) {
      // A frame of a handshake has the same magic, but other bytes behind it.
      const auto header = bytes_at<kControlHeaderBytes>(stream, from_);
      const auto body = decode_control_header(header);
      if (!body.ok() || header[5] != std::byte{0} || header[6] != std::byte{0}) continue;
      const uint64_t bytes = kControlHeaderBytes + body.value() + kMacBytes;
      if (from_ + bytes > stream.written()) return std::nullopt;
      return Frame{from_, bytes, bytes, false};
    }
  }
}

bool Tampering::change(Stream& stream, const Frame& frame) {
  if (ordered_->kind == Tamper::Kind::flip) {
    const uint64_t bit = ordered_->bit % (8 * frame.checked);
    stream.change(frame.offset + bit / 8, static_cast<std::byte>(1u << bit % 8));
    expect(stream, frame.offset, frame.offset + frame.checked);
    return true;
  }
  auto header = bytes_at<kDataHeaderBytes>(stream, frame.offset);
  const auto before = header;
  if (!frame.data || !ordered_->rewrite(header)) return false;
  for (size_t i = 0; i < header.size(); ++i) stream.change(frame.offset + i, before[i] ^ header[i]);
  return true;
}

// Possible only behind its last byte, and before any later write.
bool Tampering::repeat(Stream& stream, const Frame& frame) {
  if (stream.written() != frame.offset + frame.bytes || frame.bytes > kRepeatedBytesMax)
    return false;
  std::vector<std::byte> again(frame.bytes);
  stream.peek(frame.offset, again);
  const iovec slice{again.data(), again.size()};
  if (stream.write({&slice, 1}) < frame.checked) return false;
  const uint64_t second = frame.offset + frame.bytes;
  expect(stream, second, second + frame.checked);
  return true;
}

// The reader waits for the rest of a header that never comes.
bool Tampering::add(Stream& stream, const Frame& frame) {
  if (stream.written() != frame.offset + frame.bytes) return false;
  std::array<std::byte, kDataHeaderBytes - 1> garbage;
  garbage.fill(std::byte{0xa5});
  const iovec slice{garbage.data(), 1 + ordered_->bit % garbage.size()};
  if (stream.write({&slice, 1}) == 0) return false;
  silent_from_ = stream.written();
  return true;
}

bool Tampering::happens(Stream& stream, const Frame& frame) {
  switch (ordered_->kind) {
    case Tamper::Kind::repeat:
      return repeat(stream, frame);
    case Tamper::Kind::add:
      return add(stream, frame);
    case Tamper::Kind::flip:
    case Tamper::Kind::flip_at:
    case Tamper::Kind::rewrite:
      return change(stream, frame);
  }
  return false;
}

bool Tampering::apply(Stream& stream) {
  if (!ordered_) return false;
  if (*ordered_->done) ordered_.reset();
  if (!ordered_) return false;
  bool happened = false;
  if (ordered_->kind == Tamper::Kind::flip_at) {
    const uint64_t at = ordered_->bit / 8;
    if (stream.written() <= at || stream.taken() > at) return false;
    stream.change(at, static_cast<std::byte>(1u << ordered_->bit % 8));
    happened = true;
  }
  while (!happened) {
    const std::optional<Frame> frame = next_frame(stream);
    if (!frame) return false;
    happened = happens(stream, *frame);
    if (happened) break;
    if (frame->offset + frame->bytes > stream.written()) return false;  // its end is still to come
    from_ = frame->offset + frame->bytes;
  }
  *ordered_->done = true;
  ordered_.reset();
  return true;
}

void Tampering::expect(const Stream& stream, uint64_t from, uint64_t end) {
  noticed_by_ = end;
  evidence_.resize(end - from);
  stream.peek(from, evidence_);
}

bool Tampering::follow(const std::vector<std::byte>& evidence, const Stream& stream,
                       uint64_t from) {
  const uint64_t before = std::min<uint64_t>(from, evidence.size());
  const uint64_t begin = std::max(from - before, stream.taken());
  std::vector<std::byte> written(stream.written() - begin);
  stream.peek(begin, written);
  const auto found =
      std::find_end(written.begin(), written.end(), evidence.begin(), evidence.end());
  if (found == written.end()) return false;
  const auto at = static_cast<uint64_t>(found - written.begin());
  expect(stream, begin + at, begin + at + evidence.size());
  return true;
}

bool Tampering::taken(const Stream& stream) {
  if (stream.taken() < noticed_by_) return false;
  noticed_by_ = UINT64_MAX;
  return true;
}

}  // namespace r2ccl::sim
