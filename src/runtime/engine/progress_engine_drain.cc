// NICs that an operator takes out of service, at this rank and at its peers.
#include <optional>
#include <string>

#include "protocol/wire/byte_io.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

std::optional<NicId> find_nic(const RankInfo& info, const std::string& name) {
  for (size_t i = 0; i < info.nics.size(); ++i) {
    if (info.nics[i].name == name) return NicId(static_cast<uint16_t>(i));
  }
  return std::nullopt;
}

}  // namespace

void ProgressEngine::set_drained(NicId nic, bool drained) {
  if (nic.value() >= nics_.count()) return;
  nics_.set_drained(nic, drained);
  std::vector<std::byte> body;
  ByteWriter(body).put(nics_.drained().bits());
  for (const auto& link : links_) {
    if (link == nullptr || link->peer_ended()) continue;
    link->set_drained(nics_.drained(), link->drained_remote());
    link->send_notice(make_notice(NoticeKind::drained, body));
  }
}

void ProgressEngine::on_drained(Rank peer, std::span<const std::byte> body) {
  ByteReader in(body);
  const NicSet theirs(in.get<uint64_t>());
  if (!in.bad()) links_[static_cast<size_t>(peer.value())]->set_drained(nics_.drained(), theirs);
}

std::optional<NicId> ProgressEngine::own_nic(Rank host, const std::string& nic) const {
  const bool here = own_info().host == job_.info(host).host;
  return here ? find_nic(own_info(), nic) : std::nullopt;
}

DrainTally ProgressEngine::tally_drain(Rank host, const std::string& nic) const {
  const HostId& where = job_.info(host).host;
  const NicId local = own_nic(host, nic).value_or(kNoNic);
  DrainTally tally;
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    const RankInfo& peer = job_.info(link->peer());
    const bool there = peer.host == where;
    link->tally_drain(local, there ? find_nic(peer, nic).value_or(kNoNic) : kNoNic, tally);
  }
  return tally;
}

}  // namespace r2ccl
