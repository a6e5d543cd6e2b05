#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "runtime/connection/sealed_stream.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kBodyBytesMax = 100'000;
constexpr size_t kMessagesMax = 8;
constexpr size_t kReadsMax = 1000;

// Returns `input` in reads of one size and then blocks, and keeps the bytes that are written.
class Wire final : public Connection {
 public:
  explicit Wire(std::span<const std::byte> input, size_t read_bytes = 1)
      : input_(input), read_bytes_(std::max(read_bytes, input.size() / kReadsMax)) {}
  ConnectState connect_state() override { return ConnectState::established; }
  int connect_error() const override { return 0; }
  IoResult read(std::span<const iovec> slices) override {
    const size_t count = std::min({input_.size(), slices[0].iov_len, read_bytes_});
    if (count == 0) return {};
    std::memcpy(slices[0].iov_base, input_.data(), count);
    input_ = input_.subspan(count);
    return {IoKind::progressed, count, 0};
  }
  IoResult write(std::span<const iovec> slices) override {
    const auto* bytes = static_cast<const std::byte*>(slices[0].iov_base);
    written_.insert(written_.end(), bytes, bytes + slices[0].iov_len);
    return {IoKind::progressed, slices[0].iov_len, 0};
  }
  ConnectionInfo info() const override { return {}; }
  Endpoint remote() const override { return {}; }
  int poll_id() const override { return 0; }

  bool is_read() const { return input_.empty(); }
  const Bytes& written() const { return written_; }

 private:
  std::span<const std::byte> input_;
  const size_t read_bytes_;
  Bytes written_;
};

// One end, with the keys of a session whose other end has them the other way round.
struct End {
  End(std::unique_ptr<Wire> its_wire, uint8_t send_key, uint8_t receive_key)
      : wire(*its_wire),
        stream(established(std::move(its_wire), send_key, receive_key), kBodyBytesMax) {}
  static EstablishedConnection established(std::unique_ptr<Wire> wire, uint8_t send_key,
                                           uint8_t receive_key) {
    EstablishedConnection connection;
    connection.connection = std::move(wire);
    connection.session.send_key.fill(std::byte{send_key});
    connection.session.receive_key.fill(std::byte{receive_key});
    return connection;
  }

  Wire& wire;  // in the stream
  SealedStream stream;
};

struct Sent {
  uint8_t type = 0;
  std::shared_ptr<const Bytes> body;
};

// Cuts the input into messages: a type, a size in units of `unit` bytes, and the body's beginning.
std::vector<Sent> messages_of(std::span<const std::byte> input, size_t unit) {
  std::vector<Sent> all;
  while (input.size() >= 2 && all.size() < kMessagesMax) {
    Bytes body(std::to_integer<size_t>(input[1]) * unit);
    const auto type = std::to_integer<uint8_t>(input[0]);
    input = input.subspan(2);
    const size_t given = std::min(body.size(), input.size());
    std::copy_n(input.begin(), given, body.begin());
    input = input.subspan(given);
    all.push_back({type, std::make_shared<const Bytes>(std::move(body))});
  }
  return all;
}

Bytes wire_of(const std::vector<Sent>& sent) {
  End sender(std::make_unique<Wire>(std::span<const std::byte>()), 1, 2);
  for (const Sent& message : sent) sender.stream.send(message.type, message.body);
  R2CCL_CHECK(sender.stream.pump().ok());
  R2CCL_CHECK(!sender.stream.wants_write());
  return sender.wire.written();
}

// Reads until the end of the input or an error. Returns the number of the messages that arrive,
// which must be the first ones.
size_t receive(End& end, const std::vector<Sent>& sent) {
  Status status;
  do {
    status = end.stream.pump();
  } while (status.ok() && !end.wire.is_read());
  R2CCL_CHECK(status.ok() == status.message().empty());
  size_t count = 0;
  for (auto message = end.stream.next(); message; message = end.stream.next()) {
    R2CCL_CHECK(count < sent.size());
    R2CCL_CHECK(message->type == sent[count].type && message->body == *sent[count].body);
    ++count;
  }
  return count;
}

bool fuzz_stranger(std::span<const std::byte> input, size_t read_bytes) {
  End end(std::make_unique<Wire>(input, read_bytes), 1, 2);
  receive(end, {});
  return end.wire.is_read();
}

bool fuzz_messages(std::span<const std::byte> input, size_t read_bytes, size_t unit) {
  const std::vector<Sent> sent = messages_of(input, unit);
  const Bytes wire = wire_of(sent);
  End end(std::make_unique<Wire>(wire, read_bytes), 2, 1);
  R2CCL_CHECK(receive(end, sent) == sent.size());
  return !sent.empty();
}

// The first four bytes choose the bit of the stream that changes.
bool fuzz_change(std::span<const std::byte> input, size_t read_bytes, size_t unit) {
  if (input.size() < 4) return false;
  uint32_t bit = 0;
  std::memcpy(&bit, input.data(), sizeof bit);
  const std::vector<Sent> sent = messages_of(input.subspan(4), unit);
  Bytes wire = wire_of(sent);
  if (wire.empty()) return false;
  wire[bit / 8 % wire.size()] ^= static_cast<std::byte>(1U << (bit % 8));
  End end(std::make_unique<Wire>(wire, read_bytes), 2, 1);
  R2CCL_CHECK(receive(end, sent) < sent.size());
  return true;
}

}  // namespace

bool fuzz_sealed_stream(std::span<const std::byte> input) {
  if (input.size() < 2) return false;
  const auto mode = std::to_integer<unsigned>(input[0]);
  const size_t read_bytes = 1 + 4 * std::to_integer<size_t>(input[1]);
  // With the largest unit, a message has several records.
  const size_t unit = 1 + mode / 3;
  input = input.subspan(2);
  if (mode % 3 == 0) return fuzz_stranger(input, read_bytes);
  if (mode % 3 == 1) return fuzz_messages(input, read_bytes, unit);
  return fuzz_change(input, read_bytes, unit);
}

}  // namespace r2ccl
