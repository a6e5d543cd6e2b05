// The messages between a rank and the rendezvous server, and their codec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/wire/handshake.h"
#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {

enum class RendezvousMessage : uint8_t {
  arrive = 1,    // rank to server: its rank info
  table = 2,     // server to rank: the rank info of all ranks
  refused = 3,   // server to rank: the reason why there will be no table
  received = 4,  // rank to server: the table has arrived
  token = 5,     // server to rank, before the table: the run's random number
  joined = 6,  // rank to server, in place of received: it has joined the others, and waits for them
  all_joined = 7  // server to rank: all have
};

inline uint8_t type_of(RendezvousMessage message) {
  return static_cast<uint8_t>(message);
}

// A random number of one attempt of one process to join. A process that returns over another
// address replaces its lost connection; another process with its rank is refused.
using Attendance = std::array<std::byte, 16>;

struct Arrival {
  int32_t rank_count = 0;
  Attendance attendance{};
  uint32_t timeout_ms = 0;  // the bound that the caller set, for error texts
  uint32_t left_ms = 0;     // the remaining part of that bound
  std::vector<std::byte> info;
};

inline constexpr uint32_t kArrivalBytesMax = 28 + kRankInfoBytesMax;
std::vector<std::byte> encode(const Arrival& arrival);
Result<Arrival> decode_arrival(std::span<const std::byte> bytes);

uint32_t table_bytes_max(int32_t rank_count);
// Encodes the rank infos as they arrived, in rank order.
std::vector<std::byte> encode_table(std::span<const std::span<const std::byte>> rank_table);
// Fails unless there is exactly one rank info for each rank, in order.
Result<std::vector<RankInfo>> decode_table(std::span<const std::byte> bytes, int32_t rank_count);

// Holds the names of the missing ranks, as many as a person reads.
inline constexpr size_t kRefusedTextBytesMax = 4096;
std::vector<std::byte> encode_refused(const Status& why);
// Always returns an error.
Status decode_refused(std::span<const std::byte> bytes);

}  // namespace r2ccl
