// Addresses that are lost under a connected path, and a peer that nothing reaches.
#include <algorithm>
#include <span>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "runtime/link/link_paths.h"

namespace r2ccl {

void LinkPaths::lose_address(PathSlot& slot, DownCause cause, DownCause peer_cause,
                             const std::string& why) {
  Path& path = *slot.path;
  R2CCL_CHECK(path.state.connected());
  events_.wake();
  fail_path(path, cause, peer_cause, why, now());
  slot.call_due = !opens() && !path.spec.relay;
  hint(slot);
}

// The kernel sends nothing from an address that is gone, and reports no error. So the path is down
// at once, also the last one: no comparison with other paths would ever show it.
void LinkPaths::on_source_lost(std::span<const Address> lost) {
  for (PathSlot& slot : std::span(slots_).first(in_use_)) {
    Path& path = *slot.path;
    const Address local = path.local_address();
    if (!has_address(lost, local)) continue;
    // A path of no NIC has a fixed source; from now on the kernel chooses one.
    if (path.spec.local_nic == kNoNic) path.spec.source = {};
    lose_address(slot, DownCause::address_lost, DownCause::none,
                 path.spec.local_name + " has lost its address " + to_string(local));
  }
}

// The peer said so in a call, or on another path: it sends nothing on this one any more.
void LinkPaths::on_remote_lost(NicId remote_nic, std::span<const Address> lost) {
  for (PathSlot& slot : std::span(slots_).first(in_use_)) {
    Path& path = *slot.path;
    if (path.spec.remote_nic != remote_nic || !has_address(lost, path.remote_address())) continue;
    lose_address(slot, DownCause::peer_notice, DownCause::address_lost,
                 "the peer's NIC has lost its address " + to_string(path.remote_address()));
  }
}

void LinkPaths::doubt() {
  const bool asks = settings_.monitor && !liveness_.all_down() && !events_.peer_ended();
  if (asks) detector_.on_doubt(now());
  events_.wake();
}

void LinkPaths::watch_reach(TimeNs now) {
  const TimeNs away = liveness_.away(detector_.silence(now), now);
  const bool any_down = std::ranges::any_of(
      all(), [](const Path* path) { return !path->state.connected() && path->history.downs > 0; });
  if (away >= limits::kNicsLookSilent) {
    host_.doubt_nics(limits::kNicsLookSilent);
  } else if (any_down) {
    host_.doubt_nics(limits::kNicsLookDown);
  }
  const bool over = events_.peer_said_goodbye() || events_.said_goodbye() || events_.peer_ended();
  if (over) return;
  if (away == 0) silent_told_ = false;
  if (!silent_told_ && away >= limits::kNicsLookSilent) {
    silent_told_ = true;
    host_.on_silent(end_.peer);
  }
  if (!unreached_ && away >= limits::kUnreachedTold) {
    unreached_ = true;
    const Unreached cause = why_unreached();
    host_.on_unreached(end_.peer, cause.own,
                       cause.why.empty() ? "nothing comes from it" : cause.why);
  } else if (unreached_ && away == 0) {
    unreached_ = false;
    host_.on_reached(end_.peer);
  }
}

// The host of the failed NIC knows why it fails.
LinkPaths::Unreached LinkPaths::why_unreached() const {
  std::string theirs;
  for (const Path* path : all()) {
    if (path->state.connected() || path->control_only || path->spec.relay) continue;
    const Path::History& history = path->history;
    if (direct(history.cause)) return {true, history.why};
    if (direct(history.peer_cause)) theirs = history.why;
  }
  return {false, theirs};
}

}  // namespace r2ccl
