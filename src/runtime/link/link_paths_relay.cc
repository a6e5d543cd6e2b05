// The relay path of a link: it goes through a rank of a third host, and is open only while no
// ordinary path carries data. The lower rank opens it, as it opens the others. It asks one rank
// after another, each on another host, until one reaches the peer.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "runtime/link/link_paths.h"

namespace r2ccl {
namespace {

// An ordinary path that has returned may fail again at once, so the relay path stays for a while.
constexpr TimeNs kSurplusKept = 2 * kSecond;
// A peer of which not even the kernel has answered for so long may have no path left, while this
// end still takes one for up. A kernel answers for a process that is stopped.
constexpr TimeNs kSilence = 250 * kMillisecond;
// Hosts that a search asks one after the other without a pause.
constexpr size_t kAskedAtOnce = 3;

}  // namespace

// Begins a search when the link needs one: the pause between two attempts grows with its age.
void LinkPaths::seek_relay(TimeNs now) {
  Path& path = *slots_.back().path;
  const bool needed = !path.state.connected() && may_dial(slots_.back()) && may_open(path, now);
  if (std::exchange(relay_sought_, needed) || !needed) return;
  in_use_ = slots_.size();
  relay_asked_ = 0;
  relay_missed_ = false;
  path.backoff.on_down(now, true);
  path.backoff.on_hint(now);
}

bool LinkPaths::is_cut_off(TimeNs now) const {
  return detector_.silence(now) >= kSilence;
}

// Returns none when no rank of another host is in reach.
std::optional<RelayRoute> LinkPaths::choose_relay(Path& path) {
  auto route = host_.relay_route(end_.peer, relay_turn_);
  if (!route || mutated(Mutant::relay_never)) {
    on_relay_missed(path, "no third host is in reach");
    return std::nullopt;
  }
  relay_turn_ = route->turn;
  return route;
}

void LinkPaths::go_through(const RelayRoute& route, DialRequest& request) {
  request.local_nic = route.local_nic;
  request.remote = route.remote;
  request.options.device = route.device;
  request.options.source = route.source;
  request.relay = DialRelay{route.via, route.remote_nic, {host_.nonce(), host_.nonce()}};
}

void LinkPaths::on_relay_dialed(Path& path, const DialRequest& request) {
  R2CCL_LOG(info, "rank %d is reached through rank %d: no other path is up", end_.peer.value(),
            request.relay->via.value());
  ++relay_turn_;  // when this connection fails, or goes silent, another host comes first
  path.set_nic(request.local_nic);
  path.spec.remote = request.remote;
  relay_route_ = {relay_turn_,
                  request.relay->via,
                  request.local_nic,
                  request.relay->via_nic,
                  request.options.device,
                  request.options.source,
                  request.remote};
}

// The kernel that answered is not the peer's.
void LinkPaths::on_relay_failed(PathSlot& slot, const DialFailure& failure) {
  if (slot.dialer->request().opens == DialOpens::data) return on_join_failed(slot, failure);
  on_relay_missed(*slot.path, failure.why);
}

// The log has one line for a search.
void LinkPaths::on_relay_missed(Path& path, const std::string& why) {
  if (!path.state.connected()) path.note_attempt(why);
  ++relay_turn_;
  if (++relay_asked_ < kAskedAtOnce) path.backoff.on_hint(now());
  if (relay_asked_ < kAskedAtOnce || std::exchange(relay_missed_, true)) return;
  R2CCL_LOG(info, "no rank has relayed to rank %d yet: %s", end_.peer.value(), why.c_str());
}

// Returns when the relay path is to end because an ordinary path has returned.
TimeNs LinkPaths::relay_over_at() const {
  const Path& path = *slots_.back().path;
  if (!path.state.connected() || !path.standby || !opens()) return kNever;
  if (!path.model.outstanding().empty()) return kNever;
  TimeNs since = kNever;
  for (const Path* other : all()) {
    if (!other->standby && serves(*other)) since = std::min(since, other->state.up_since());
  }
  // A silent path still seems up when the relay path opens.
  return since == kNever ? kNever : std::max(since, path.state.up_since()) + kSurplusKept;
}

void LinkPaths::end_surplus_relay(TimeNs now) {
  if (now < relay_over_at()) return;
  fail_path(*slots_.back().path, DownCause::closing, DownCause::none,
            "an ordinary path has returned", now);
}

}  // namespace r2ccl
