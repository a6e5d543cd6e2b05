#include "runtime/sealed_stream.h"

#include <algorithm>

#include "protocol/byte_io.h"
#include "protocol/crypto.h"

namespace r2ccl {
namespace {

constexpr size_t kReadBytes = 16 * 1024;
// One peer may not keep this thread from the others.
constexpr int kReadsPerPump = 16;

// What a MAC covers. The body stands there by its hash, so that a large one need not be copied.
std::vector<std::byte> sealed(std::span<const std::byte> header, std::span<const std::byte> body) {
  std::vector<std::byte> covered(header.begin(), header.end());
  const crypto::Hash digest = crypto::hash("r2ccl message body", body);
  covered.insert(covered.end(), digest.begin(), digest.end());
  return covered;
}

}  // namespace

SealedStream::SealedStream(EstablishedConnection established, uint32_t body_bytes_max)
    : connection_(std::move(established.connection)),
      session_(std::move(established.session)),
      body_bytes_max_(body_bytes_max),
      input_(std::move(established.leftover)) {}

void SealedStream::send(uint8_t type, Body body) {
  R2CCL_CHECK(body->size() <= UINT32_MAX);
  std::vector<std::byte> header;
  ByteWriter out(header);
  out.put(type);
  out.put_bytes(std::array<std::byte, 3>{});
  out.put(static_cast<uint32_t>(body->size()));
  out.put(next_out_++);
  Outgoing message;
  std::ranges::copy(header, message.header.begin());
  compute_mac(session_.send_key, sealed(header, *body), message.mac);
  message.body = std::move(body);
  output_.push_back(std::move(message));
}

Status SealedStream::pump() {
  // A lost connection may still hold the peer's last words, so reading does not wait for writing.
  const Status written = write_output();
  // The handshake may have read the first message's bytes already.
  R2CCL_RETURN_IF_ERROR(parse());
  for (int i = 0; i < kReadsPerPump; ++i) {
    const size_t before = input_.size();
    R2CCL_RETURN_IF_ERROR(read_input());
    if (input_.size() == before) break;
    R2CCL_RETURN_IF_ERROR(parse());
  }
  return written;
}

std::optional<SealedStream::Message> SealedStream::next() {
  if (received_.empty()) return {};
  Message message = std::move(received_.front());
  received_.pop_front();
  return message;
}

Status SealedStream::write_output() {
  while (!output_.empty()) {
    Outgoing& message = output_.front();
    std::array<iovec, 3> slices;
    size_t count = 0;
    size_t skip = message.sent;
    for (const std::span<const std::byte> part :
         {std::span<const std::byte>(message.header), std::span<const std::byte>(*message.body),
          std::span<const std::byte>(message.mac)}) {
      const auto rest = part.subspan(std::min(skip, part.size()));
      skip -= part.size() - rest.size();
      if (!rest.empty()) slices[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
    }
    const IoResult result = connection_->write(std::span(slices).first(count));
    if (result.kind == IoKind::blocked) return {};
    if (result.kind != IoKind::progressed) return system_error("connection lost", result.error);
    message.sent += result.bytes;
    if (message.sent == kHeaderBytes + message.body->size() + kMacBytes) output_.pop_front();
  }
  return {};
}

Status SealedStream::read_input() {
  const size_t before = input_.size();
  input_.resize(before + kReadBytes);
  const iovec slice{input_.data() + before, kReadBytes};
  const IoResult result = connection_->read(std::span(&slice, 1));
  input_.resize(before + (result.kind == IoKind::progressed ? result.bytes : 0));
  switch (result.kind) {
    case IoKind::progressed:
    case IoKind::blocked:
      return {};
    case IoKind::closed:
      return {Code::remote, "the peer closed the connection"};
    case IoKind::refused:
    case IoKind::failed:
      return system_error("connection lost", result.error);
  }
  return {};
}

Status SealedStream::parse() {
  while (input_.size() >= kHeaderBytes) {
    const auto header = std::span<const std::byte>(input_).first(kHeaderBytes);
    ByteReader in(header);
    Message message;
    message.type = in.get<uint8_t>();
    in.get_bytes(3);
    const size_t body_bytes = in.get<uint32_t>();
    const uint64_t number = in.get<uint64_t>();
    if (number != next_in_ || body_bytes > body_bytes_max_) {
      return {Code::remote, "malformed message from the peer"};
    }
    if (input_.size() < kHeaderBytes + body_bytes + kMacBytes) break;
    const auto body = std::span<const std::byte>(input_).subspan(kHeaderBytes, body_bytes);
    const auto mac = std::span<const std::byte>(input_).subspan(kHeaderBytes + body_bytes);
    if (!check_mac(session_.receive_key, sealed(header, body), mac.first<kMacBytes>())) {
      return {Code::remote, "a message from the peer was altered on its way"};
    }
    ++next_in_;
    message.body.assign(body.begin(), body.end());
    received_.push_back(std::move(message));
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(
                                                      kHeaderBytes + body_bytes + kMacBytes));
  }
  return {};
}

}  // namespace r2ccl
