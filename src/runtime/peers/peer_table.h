// The links of a rank to its peers, and which of them have work. A pass visits only these.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "runtime/link/busy_links.h"
#include "runtime/link/link.h"
#include "runtime/peers/link_schedule.h"
#include "runtime/peers/pause_meter.h"

namespace r2ccl {

class PeerTable {
 public:
  // Makes room for links to ranks below `ranks`.
  void reserve(size_t ranks);
  // Adds the link to a peer. The links are in the order of their peers.
  void add(std::unique_ptr<Link> link);

  // Returns null if there is no link to that rank: it is this one.
  Link* find(Rank peer) { return slots_[index(peer)].link.get(); }
  const Link* find(Rank peer) const { return slots_[index(peer)].link.get(); }
  std::span<Link* const> links() { return links_; }
  std::span<const Link* const> links() const { return {links_.data(), links_.size()}; }
  // Returns the number of ranks, this one included.
  size_t ranks() const { return slots_.size(); }
  // The links count themselves there. It is part of this table, for they must not outlive it.
  BusyLinks& busy_links() { return busy_links_; }

  // The link to `peer` has work: its progress() is due. Called from anywhere.
  void wake(Rank peer) { schedule_.mark(index(peer)); }
  // Marks each link whose deadline has come.
  void mark_due(TimeNs now) { schedule_.mark_due(now); }
  // Lets the links that have work do it, for about `share` at most. A link compensates
  // for the pauses since its last pass before it does anything else, so a pause costs nothing for
  // the links that have no work.
  void progress(TimeNs now, TimeNs share, PauseMeter& pauses);
  // Returns whether a link has more to do at once.
  bool has_more() const { return schedule_.any_marked(); }
  // Returns whether chunks wait for a path, or a path for its connection.
  bool has_unsent() const { return has_more() || unsent_links_ > 0; }
  // Returns the earliest time when a link has work if nothing happens.
  TimeNs next_deadline() const { return schedule_.next_deadline(); }

  // CHECKs the links, and their marks and deadlines: none may wait for work that no pass does.
  void check_invariants() const;

 private:
  struct Slot {
    std::unique_ptr<Link> link;
    // Its last pass.
    TimeNs at = 0;
    TimeNs pauses = 0;  // that it has compensated for
    bool unsent = false;
  };

  static size_t index(Rank peer) { return static_cast<size_t>(peer.value()); }

  LinkSchedule schedule_;  // outlives the links, as busy_links_ does
  BusyLinks busy_links_;
  std::vector<Slot> slots_;   // by rank
  std::vector<Link*> links_;  // those of slots_
  size_t unsent_links_ = 0;   // that had unsent chunks after their last pass
};

}  // namespace r2ccl
