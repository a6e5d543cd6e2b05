#include "runtime/bootstrap/rendezvous_messages.h"

#include <algorithm>

#include "base/limits.h"
#include "base/printable.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/rank_list_codec.h"

namespace r2ccl {
namespace {

Status malformed(const char* what) {
  return {Code::remote, std::string("malformed rendezvous message: ") + what};
}

// Only these codes may arrive as a reason. Any other code becomes a remote failure.
bool is_reason(uint8_t code) {
  switch (static_cast<Code>(code)) {
    case Code::invalid_argument:
    case Code::invalid_usage:
    case Code::remote:
    case Code::timeout:
      return true;
    case Code::ok:
    case Code::system:
    case Code::internal:
    case Code::in_progress:
    case Code::aborted:
      return false;
  }
  return false;
}

}  // namespace

std::vector<std::byte> encode(const Arrival& arrival) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint32_t>(arrival.rank_count));
  out.put_bytes(arrival.attendance);
  out.put(arrival.timeout_ms);
  out.put(arrival.left_ms);
  out.put_bytes(arrival.info);
  R2CCL_CHECK(bytes.size() <= kArrivalBytesMax);
  return bytes;
}

Result<Arrival> decode_arrival(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Arrival arrival;
  arrival.rank_count = static_cast<int32_t>(in.get<uint32_t>());
  std::ranges::copy(in.get_bytes(arrival.attendance.size()), arrival.attendance.begin());
  arrival.timeout_ms = in.get<uint32_t>();
  arrival.left_ms = in.get<uint32_t>();
  if (in.bad()) return malformed("an arrival is cut short");
  if (arrival.rank_count < 1 || arrival.rank_count > limits::kRanksMax) {
    return malformed("the number of ranks is out of bounds");
  }
  std::ranges::copy(in.get_bytes(in.remaining()), std::back_inserter(arrival.info));
  return arrival;
}

uint32_t table_bytes_max(int32_t rank_count) {
  const uint64_t bytes = 4 + static_cast<uint64_t>(rank_count) * (4 + kRankInfoBytesMax);
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
}

std::vector<std::byte> encode_table(std::span<const std::span<const std::byte>> rank_table) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint32_t>(rank_table.size()));
  for (const std::span<const std::byte> info : rank_table) {
    out.put(static_cast<uint32_t>(info.size()));
    out.put_bytes(info);
  }
  return bytes;
}

Result<std::vector<RankInfo>> decode_table(std::span<const std::byte> bytes, int32_t rank_count) {
  ByteReader in(bytes);
  if (in.get<uint32_t>() != static_cast<uint32_t>(rank_count)) {
    return malformed("the table has another number of ranks");
  }
  std::vector<RankInfo> rank_table;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    const size_t info_bytes = in.get<uint32_t>();
    Result<RankInfo> info = decode_rank_info(in.get_bytes(info_bytes));
    if (in.bad()) return malformed("the table is cut short");
    if (!info.ok()) return info.status();
    if (info.value().rank != Rank(rank)) return malformed("the table is out of order");
    rank_table.push_back(std::move(info).value());
  }
  if (in.remaining() != 0) return malformed("bytes follow the table");
  return rank_table;
}

std::vector<std::byte> encode_refused(const Status& why) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(why.code()));
  put_ranks(out, why.ranks());
  const std::string text = printable_text(why.message(), kRefusedTextBytesMax);
  out.put_bytes(std::as_bytes(std::span(text)));
  return bytes;
}

Status decode_refused(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const uint8_t code = in.get<uint8_t>();
  std::vector<Rank> ranks = get_ranks(in);
  const std::string text = printable_text(in.get_bytes(in.remaining()), kRefusedTextBytesMax);
  const Status why(is_reason(code) ? static_cast<Code>(code) : Code::remote, text);
  return why.with_ranks(std::move(ranks));
}

}  // namespace r2ccl
