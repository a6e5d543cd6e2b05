// The addresses of an engine's NICs, which may change, and those of its peers.
#include <algorithm>

#include "base/log.h"
#include "base/mutant.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/address_codec.h"
#include "runtime/engine/nic_match.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"

namespace r2ccl {

// Returns the addresses that this host had before and has no more.
std::vector<Address> ProgressEngine::note_addresses(const std::vector<Nic>& all) {
  std::vector<Address> lost;
  lost.swap(own_addresses_);
  for (const Nic& nic : all) {
    own_addresses_.insert(own_addresses_.end(), nic.addresses.begin(), nic.addresses.end());
  }
  std::erase_if(lost, [&](const Address& each) { return has_address(own_addresses_, each); });
  return lost;
}

// Every host has the loopback's, also link-local ones mean nothing beyond one link.
bool ProgressEngine::is_own(const Address& address) const {
  if (is_loopback(address)) return false;
  return std::ranges::any_of(own_addresses_,
                             [&](const Address& own) { return same_address(own, address); });
}

// A NIC's identity is not its address: after an outage it may return with another address, or as a
// new device of its name, to which the old listener is not bound. Tells the peers. Returns false
// when this is not possible now.
bool ProgressEngine::advertise(size_t nic, const Nic& now) {
  const NicId id(static_cast<uint16_t>(nic));
  if (nics_[nic].index != now.index) {
    auto port = listen_on(now, id);
    if (!port.ok()) {
      R2CCL_LOG(warn, "%s", port.status().message().c_str());
      return false;
    }
    ports_[nic] = port.value();
    nics_[nic].index = now.index;
  }
  nics_[nic].addresses = now.addresses;
  const std::vector<Address> sources = make_nic_info(nics_[nic], ports_[nic]).addresses;
  const std::vector<std::byte> notice = address_notice(id);
  for (const auto& link : links_) {
    if (link == nullptr || link->peer_ended()) continue;
    link->set_source(id, sources);
    if (!notice.empty()) {
      link->send_notice({{static_cast<uint8_t>(NoticeKind::address), id.value()}, notice});
    }
  }
  return true;
}

std::vector<std::byte> ProgressEngine::address_notice(NicId nic) const {
  if (nic == kNoNic || mutated(Mutant::old_address)) return {};
  const NicInfo info = make_nic_info(nics_[nic.value()], ports_[nic.value()]);
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
    links_[static_cast<size_t>(peer.value())]->set_remote(id, now, info.nics[i].port);
  }
  std::vector<Address> lost = before.nics[nic.value()].addresses;
  std::erase_if(lost, [&](const Address& each) { return has_address(addresses, each); });
  links_[static_cast<size_t>(peer.value())]->on_remote_lost(nic, lost);
}

}  // namespace r2ccl
