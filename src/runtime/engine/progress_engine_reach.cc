// Looks for the cause at this host's NICs when a rank is out of reach, and tells people, who would
// otherwise see a job that stands still.
#include <algorithm>

#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/link/notice.h"

namespace r2ccl {

// A rank whose link to the host is idle would notice seconds later, and its calls wait all the
// same.
void ProgressEngine::on_silent(Rank peer) {
  std::vector<std::byte> body;
  ByteWriter(body).put(static_cast<uint32_t>(peer.value()));
  for (const auto& link : links_) {
    if (link == nullptr || link->peer() == peer || link->peer_ended()) continue;
    link->send_notice(make_notice(NoticeKind::silent, static_cast<uint64_t>(peer.value()), body));
  }
}

void ProgressEngine::on_doubt(std::span<const std::byte> body) {
  ByteReader in(body);
  const auto rank = in.get<uint32_t>();
  if (in.bad() || rank >= links_.size()) return;
  if (Link* link = links_[rank].get()) link->doubt();
}

// One line for each host, however many ranks it has.
void ProgressEngine::on_unreached(Rank peer, bool own, const std::string& why) {
  const RankInfo& info = job_.info(peer);
  Unreached& host = unreached_[own ? own_info().host : info.host];
  if (host.ranks.empty()) {
    host.since = clock().now();
    host.name = own ? "this host (" + own_info().host_name + ")" : r2ccl::describe(info);
    R2CCL_LOG(warn, "%s is out of reach: %s; calls wait up to %lld s (R2CCL_CUTOFF_S)",
              host.name.c_str(), why.c_str(),
              static_cast<long long>(options_.link.cutoff / kSecond));
  }
  host.ranks.insert(peer);
}

void ProgressEngine::on_reached(Rank peer) {
  for (auto& [id, host] : unreached_) {
    if (host.ranks.erase(peer) == 0 || !host.ranks.empty()) continue;
    R2CCL_LOG(warn, "%s is reached again, after %.1f s", host.name.c_str(),
              static_cast<double>(clock().now() - host.since) / 1e9);
  }
}

}  // namespace r2ccl
