#include "runtime/link/control_stream.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "base/mutant.h"

namespace r2ccl {

ControlStream::ControlStream(std::unique_ptr<Connection> connection, const Session& session,
                             std::vector<std::byte> leftover, std::span<std::byte> read_buffer,
                             std::vector<std::byte>& spare)
    : connection_(std::move(connection)),
      send_key_(session.send_key),
      receive_key_(session.receive_key),
      send_tag_(session.send_key, HeaderTag::Use::control),
      receive_tag_(session.receive_key, HeaderTag::Use::control),
      read_buffer_(read_buffer.first(kReadBytes)),
      partial_(std::move(leftover)),
      spare_(spare) {}

void ControlStream::seal(const ControlFrame& frame, std::vector<std::byte>& out) const {
  out.clear();
  encode(frame, out);
  R2CCL_CHECK(out.size() <= kControlHeaderBytes + limits::kControlBodyBytesMax);
  send_tag_.seal(std::span(out).first<kControlHeaderBytes>(), frame.control_sequence);
  std::array<std::byte, kMacBytes> mac;
  compute_mac(send_key_, out, mac);
  out.insert(out.end(), mac.begin(), mac.end());
}

IoResult ControlStream::send(ControlFrame& frame) {
  R2CCL_CHECK(can_send());
  frame.control_sequence = sent_;
  seal(frame, spare_);  // if memory runs out here, nothing has changed
  out_.swap(spare_);
  out_done_ = 0;
  ++sent_;
  return flush();
}

IoResult ControlStream::send_last(ControlFrame& frame, std::vector<std::byte>& memory) {
  if (const IoResult before = flush(); before.kind != IoKind::progressed) return before;
  frame.control_sequence = sent_;
  seal(frame, memory);
  while (last_done_ < memory.size()) {
    const iovec slice{memory.data() + last_done_, memory.size() - last_done_};
    const IoResult result = connection_->write(std::span(&slice, 1));
    if (result.kind != IoKind::progressed) return result;
    last_done_ += result.bytes;
  }
  return {IoKind::progressed, 0, 0};
}

IoResult ControlStream::flush() {
  while (!out_.empty()) {
    const iovec slice{out_.data() + out_done_, out_.size() - out_done_};
    const IoResult result = connection_->write(std::span(&slice, 1));
    if (result.kind != IoKind::progressed) return result;
    out_done_ += result.bytes;
    if (out_done_ < out_.size()) continue;
    out_.clear();
    out_.swap(spare_);
  }
  return {IoKind::progressed, 0, 0};
}

ControlStream::Received ControlStream::receive(std::vector<ControlFrame>& frames) {
  const size_t frames_before = frames.size();
  // The handshake may have brought whole frames along.
  Status status = parse_all({}, frames);
  for (size_t bytes = 0;;) {
    if (!status.ok()) return {status, {}};
    // All bytes that were read have been parsed, so the poller reports the rest.
    const bool turn_over =
        bytes >= kBytesPerTurn || frames.size() - frames_before >= kFramesPerTurn;
    if (turn_over) return {{}, {IoKind::progressed, 0, 0}};
    const iovec slice{read_buffer_.data(), read_buffer_.size()};
    const IoResult result = connection_->read(std::span(&slice, 1));
    if (result.kind != IoKind::progressed) return {{}, result};
    bytes += result.bytes;
    status = parse_all(read_buffer_.first(result.bytes), frames);
    if (result.bytes < slice.iov_len) return {status, {IoKind::blocked, 0, 0}};
  }
}

Status ControlStream::parse_all(std::span<const std::byte> bytes,
                                std::vector<ControlFrame>& frames) {
  const bool continues = !partial_.empty();
  if (continues) {
    partial_.insert(partial_.end(), bytes.begin(), bytes.end());
    bytes = partial_;
  }
  const auto parsed = parse(bytes, frames);
  if (!parsed.ok()) return parsed.status();
  const auto rest = bytes.subspan(parsed.value());
  if (continues && parsed.value() == 0) return {};
  // A new vector: most streams get whole frames only, and need no memory between them.
  partial_ = std::vector<std::byte>(rest.begin(), rest.end());
  return {};
}

Status ControlStream::corrupt(const char* what) {
  corrupted_ = true;
  return {Code::remote,
          std::string(what) + ": its bytes were changed, repeated or left out on the way"};
}

Result<size_t> ControlStream::parse(std::span<const std::byte> bytes,
                                    std::vector<ControlFrame>& frames) {
  size_t at = 0;
  while (bytes.size() - at >= kControlHeaderBytes) {
    const std::span<const std::byte> rest = bytes.subspan(at);
    // Check the header before its size is used: a reader would wait for bytes that never come.
    const auto header = rest.first<kControlHeaderBytes>();
    if (!receive_tag_.fits(header, received_) && !mutated(Mutant::any_header)) {
      return corrupt("a control header with a wrong tag");
    }
    const auto body = decode_control_header(header);
    if (!body.ok()) return body.status();
    const size_t signed_bytes = kControlHeaderBytes + body.value();
    if (rest.size() < signed_bytes + kMacBytes) break;
    if (!check_mac(receive_key_, rest.first(signed_bytes),
                   rest.subspan(signed_bytes).first<kMacBytes>())) {
      return corrupt("a control frame with a wrong MAC");
    }
    auto frame = decode_control_body(rest.subspan(kControlHeaderBytes, body.value()));
    if (!frame.ok()) return frame.status();
    // TCP keeps the order, so a gap means that the stream was tampered with.
    if (frame.value().control_sequence != received_)
      return corrupt("a control frame out of sequence");
    ++received_;
    frames.push_back(std::move(frame).value());
    at += signed_bytes + kMacBytes;
  }
  return at;
}

}  // namespace r2ccl
