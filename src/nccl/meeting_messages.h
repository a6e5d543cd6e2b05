// The messages by which a process that connects and one that listens agree on a link between them
// and on a numbered connection over it, in a sealed stream:
//
//   connects                                           listens
//     ask       its process, link, RankInfo         ->
//                                                   <- answer   the link, the number, a token
//     opened    its end of the connection is there  ->
//                                                   <- ready    NCCL's accept has it now
//
// In place of an answer: `gone`, the link that the ask names has ended there; `refused`, in words.
// An ask may be repeated over a new connection: the same attempt gets the same answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "nccl/listen_handle.h"
#include "protocol/wire/key_schedule.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/connection/sealed_stream.h"

namespace r2ccl::nccl {

enum class MeetingMessage : uint8_t {
  ask = 1,
  answer = 2,
  opened = 3,
  ready = 4,
  gone = 5,
  refused = 6,
};

constexpr uint8_t type_of(MeetingMessage message) {
  return static_cast<uint8_t>(message);
}

// The body of the messages that have none.
inline SealedStream::Body no_body() {
  return std::make_shared<const std::vector<std::byte>>();
}

// A random number of one connect.
using Attempt = std::array<std::byte, 16>;

struct Ask {
  ProcessId process{};    // that connects
  uint64_t link = 0;      // that it has with the other one, or would make: a random number
  uint32_t listener = 0;  // as in the handle
  Attempt attempt{};
  RankInfo info;  // describes its end of that link
  friend bool operator==(const Ask&, const Ask&) = default;
};

struct Answer {
  uint64_t link = 0;
  uint32_t connection = 0;  // its number among those of the link
  LockedBytes token;        // kRunTokenBytes; the key of the link comes from it
  RankInfo info;            // describes the listening process's end
};

inline constexpr uint32_t kMeetingBytesMax = 128 + kRankInfoBytesMax;

// Fail when the RankInfo exceeds its bounds.
Result<std::vector<std::byte>> encode(const Ask& ask);
Result<LockedBytes> encode(const Answer& answer);
Result<Ask> decode_ask(std::span<const std::byte> bytes);
Result<Answer> decode_answer(std::span<const std::byte> bytes);

}  // namespace r2ccl::nccl
