// Notices between the engines of two ranks: addresses that changed, NICs that an operator takes out
// of service, and a rank that is silent.
#include <algorithm>
#include <optional>
#include <string>

#include "base/mutant.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/address_codec.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"
#include "runtime/peers/nic_match.h"

namespace r2ccl {
namespace {

std::optional<NicId> find_nic(const RankInfo& info, const std::string& name) {
  for (size_t i = 0; i < info.nics.size(); ++i) {
    if (info.nics[i].name == name) return NicId(static_cast<uint16_t>(i));
  }
  return std::nullopt;
}

}  // namespace

// Tells the peers the present addresses of a NIC.
void ProgressEngine::advertise(NicId nic) {
  const std::vector<Address> sources = nics_.info(nic).addresses;
  const std::vector<std::byte> notice = address_notice(nic);
  for (Link* link : peers_.links()) {
    if (link->peer_ended()) continue;
    link->set_source(nic, sources);
    if (!notice.empty()) {
      link->send_notice({{static_cast<uint8_t>(NoticeKind::address), nic.value()}, notice});
    }
  }
}

std::vector<std::byte> ProgressEngine::address_notice(NicId nic) const {
  if (nic == kNoNic || mutated(Mutant::old_address)) return {};
  const NicInfo info = nics_.info(nic);
  if (info.addresses.empty()) return {};
  std::vector<std::byte> body;
  ByteWriter out(body);
  out.put(nic.value());
  out.put(info.port);
  out.put(static_cast<uint8_t>(info.addresses.size()));
  for (const Address& address : info.addresses) put_address(out, address);
  return make_notice(NoticeKind::address, nic.value(), body).bytes;
}

void ProgressEngine::on_address(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const NicId nic(in.get<uint16_t>());
  const auto port = in.get<uint16_t>();
  const size_t count = in.get<uint8_t>();
  std::vector<Address> addresses;
  for (size_t i = 0; i < count; ++i) {
    if (!get_address(in, addresses.emplace_back())) return;
  }
  RankInfo& info = job_.info(peer);
  if (in.bad() || nic.value() >= info.nics.size()) return;
  const RankInfo before = info;
  NicInfo& known = info.nics[nic.value()];
  known.port = port;
  if (known.addresses != addresses) {
    known.addresses = addresses;
    reserve_places();
  }
  for (size_t i = 0; i < info.nics.size(); ++i) {
    const NicId id(static_cast<uint16_t>(i));
    const std::vector<Address> now = addresses_of(info, id);
    if (id != nic && now == addresses_of(before, id)) continue;
    peers_.find(peer)->set_remote(id, now, info.nics[i].port);
  }
  std::vector<Address> lost = before.nics[nic.value()].addresses;
  std::erase_if(lost, [&](const Address& each) { return has_address(addresses, each); });
  peers_.find(peer)->on_remote_lost(nic, lost);
}

void ProgressEngine::set_drained(NicId nic, bool drained) {
  if (nic.value() >= nics_.count()) return;
  nics_.set_drained(nic, drained);
  std::vector<std::byte> body;
  ByteWriter(body).put(nics_.drained().bits());
  for (Link* link : peers_.links()) {
    if (link->peer_ended()) continue;
    link->set_drained(nics_.drained(), link->drained_remote());
    link->send_notice(make_notice(NoticeKind::drained, body));
  }
}

void ProgressEngine::on_drained(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const NicSet theirs(in.get<uint64_t>());
  if (!in.bad()) peers_.find(peer)->set_drained(nics_.drained(), theirs);
}

std::optional<NicId> ProgressEngine::own_nic(Rank host, const std::string& nic) const {
  const bool here = own_info().host == job_.info(host).host;
  return here ? find_nic(own_info(), nic) : std::nullopt;
}

DrainTally ProgressEngine::tally_drain(Rank host, const std::string& nic) const {
  const HostId& where = job_.info(host).host;
  const NicId local = own_nic(host, nic).value_or(kNoNic);
  DrainTally tally;
  for (const Link* link : peers_.links()) {
    const RankInfo& peer = job_.info(link->peer());
    const bool there = peer.host == where;
    link->tally_drain(local, there ? find_nic(peer, nic).value_or(kNoNic) : kNoNic, tally);
  }
  return tally;
}

// A rank whose link to the host is idle would notice seconds later, and its calls wait all the
// same.
void ProgressEngine::on_silent(Rank peer) {
  std::vector<std::byte> body;
  ByteWriter(body).put(static_cast<uint32_t>(peer.value()));
  for (Link* link : peers_.links()) {
    if (link->peer() == peer || link->peer_ended()) continue;
    link->send_notice(make_notice(NoticeKind::silent, static_cast<uint64_t>(peer.value()), body));
  }
}

void ProgressEngine::on_doubt(std::span<const std::byte> body) {
  ByteReader in(body);
  const Rank rank(static_cast<int32_t>(in.get<uint32_t>()));
  if (in.bad() || !job_.has(rank)) return;
  if (Link* link = peers_.find(rank)) link->doubt();
}

}  // namespace r2ccl
