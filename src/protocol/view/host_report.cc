#include "protocol/view/host_report.h"

#include <string>

#include "base/limits.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

NicReach reach_of(uint32_t reached, uint32_t missed) {
  return missed > reached ? NicReach{reached, missed} : NicReach{};
}

// On the wire, for a NIC that is not there or drained.
static constexpr NicReach kNoUse{UINT32_MAX, UINT32_MAX};

std::vector<std::byte> encode(const HostReport& report) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(report.reach.size()));
  for (const std::optional<NicReach>& nic : report.reach) {
    out.put(nic.value_or(kNoUse).reached);
    out.put(nic.value_or(kNoUse).missed);
  }
  out.put(static_cast<uint8_t>(report.slow.size()));
  for (const SlowNic& slow : report.slow) {
    out.put(slow.nic);
    out.put(slow.rate);
    out.put(slow.host);
    out.put(slow.peer_nic);
  }
  return bytes;
}

namespace {

Status refused_report(const std::string& what) {
  return {Code::remote, "a report of NICs " + what};
}

std::optional<NicReach> get_reach(ByteReader& in) {
  NicReach nic;
  nic.reached = in.get<uint32_t>();
  nic.missed = in.get<uint32_t>();
  if (nic == kNoUse) return std::nullopt;
  return nic;
}

Status check(const HostReport& report) {
  if (report.reach.size() > limits::kNicsMax) return refused_report("of too many of them");
  for (const std::optional<NicReach>& nic : report.reach) {
    if (!nic || *nic == reach_of(nic->reached, nic->missed)) continue;
    return refused_report("with one that reaches " + std::to_string(nic->reached) +
                          " hosts and misses " + std::to_string(nic->missed));
  }
  for (const SlowNic& slow : report.slow) {
    if (slow.nic >= report.reach.size()) return refused_report("with a slow one that is not there");
    if (slow.rate == 0 || slow.rate >= kWholeNic) {
      return refused_report("with a slow one of rate " + std::to_string(slow.rate) + "/1000");
    }
  }
  return {};
}

}  // namespace

Result<HostReport> decode_host_report(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  HostReport report;
  report.reach.resize(in.get<uint8_t>());
  for (std::optional<NicReach>& nic : report.reach) nic = get_reach(in);
  const size_t slow_count = in.get<uint8_t>();
  for (size_t i = 0; i < slow_count && !in.bad(); ++i) {
    SlowNic slow;
    slow.nic = in.get<uint16_t>();
    slow.rate = in.get<uint32_t>();
    slow.host = in.get<uint32_t>();
    slow.peer_nic = in.get<uint16_t>();
    report.slow.push_back(slow);
  }
  if (in.bad() || in.remaining() > 0) return refused_report("that is truncated or too long");
  R2CCL_RETURN_IF_ERROR(check(report));
  return report;
}

}  // namespace r2ccl
