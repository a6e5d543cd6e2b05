#include "runtime/relay/relays.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

// Returns one of the paths between NICs that reach `peer` now, with a data connection or without;
// null: there is none.
const Path* Relays::ordinary_path(Rank peer, size_t turn) const {
  const Link* other = peers_.find(peer);
  if (other == nullptr || other->peer_ended() || other->is_cut_off(clock_.now())) return nullptr;
  std::vector<const Path*> ways;
  for (const Path* path : other->paths()) {
    const bool reaches = path->state.usable() && !path->standby && !path->broken;
    if (reaches && path->spec.local_nic != kNoNic) ways.push_back(path);
  }
  return ways.empty() ? nullptr : ways[turn % ways.size()];
}

// The ranks of a host share its NICs, so each turn asks another host, and each round another rank
// of each. Links begin at different hosts, which spreads the load.
std::optional<RelayRoute> Relays::route(Rank peer, size_t turn) const {
  const size_t own_host = job_.host_of(job_.self());
  const size_t peer_host = job_.host_of(peer);
  const auto first = static_cast<size_t>(job_.self().value() + peer.value());
  size_t rounds = 0;
  for (size_t host = 0; host < job_.hosts(); ++host) {
    rounds = std::max(rounds, job_.ranks_of(host).size());
  }
  for (size_t end = turn + rounds * job_.hosts(); turn < end; ++turn) {
    const size_t host = (first + turn) % job_.hosts();
    const size_t round = turn / job_.hosts();
    if (host == own_host || host == peer_host) continue;
    const std::span<const Rank> ranks = job_.ranks_of(host);
    const Rank via = ranks[(first + round) % ranks.size()];
    const Path* path = ordinary_path(via, round);
    if (path == nullptr) continue;
    const PathSpec& spec = path->spec;
    return RelayRoute{turn,        via,         spec.local_nic, spec.remote_nic,
                      spec.device, spec.source, spec.remote};
  }
  return std::nullopt;
}

// Returns the path by which this rank reaches the rank behind it; null: it does not.
const Path* Relays::path_behind(const ConnectionIdentity& identity) const {
  if (pipes_.full()) return nullptr;
  return ordinary_path(identity.to, static_cast<size_t>(identity.from.value()));
}

Result<AcceptDecision> Relays::on_hello(const ConnectionIdentity& identity) const {
  const auto third_host = [&](Rank rank) {
    return job_.has(rank) && job_.host_of(rank) != job_.host_of(job_.self());
  };
  if (!third_host(identity.from) || !third_host(identity.to) ||
      job_.host_of(identity.from) == job_.host_of(identity.to)) {
    return Status(Code::remote, "a relay between ranks that need none of this host");
  }
  const Path* path = path_behind(identity);
  AcceptDecision decision;
  ByteWriter(decision.payload).put((path != nullptr ? path->spec.remote_nic : kNoNic).value());
  return decision;
}

void Relays::adopt(EstablishedConnection from) {
  const ConnectionIdentity& identity = from.session.identity;
  const Path* path = path_behind(identity);
  if (path == nullptr) return;  // the other end knows, or finds the connection closed
  ConnectOptions options;
  options.device = path->spec.device;
  options.source = path->spec.source;
  auto connection = transport_.connect(path->spec.remote, options);
  if (!connection.ok()) {
    R2CCL_LOG(warn, "cannot relay: %s", connection.status().message().c_str());
    return;
  }
  RelayPipe::End near{identity.from, std::move(from.connection), &nics_.queue(from.came_by), 0};
  if (const Path* back = ordinary_path(identity.from, 0)) near.min_rtt = back->model.base_delay();
  RelayPipe::End far{identity.to, std::move(connection).value(), &nics_.queue(path->nic()),
                     path->model.base_delay()};
  pipes_.open(std::move(near), std::move(far), std::move(from.leftover), clock_.now());
}

}  // namespace r2ccl
