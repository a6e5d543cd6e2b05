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

// Tells the peers the present addresses of a NIC.
void ProgressEngine::advertise(NicId nic) {
  const std::vector<Address> sources = nics_.info(nic).addresses;
  const std::vector<std::byte> notice = address_notice(nic);
  for (const auto& link : links_) {
    if (link == nullptr || link->peer_ended()) continue;
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
    links_[static_cast<size_t>(peer.value())]->set_remote(id, now, info.nics[i].port);
  }
  std::vector<Address> lost = before.nics[nic.value()].addresses;
  std::erase_if(lost, [&](const Address& each) { return has_address(addresses, each); });
  links_[static_cast<size_t>(peer.value())]->on_remote_lost(nic, lost);
}

}  // namespace r2ccl
