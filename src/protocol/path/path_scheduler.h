// Chooses the path of each chunk and of each control frame of one link. Pure: it reads the paths'
// estimates and changes no path.
//
// A chunk goes to the path that would finish it first (earliest completion first, as in the
// multipath schedulers BLEST, Ferlin et al., IFIP Networking 2016, and ECF, Lim et al., CoNEXT
// 2017). Where that path is busy, a slower one may take the chunk only if it finishes before the
// others have sent the rest; otherwise the chunk waits. It differs from ECF in its horizon: ECF
// weighs one chunk, this scheduler everything that is known to wait on the link. The alternative
// not taken is a fixed split by weight: it needs exact rates in advance, and one path that slows
// down delays the whole operation.
//
// A message is cut for as many paths as pay. Each chunk costs processor time, the price, at both
// ends. So a message gets at most as many chunks as take their price on the wire. Whole messages go
// by one path each where the NICs are faster than the processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "protocol/path/path_end.h"

namespace r2ccl {

class PathScheduler {
 public:
  // The paths of the link, by index; they must outlive the scheduler.
  explicit PathScheduler(std::vector<PathEnd*> paths) : paths_(std::move(paths)) {
    for (size_t i = 0; i < paths_.size(); ++i) R2CCL_CHECK(paths_[i]->index == i);
  }

  // --- chunks ---
  struct Choice {
    PathEnd* path = nullptr;     // null: no path is to take the chunk now
    PathEnd* awaited = nullptr;  // a busy path that will finish the chunk sooner than any free one
  };
  // `fresh_bytes`: not yet given to any path. `avoid`: not this path; null: any.
  // `reserved` paths count as busy. `home`: the NIC that takes the chunk where no other is faster
  // beyond the error of the estimates; null: none.
  struct Demand {
    uint64_t bytes = 0;
    uint64_t fresh_bytes = 0;
    const PathEnd* avoid = nullptr;
    std::span<const PathEnd* const> reserved = {};
    const NicQueue* home = nullptr;
  };
  // Where chunks have a price, paths that would finish it at the same time take chunks in turn.
  Choice choose(const Demand& demand, TimeNs now);
  // Returns whether some path takes a frame without payload now.
  bool any_free() const;
  // Returns the chunk size for a message, in bytes; 0 while no path carries chunks, because the
  // size holds for the whole message and no path shows yet which one pays. `messages`: how many,
  // this one included, wait to be sent.
  uint32_t chunk_bytes(uint64_t message_bytes, size_t messages, TimeNs now) const;
  // Sets the processor time that a chunk takes at both ends together, apart from its bytes.
  void set_chunk_price(TimeNs price) { chunk_price_ = price; }
  // Tells each path's model about the best path.
  void compare_paths();
  size_t usable() const;

  // --- control frames ---
  // Returns the longest round trip of a prompt control stream; kNever: none is good. Some frames of
  // other senders may be ahead on any.
  TimeNs prompt_round_trip(TimeNs now) const;
  bool is_prompt(const PathEnd& path, TimeNs now) const;
  // Returns the prompt control streams in turn, else any connected one, else the out-of-band one;
  // null when none takes a frame.
  PathEnd* choose_control(TimeNs now);

  void check_invariants() const;

 private:
  PathModel::Best best_shown() const;
  double busy_rate(uint64_t bytes) const;
  double fastest_rate() const;
  uint64_t chunk_bytes_of_shared_nics() const;
  TimeNs shortest_min_rtt() const;
  size_t paths_for(uint64_t message_bytes, TimeNs now) const;
  size_t chunks_that_pay(uint64_t message_bytes, size_t messages) const;
  TimeNs backlog_done_at(uint64_t fresh_bytes, TimeNs now) const;
  static bool takes(const PathEnd& path, uint64_t bytes);
  PathEnd* find_home(const Demand& demand, TimeNs bound, TimeNs now) const;
  Choice take(PathEnd* path);

  const std::vector<PathEnd*> paths_;
  size_t control_cursor_ = 0;  // <= paths_.size()
  size_t chunk_cursor_ = 0;    // <= paths_.size(): the first candidate of the next chunk
  TimeNs chunk_price_ = 0;     // >= 0
};

}  // namespace r2ccl
