#include "runtime/health/election.h"

#include <algorithm>

namespace r2ccl {

Rank deciding_rank(const ProgressEngine& engine, const std::vector<bool>& ended) {
  for (int32_t rank = 0; rank < engine.self().value(); ++rank) {
    const Link* link = engine.link(Rank(rank));
    // A rank that leaves itself does not count the others that leave as ended.
    if (ended[static_cast<size_t>(rank)] || link->peer_said_goodbye()) continue;
    const auto connected = [](const Path* path) { return path->state.connected(); };
    if (std::ranges::any_of(link->paths(), connected)) return Rank(rank);
  }
  return engine.self();
}

}  // namespace r2ccl
