// Paths whose NIC is out of service. They get no new chunks, and their outstanding chunks end by
// themselves. Their connections stay, so that none has to be opened when the NIC returns.
#include <algorithm>

#include "base/mutant.h"
#include "runtime/link/link_paths.h"

namespace r2ccl {
namespace {

// A path that is late for a moment is not down: it returns sooner than an operator pulls a cable.
// If it does not, the drained paths stay in use, and the operator learns that.
bool in_service_soon(const PathState& state) {
  return state.usable() || state.phase() == PathPhase::suspect;
}

}  // namespace

void LinkPaths::set_drained(NicSet local, NicSet remote) {
  drained_local_ = local;
  drained_remote_ = remote;
  for (Path* path : all()) {
    if (path->control_only) continue;
    const bool was = path->drained;
    path->drained = local.contains(path->spec.local_nic) || remote.contains(path->spec.remote_nic);
    // The path may have been repaired in the meantime, so try it at once.
    if (was && !path->drained) path->backoff.on_hint(now());
  }
  choose_standby();
  events_.wake();
}

// A drain never costs a link its last path: when no other path is up, the link uses drained ones,
// and fallbacks.
void LinkPaths::choose_standby() {
  const auto yields = [](const Path* path) { return path->drained || path->spec.fallback; };
  const bool others =
      std::ranges::any_of(all(), [&](const Path* path) { return !yields(path) && serves(*path); });
  for (Path* path : all()) {
    path->standby =
        yields(path) && others && !(path->spec.relay && mutated(Mutant::relay_preferred));
  }
}

// `local`, `remote`: the NIC at this end and the NIC at the peer's end; kNoNic at the end where it
// is not.
void LinkPaths::tally_drain(NicId local, NicId remote, DrainTally& tally) const {
  if (events_.peer_ended() || events_.peer_said_goodbye()) return;
  bool touched = false;
  bool other = false;
  for (Path* path : all()) {
    const PathSpec& spec = path->spec;
    if (path->control_only) continue;
    const bool here = local != kNoNic && spec.local_nic == local;
    const bool there = remote != kNoNic && spec.remote_nic == remote;
    if (!here && !there) {
      other = other || (!path->drained && in_service_soon(path->state));
      continue;
    }
    touched = true;
    const bool marked =
        (here && drained_local_.contains(local)) || (there && drained_remote_.contains(remote));
    const bool in_use = marked && !path->standby && in_service_soon(path->state);
    const bool busy = !path->model.outstanding().empty();
    ++tally.paths;
    tally.up += path->state.usable() ? 1 : 0;
    tally.marked += marked ? 1 : 0;
    tally.in_use += in_use ? 1 : 0;
    tally.busy += busy ? 1 : 0;
    if (!marked || in_use || busy) tally.peer = end_.peer;
  }
  if (!touched || other) return;
  ++tally.stranded;
  tally.stranded_peer = end_.peer;
}

}  // namespace r2ccl
