// The orderly end of a communicator: which ranks this one has left, and which have left it. A rank
// leaves another with a notice, once every message between them has arrived. If the communicator is
// the last one of this process that needs their link, the goodbye of the link says it instead.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/engine/members.h"

namespace r2ccl {

class Farewells {
 public:
  // `members` must outlive this.
  explicit Farewells(Members& members) : members_(members), ranks_(members.count()) {}

  // This rank makes no more calls that `rank` takes part in. `last`: the link ends, too.
  void begin(Rank rank, bool last);
  bool begun(Rank rank) const { return at(rank).begun; }
  // The farewell of that rank is not waited for any more. It gets the one of this rank when it
  // leaves.
  void waive(Rank rank) { at(rank).waived = true; }
  bool waived(Rank rank) const { return at(rank).waived; }
  // Returns whether the rank knows that this one has left it, if it is to know.
  bool told(Rank rank) const;
  // The rank has left.
  void on_ended(Rank rank) { at(rank).ended = true; }
  bool ended(Rank rank) const { return at(rank).ended || members_.link(rank)->peer_said_goodbye(); }
  // Returns whether both have left each other, and know it, or the process is gone.
  bool done(Rank rank) const;

  // Tells the ranks that do not know it that this one leaves, without waiting for its messages.
  void tell_at_once();
  // Sends the notices that are due.
  void progress() {
    if (unsent_ > 0) send();
  }

 private:
  struct Parting {
    bool begun = false;
    bool last = false;   // the goodbye of the link says it
    bool told = false;   // the notice has been sent
    bool ended = false;  // the other's notice has come
    bool waived = false;
  };
  void send();
  Parting& at(Rank rank) { return ranks_[static_cast<size_t>(rank.value())]; }
  const Parting& at(Rank rank) const { return ranks_[static_cast<size_t>(rank.value())]; }

  Members& members_;
  std::vector<Parting> ranks_;
  size_t unsent_ = 0;  // notices
};

}  // namespace r2ccl
