// The word of one end of a path to the other that it has closed the path because of the bytes on
// it.
//
// The localising rank may never read the report of the end that has found wrong bytes: it may be
// dead by then, or out of that end's reach. Then the other end's report would accuse the NICs. So
// both ends report the cause.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class PathExcuses {
 public:
  // The engine must outlive this.
  explicit PathExcuses(ProgressEngine& engine) : engine_(engine) {}

  // Tells the other end that bytes were the cause of this rank's own observation.
  void tell(const Observation& own, PathId path) const;
  // Handles the body of such a notice of this peer. This end may not have noticed the loss yet.
  void hear(Rank peer, std::span<const std::byte> bytes);
  // Takes over the cause that the other end has told for this loss. Returns whether that is news.
  bool apply(Observation& own) const;

 private:
  ProgressEngine& engine_;
  std::vector<Observation> heard_;  // one for each path, the latest
};

}  // namespace r2ccl
