#include "runtime/connection/sealed_stream.h"

#include <algorithm>

#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"

namespace r2ccl {
namespace {

constexpr size_t kReadBytes = 16 * 1024;
// Bounds how long one peer keeps this thread from the others.
constexpr int kReadsPerPump = 16;
constexpr std::string_view kLabel = "r2ccl sealed stream 2";

}  // namespace

SealedStream::SealedStream(EstablishedConnection established, uint32_t body_bytes_max)
    : SealedStream(body_bytes_max) {
  open(std::move(established));
}

void SealedStream::open(EstablishedConnection established) noexcept {
  connection_ = std::move(established.connection);
  input_ = std::move(established.leftover);
  crypto::derive_into(send_key_, established.session.send_key, kLabel, {});
  crypto::derive_into(receive_key_, established.session.receive_key, kLabel, {});
}

void SealedStream::send(uint8_t type, Body body) {
  R2CCL_CHECK(body != nullptr);
  output_.push_back({type, std::move(body), {}, 0});
}

void SealedStream::send(uint8_t type, LockedBytes body) {
  R2CCL_CHECK(!body.empty());
  output_.push_back({type, nullptr, std::move(body), 0});
}

Status SealedStream::pump() {
  // A lost connection may still hold the peer's last message, so read even if writing fails.
  const Status written = write_output();
  // The handshake may already have read bytes of the first message.
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

// Encrypts a message piece by piece as the connection takes it: a table that thousands of ranks
// wait for stays in memory once.
void SealedStream::make_record() {
  Outgoing& message = output_.front();
  const auto rest = message.bytes().subspan(message.sealed);
  const auto plain = rest.first(std::min(rest.size(), kRecordBytesMax));
  const bool last = plain.size() == rest.size();
  record_.clear();
  ByteWriter out(record_);
  out.put(message.type);
  out.put(static_cast<uint8_t>(last));
  out.put(uint16_t{0});
  out.put(static_cast<uint32_t>(plain.size()));
  out.put(next_out_);
  record_.resize(kHeaderBytes + plain.size() + crypto::kSealBytes);
  const std::span<std::byte> record(record_);
  crypto::seal(send_key_, next_out_++, record.first(kHeaderBytes), plain,
               record.subspan(kHeaderBytes));
  message.sealed += plain.size();
  record_sent_ = 0;
  if (last) output_.pop_front();
}

Status SealedStream::write_output() {
  while (wants_write()) {
    if (record_.empty()) make_record();
    const iovec slice{record_.data() + record_sent_, record_.size() - record_sent_};
    const IoResult result = connection_->write(std::span(&slice, 1));
    if (result.kind == IoKind::blocked) return {};
    if (result.kind != IoKind::progressed) return system_error("connection lost", result.error);
    record_sent_ += result.bytes;
    if (record_sent_ == record_.size()) record_.clear();
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
  const std::span<const std::byte> input(input_);
  size_t at = 0;
  Status status;
  while (status.ok() && input.size() - at >= kHeaderBytes) {
    const auto header = input.subspan(at, kHeaderBytes);
    const size_t bytes = ByteReader(header.subspan(4)).get<uint32_t>();
    if (bytes > kRecordBytesMax || partial_.body.size() + bytes > body_bytes_max_) {
      status = {Code::remote, "malformed message from the peer"};
      break;
    }
    const size_t sealed_bytes = bytes + crypto::kSealBytes;
    if (input.size() - at < kHeaderBytes + sealed_bytes) break;
    status = open_record(header, input.subspan(at + kHeaderBytes, sealed_bytes));
    at += kHeaderBytes + sealed_bytes;
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(at));
  return status;
}

Status SealedStream::open_record(std::span<const std::byte> header,
                                 std::span<const std::byte> sealed) {
  ByteReader in(header);
  const uint8_t type = in.get<uint8_t>();
  const bool last = in.get<uint8_t>() != 0;
  const size_t before = partial_.body.size();
  partial_.body.resize(before + sealed.size() - crypto::kSealBytes);
  if (!crypto::open(receive_key_, next_in_, header, sealed,
                    std::span(partial_.body).subspan(before))) {
    return {Code::remote, "a message from the peer was altered on its way"};
  }
  // The peer compares the record numbers in the headers too, and the tag covers them.
  in.get<uint16_t>();
  in.get<uint32_t>();
  if (in.get<uint64_t>() != next_in_++ || (before > 0 && type != partial_.type)) {
    return {Code::remote, "malformed message from the peer"};
  }
  partial_.type = type;
  if (!last) return {};
  received_.push_back(std::move(partial_));
  partial_ = Message();
  return {};
}

}  // namespace r2ccl
