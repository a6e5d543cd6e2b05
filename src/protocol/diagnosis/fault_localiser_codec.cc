// The bodies of the notices that ranks send each other to localise a fault.
#include <algorithm>

#include "base/printable.h"
#include "protocol/diagnosis/nic_name.h"
#include "protocol/diagnosis/observation.h"
#include "protocol/diagnosis/probe.h"
#include "protocol/diagnosis/verdict.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

constexpr size_t kNameBytesMax = 255;  // its length is one byte

void put_name(ByteWriter& out, const NicName& name) {
  out.put(name.host);
  const size_t size = std::min(name.nic.size(), kNameBytesMax);
  out.put(static_cast<uint8_t>(size));
  out.put_bytes(std::as_bytes(std::span(name.nic).first(size)));
}

NicName get_name(ByteReader& in) {
  NicName name;
  name.host = in.get<uint32_t>();
  name.nic = printable_text(in.get_bytes(in.get<uint8_t>()), kNameBytesMax);
  return name;
}

namespace {

DownCause get_cause(ByteReader& in, DownCause last) {
  const auto cause = in.get<uint8_t>();
  return cause <= static_cast<uint8_t>(last) ? static_cast<DownCause>(cause) : DownCause::none;
}

}  // namespace

const char* to_string(Scope scope) {
  switch (scope) {
    case Scope::nic:
      return "nic";
    case Scope::pair:
      return "pair";
    case Scope::rail:
      return "rail";
    case Scope::host:
      return "host";
    case Scope::process:
      return "process";
  }
  return "unknown";
}

std::vector<std::byte> encode(const Observation& o) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(static_cast<uint32_t>(o.peer.value()));
  out.put(o.incarnation.value());
  put_name(out, o.near);
  put_name(out, o.far);
  out.put(static_cast<uint8_t>(o.cause));
  out.put(static_cast<uint8_t>(o.peer_cause));
  out.put(o.detected_us);
  out.put(o.retransmitted_bytes);
  out.put(o.stall_us);
  out.put(o.since_up_us);
  out.put(o.age_us);
  out.put(static_cast<uint64_t>(o.wall));
  return bytes;
}

Result<Observation> decode_observation(Rank observer, std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Observation o;
  o.observer = observer;
  o.peer = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  o.incarnation = Incarnation(in.get<uint32_t>());
  o.near = get_name(in);
  o.far = get_name(in);
  o.cause = get_cause(in, DownCause::address_lost);
  o.peer_cause = get_cause(in, DownCause::address_lost);
  o.detected_us = in.get<uint64_t>();
  o.retransmitted_bytes = in.get<uint64_t>();
  o.stall_us = in.get<uint64_t>();
  o.since_up_us = in.get<uint64_t>();
  o.age_us = in.get<uint64_t>();
  o.wall = static_cast<TimeNs>(in.get<uint64_t>());
  if (in.bad()) return Status(Code::remote, "a truncated observation");
  return o;
}

std::vector<std::byte> encode(const Verdict& v) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.put(v.number);
  out.put(static_cast<uint8_t>(v.scope));
  put_name(out, v.faulty);
  out.put(static_cast<uint32_t>(v.rank.value()));
  put_name(out, v.other);
  out.put(static_cast<uint8_t>(v.kind));
  out.put(v.detected_us);
  out.put(v.retransmitted_bytes);
  out.put(v.stall_us);
  out.put(static_cast<uint64_t>(v.wall));
  out.put(static_cast<uint32_t>(v.process.value()));
  out.put(v.loss_ppm);
  return bytes;
}

Result<Verdict> decode_verdict(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Verdict v;
  v.number = in.get<uint32_t>();
  const auto scope = in.get<uint8_t>();
  v.scope = scope <= static_cast<uint8_t>(Scope::process) ? static_cast<Scope>(scope) : Scope::pair;
  v.faulty = get_name(in);
  v.rank = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  v.other = get_name(in);
  v.kind = get_cause(in, DownCause::tampered);
  v.detected_us = in.get<uint64_t>();
  v.retransmitted_bytes = in.get<uint64_t>();
  v.stall_us = in.get<uint64_t>();
  v.wall = static_cast<TimeNs>(in.get<uint64_t>());
  v.process = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  v.loss_ppm = in.get<uint32_t>();
  if (in.bad()) return Status(Code::remote, "a truncated verdict");
  return v;
}

std::vector<std::byte> encode(const ProbeRequest& request) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  const size_t count = std::min(request.hosts.size(), kProbeHostsMax);
  out.put(static_cast<uint8_t>(count));
  for (size_t i = 0; i < count; ++i) out.put(request.hosts[i]);
  return bytes;
}

Result<ProbeRequest> decode_probe_request(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  ProbeRequest request;
  const size_t count = in.get<uint8_t>();
  if (count > kProbeHostsMax) return Status(Code::remote, "too many hosts to probe");
  for (size_t i = 0; i < count; ++i) request.hosts.push_back(in.get<uint32_t>());
  if (in.bad()) return Status(Code::remote, "a truncated request to probe");
  return request;
}

std::vector<std::byte> encode(const ProbeAnswer& answer) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  const size_t count = std::min(answer.tried.size(), kProbesMax);
  out.put(answer.host);
  out.put(static_cast<uint8_t>(count));
  for (size_t i = 0; i < count; ++i) {
    put_name(out, answer.tried[i].near);
    put_name(out, answer.tried[i].far);
    out.put(static_cast<uint8_t>(answer.tried[i].reached ? 1 : 0));
  }
  return bytes;
}

Result<ProbeAnswer> decode_probe_answer(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  ProbeAnswer answer;
  answer.host = in.get<uint32_t>();
  const size_t count = in.get<uint8_t>();
  if (count > kProbesMax) return Status(Code::remote, "more probes than can be asked for");
  for (size_t i = 0; i < count && !in.bad(); ++i) {
    Reach reach;
    reach.near = get_name(in);
    reach.far = get_name(in);
    reach.reached = in.get<uint8_t>() == 1;
    answer.tried.push_back(std::move(reach));
  }
  if (in.bad()) return Status(Code::remote, "a truncated answer to a probe");
  return answer;
}

}  // namespace r2ccl
