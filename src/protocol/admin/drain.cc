#include "protocol/admin/drain.h"

#include "base/printable.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

std::vector<std::byte> encode(const DrainQuestion& question) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(question.verb));
  out.put(static_cast<uint32_t>(question.host.value()));
  out.put(static_cast<uint8_t>(question.nic.size()));
  out.put_bytes(std::as_bytes(std::span(question.nic)));
  out.put(question.ticket);
  return bytes;
}

// Ignores bytes that a later version appends, and refuses a verb that it adds.
Result<DrainQuestion> decode_drain_question(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  DrainQuestion question;
  const auto verb = in.get<uint8_t>();
  question.verb = static_cast<DrainVerb>(verb);
  question.host = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  const size_t size = in.get<uint8_t>();
  question.nic = printable_text(in.get_bytes(size), kDrainNicBytesMax);
  question.ticket = in.get<uint64_t>();
  if (in.bad() || verb > static_cast<uint8_t>(DrainVerb::take_back) || size == 0 ||
      size > kDrainNicBytesMax) {
    return Status(Code::remote, "malformed question about a NIC's drain");
  }
  return question;
}

std::vector<std::byte> encode(const DrainTally& tally) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(tally.paths);
  out.put(tally.up);
  out.put(tally.marked);
  out.put(tally.in_use);
  out.put(tally.busy);
  out.put(tally.stranded);
  out.put(static_cast<uint32_t>(tally.peer.value()));
  out.put(static_cast<uint32_t>(tally.stranded_peer.value()));
  return bytes;
}

Result<DrainTally> decode_drain_tally(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  DrainTally tally;
  tally.paths = in.get<uint32_t>();
  tally.up = in.get<uint32_t>();
  tally.marked = in.get<uint32_t>();
  tally.in_use = in.get<uint32_t>();
  tally.busy = in.get<uint32_t>();
  tally.stranded = in.get<uint32_t>();
  tally.peer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  tally.stranded_peer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  if (in.bad()) return Status(Code::remote, "malformed answer about a NIC's drain");
  return tally;
}

}  // namespace r2ccl
