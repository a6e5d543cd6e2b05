#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "runtime/link/frame_reader.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

using Bytes = std::vector<std::byte>;
using HeaderBytes = std::array<std::byte, kDataHeaderBytes>;
using Placement = ReceiveLedger::Placement;

// The harness changes the next header of the input by the bits of the byte before it.
enum Mode : unsigned {
  sealed = 1,
  framed = 2,
  numbered = 4,
  sized = 8,
  whole = 16,
  stated = 32,    // it carries state with a tag
  misstated = 64  // whose bytes were changed on the way
};

constexpr size_t kBlockBytes = 1 + kDataHeaderBytes;
constexpr uint32_t kSizeMax = 4096;

void store(HeaderBytes& bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

class Owner final : public FrameReader::Owner {
 public:
  explicit Owner(const HeaderTag& tag) : tag_(tag), memory_(limits::kChunkBytesMax) {}

  Result<ReceiveLedger::Place> on_header(const DataHeader& header) override {
    R2CCL_CHECK(std::ranges::find(sealed_, header.transmission) != sealed_.end());
    R2CCL_CHECK(header.payload_bytes <= memory_.size());
    const bool is_even = header.message.value() % 2 == 0;
    switch (header.channel.value() % 4) {
      case 0:
        return ReceiveLedger::Place{is_even ? Placement::direct : Placement::in_order,
                                    memory_.data()};
      case 1:
        return ReceiveLedger::Place{Placement::early, nullptr};
      case 2:
        return ReceiveLedger::Place{};
      default:
        return Status(Code::remote, "refused");
    }
  }
  void on_frame(const DataHeader& header, Bytes early, bool) override {
    R2CCL_CHECK(early.empty() || early.size() == header.payload_bytes);
  }
  void on_state(ControlFrame state) override {
    R2CCL_CHECK(std::ranges::find(stated_, state.control_sequence) != stated_.end());
  }
  void note_stated(uint64_t number) { stated_.push_back(number); }
  // Records a frame of the input that its reader may believe.
  void note_sealed(const HeaderBytes& bytes) {
    const auto decoded = decode_data_header(bytes);
    if (decoded.ok() && tag_.fits(bytes)) sealed_.push_back(decoded.value().header.transmission);
  }

 private:
  const HeaderTag& tag_;
  Bytes memory_;
  std::vector<uint64_t> sealed_;
  std::vector<uint64_t> stated_;
};

// Returns state whose content depends on a byte of the input.
Bytes state_of(uint64_t number, std::byte content) {
  ControlFrame frame;
  frame.control_sequence = number;
  frame.version = std::to_integer<uint64_t>(content);
  frame.paths.resize(std::to_integer<size_t>(content) % 3);
  Bytes state;
  encode_carried_state(frame, state);
  return state;
}

}  // namespace

bool fuzz_frame_reader(std::span<const std::byte> input) {
  const HeaderTag tag(std::array<std::byte, kMacKeyBytes>{std::byte{9}}, HeaderTag::Use::data);
  Owner owner(tag);
  Bytes stream;
  for (uint64_t number = 0; input.size() >= kBlockBytes; ++number) {
    const auto mode = std::to_integer<unsigned>(input.front());
    HeaderBytes header;
    std::ranges::copy(input.subspan(1, kDataHeaderBytes), header.begin());
    input = input.subspan(kBlockBytes);
    if ((mode & framed) != 0) {
      DataHeader empty;
      HeaderBytes start;
      encode(empty, start);
      std::copy_n(start.begin(), 5, header.begin());  // magic and version
    }
    const auto size = static_cast<uint32_t>(header[8]) * 13 % kSizeMax;
    if ((mode & sized) != 0) store(header, 8, size, 4);
    if ((mode & numbered) != 0) store(header, 16, number, 8);
    Bytes state;
    if ((mode & sized) != 0) store(header, 68, 0, 2);
    if ((mode & stated) != 0) {
      state = state_of(number, header[24]);
      tag.seal_state(state);
      if ((mode & misstated) != 0) {
        state[std::to_integer<size_t>(header[25]) % state.size()] ^= std::byte{4};
      } else {
        owner.note_stated(number);
      }
      store(header, 68, state.size(), 2);
    }
    if ((mode & sealed) != 0) tag.seal(header);
    owner.note_sealed(header);
    stream.insert(stream.end(), header.begin(), header.end());
    stream.insert(stream.end(), state.begin(), state.end());
    stream.resize(stream.size() + ((mode & whole) != 0 ? size : size / 2));
  }
  Bytes scratch(1000);
  FrameReader reader(owner, tag, scratch);
  for (std::span<const std::byte> rest(stream); !rest.empty();) {
    const auto part = rest.first(std::min<size_t>(rest.size(), 777));
    if (!reader.prefill(part).ok()) return false;
    rest = rest.subspan(part.size());
  }
  return !stream.empty();
}

}  // namespace r2ccl
