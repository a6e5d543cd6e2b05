#include "protocol/health/nic_report.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

NicReach reach_of(uint32_t reached, uint32_t missed) {
  return missed > reached ? NicReach{reached, missed} : NicReach{};
}

namespace {

// On the wire.
constexpr NicReach kDrained{UINT32_MAX, UINT32_MAX};

}  // namespace

std::vector<std::byte> encode(const NicReport& report) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint8_t>(report.nics.size()));
  for (const NicState& nic : report.nics) {
    out.put(nic.rail);
    out.put(nic.reach.value_or(kDrained).reached);
    out.put(nic.reach.value_or(kDrained).missed);
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

NicState get_state(ByteReader& in) {
  NicState nic;
  nic.rail = in.get<uint16_t>();
  NicReach reach;
  reach.reached = in.get<uint32_t>();
  reach.missed = in.get<uint32_t>();
  if (reach != kDrained) nic.reach = reach;
  return nic;
}

Status check(const NicReport& report) {
  if (report.nics.size() > limits::kNicsMax) return refused_report("of too many of them");
  for (size_t i = 0; i < report.nics.size(); ++i) {
    const NicState& nic = report.nics[i];
    if (nic.rail >= limits::kNicsMax || (i > 0 && nic.rail <= report.nics[i - 1].rail)) {
      return refused_report("with rail " + std::to_string(nic.rail) + " out of order");
    }
    if (!nic.reach || *nic.reach == reach_of(nic.reach->reached, nic.reach->missed)) continue;
    return refused_report("with one that reaches " + std::to_string(nic.reach->reached) +
                          " hosts and misses " + std::to_string(nic.reach->missed));
  }
  for (size_t i = 0; i < report.slow.size(); ++i) {
    const SlowNic& slow = report.slow[i];
    if (i > 0 && slow.nic <= report.slow[i - 1].nic) {
      return refused_report("with slow ones out of order");
    }
    const auto is_it = [&](const NicState& nic) { return nic.rail == slow.nic; };
    if (std::ranges::none_of(report.nics, is_it)) {
      return refused_report("with a slow one that is not there");
    }
    if (slow.rate == 0 || slow.rate >= kWholeNic) {
      return refused_report("with a slow one of rate " + std::to_string(slow.rate) + "/1000");
    }
  }
  return {};
}

}  // namespace

Result<NicReport> decode_nic_report(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  NicReport report;
  const size_t count = in.get<uint8_t>();
  for (size_t i = 0; i < count && !in.bad(); ++i) report.nics.push_back(get_state(in));
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

std::vector<std::byte> encode(const RateTable& table) {
  R2CCL_CHECK(table.size() <= kTableRatesMax);
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  for (const RailRate& nic : table) {
    out.put(nic.host);
    out.put(nic.rail);
    out.put(static_cast<uint16_t>(nic.rate.send));
    out.put(static_cast<uint16_t>(nic.rate.receive));
  }
  return bytes;
}

Result<RateTable> decode_rate_table(std::span<const std::byte> bytes) {
  const auto refuse = [](const std::string& what) {
    return Status(Code::remote, "a table of NICs' rates " + what);
  };
  ByteReader in(bytes);
  RateTable table;
  while (in.remaining() > 0 && !in.bad() && table.size() < kTableRatesMax) {
    RailRate nic;
    nic.host = in.get<uint32_t>();
    nic.rail = in.get<uint16_t>();
    nic.rate.send = in.get<uint16_t>();
    nic.rate.receive = in.get<uint16_t>();
    const auto place = [](const RailRate& each) { return std::tuple(each.host, each.rail); };
    if (!table.empty() && place(nic) <= place(table.back())) return refuse("out of order");
    if (std::max(nic.rate.send, nic.rate.receive) > kWholeNic) return refuse("above whole");
    table.push_back(nic);
  }
  if (in.bad() || in.remaining() > 0) return refuse("that is truncated or too long");
  return table;
}

}  // namespace r2ccl
