#include "testing/rendezvous_fuzz.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/bootstrap/sealed_stream.h"

namespace r2ccl {
namespace {

constexpr uint32_t kBodyBytesMax = 100'000;

// Returns the input in reads of one size, then blocks.
class Input final : public Connection {
 public:
  Input(std::span<const std::byte> bytes, size_t fragment) : bytes_(bytes), fragment_(fragment) {}
  ConnectState connect_state() override { return ConnectState::established; }
  int connect_error() const override { return 0; }
  IoResult read(std::span<const iovec> slices) override {
    const size_t count = std::min({bytes_.size(), slices[0].iov_len, fragment_});
    if (count == 0) return {};
    std::memcpy(slices[0].iov_base, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return {IoKind::progressed, count, 0};
  }
  IoResult write(std::span<const iovec>) override { return {}; }
  ConnectionInfo info() const override { return {}; }
  Endpoint remote() const override { return {}; }
  int poll_id() const override { return 0; }

 private:
  std::span<const std::byte> bytes_;
  const size_t fragment_;
};

void fuzz_stream(std::span<const std::byte> input, size_t fragment) {
  EstablishedConnection established;
  established.connection = std::make_unique<Input>(input, fragment);
  SealedStream stream(std::move(established), kBodyBytesMax);
  for (int i = 0; i < 4 && stream.pump().ok(); ++i) {
  }
  R2CCL_CHECK(!stream.next());
}

}  // namespace

void fuzz_rendezvous(std::span<const std::byte> input) {
  if (input.empty()) return;
  const auto mode = std::to_integer<unsigned>(input[0]);
  input = input.subspan(1);
  switch (mode % 4) {
    case 0:
      if (input.size() > kArrivalBytesMax) return;
      if (const auto arrival = decode_arrival(input); arrival.ok()) {
        R2CCL_CHECK(std::ranges::equal(encode(arrival.value()), input));
      }
      return;
    case 1: {
      const auto cards = decode_table(input, static_cast<int32_t>(1 + mode / 4 % 8));
      R2CCL_CHECK(!cards.ok() || cards.value().size() == 1 + mode / 4 % 8);
      return;
    }
    case 2:
      R2CCL_CHECK(!decode_refused(input).ok());
      return;
    default:
      return fuzz_stream(input, 1 + mode / 4);
  }
}

}  // namespace r2ccl
