#include "runtime/relay/relay_pipes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {

bool RelayPipes::full() const {
  return pipes_.size() >= limits::kRelayPipesMax;
}

bool RelayPipes::serves(Rank rank) const {
  return std::ranges::any_of(pipes_, [&](const auto& pipe) { return pipe->serves(rank); });
}

void RelayPipes::open(RelayPipe::End near, RelayPipe::End far, std::vector<std::byte> early,
                      TimeNs now) {
  R2CCL_CHECK(!full());
  R2CCL_LOG(info, "relays a connection of rank %d to rank %d", near.rank.value(), far.rank.value());
  pipes_.push_back(
      std::make_unique<RelayPipe>(host_, std::move(near), std::move(far), std::move(early), now));
}

void RelayPipes::progress_all(TimeNs now) {
  for (const auto& pipe : pipes_) pipe->progress(now);
  std::erase_if(pipes_, [](const auto& pipe) { return pipe->over(); });
}

TimeNs RelayPipes::earliest_timeout() const {
  TimeNs next = kNever;
  for (const auto& pipe : pipes_) next = std::min(next, pipe->next_timeout());
  return next;
}

uint64_t RelayPipes::outstanding(const NicQueue& queue) const {
  uint64_t sum = 0;
  for (const auto& pipe : pipes_) sum += pipe->outstanding(queue);
  return sum;
}

size_t RelayPipes::busy(const NicQueue& queue) const {
  size_t sum = 0;
  for (const auto& pipe : pipes_) sum += pipe->busy(queue);
  return sum;
}

void RelayPipes::check_invariants() const {
  for (const auto& pipe : pipes_) pipe->check_invariants();
}

}  // namespace r2ccl
