#include "runtime/health/nic_windows.h"

#include <optional>

namespace r2ccl {
namespace {

// Calls call(peer, path) for each path to another rank, but for the relays.
template <typename Call>
void for_each_path(const ProgressEngine& engine, const Call& call) {
  for (size_t rank = 0; rank < engine.rank_count(); ++rank) {
    const Rank peer(static_cast<int32_t>(rank));
    const Link* link = engine.link(peer);
    if (link == nullptr) continue;
    for (const Path* path : link->paths()) {
      if (!path->spec.relay) call(peer, *path);
    }
  }
}

}  // namespace

NicWindows::NicWindows(const ProgressEngine& engine, const HostNics& nics, TimeNs now)
    : engine_(engine), nics_(nics) {
  begin(now);
}

void NicWindows::begin(TimeNs now) {
  begun_at_ = now;
  totals_.clear();
  for (size_t nic = 0; nic < engine_.job().own_info().nics.size(); ++nic) {
    const NicQueue& queue = engine_.nics().queue(NicId(static_cast<uint16_t>(nic)));
    totals_.push_back({queue.delivered(), queue.idle(now)});
  }
  sent_.clear();
  for_each_path(engine_, [&](Rank, const Path& path) { sent_.push_back(path.total_bytes_sent()); });
}

std::vector<NicWindow> NicWindows::take(TimeNs now) {
  constexpr double kMost = 0.9;
  std::vector<NicWindow> windows(totals_.size());
  std::vector<uint64_t> sent(windows.size());
  std::vector<uint64_t> most(windows.size());
  size_t index = 0;
  for_each_path(engine_, [&](Rank peer, const Path& path) {
    const uint64_t bytes = path.total_bytes_sent() - sent_[index++];
    const size_t nic = path.spec.local_nic.value();
    if (path.spec.control_only || nic >= windows.size()) return;
    sent[nic] += bytes;
    const std::optional<uint16_t> rail = nics_.rail_of(peer, path.spec.remote_nic);
    if (bytes <= most[nic] || !rail) return;
    most[nic] = bytes;
    windows[nic].host = engine_.job().host_of(peer);
    windows[nic].nic = *rail;
  });
  const auto is_most = [](uint64_t part, uint64_t of) {
    return static_cast<double>(part) >= kMost * static_cast<double>(of);
  };
  for (size_t nic = 0; nic < windows.size(); ++nic) {
    const NicQueue& queue = engine_.nics().queue(NicId(static_cast<uint16_t>(nic)));
    NicWindow& window = windows[nic];
    window.bytes = queue.delivered() - totals_[nic].delivered;
    const TimeNs idle = queue.idle(now) - totals_[nic].idle;
    const bool works = sent[nic] > 0 && is_most(sent[nic], window.bytes);
    if (works) window.busy = now - begun_at_ - idle;
    if (most[nic] == 0 || !is_most(most[nic], sent[nic])) window.host = kSeveralHosts;
  }
  begin(now);
  return windows;
}

}  // namespace r2ccl
