// Tells the peers of a rank that it has run out of memory. The frame is made before, so this takes
// no memory: the links may be half-way through a change.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "protocol/wire/wire.h"
#include "runtime/link/link.h"

namespace r2ccl {

class LastWord {
 public:
  // Reserves memory: `notice` is what the peers are to hear. The last one counts.
  void reserve(std::vector<std::byte> notice);
  // From now on tell() is due, and reserve() is not legal.
  void begin(TimeNs now) noexcept;
  bool begun() const { return begun_at_ != kNever; }
  // Tells the peers that have not been told. Closes the connections when there is nothing to tell,
  // and when some peer has not read for too long.
  void tell(TimeNs now, std::span<Link* const> links);
  // Returns true when the notice is on its way to all peers, or its time is over.
  bool told() const { return told_; }
  // Returns when tell() is due again.
  TimeNs next_timeout(TimeNs now) const;

 private:
  void hang_up(std::span<Link* const> links);
  bool tell_one(Link& link);

  ControlFrame frame_;
  std::vector<std::byte> memory_;  // for its bytes
  TimeNs begun_at_ = kNever;
  bool told_ = false;
};

}  // namespace r2ccl
