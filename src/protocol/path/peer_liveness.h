// Decides whether the peer of a link still exists: it left in order, its process died, or its host
// is cut off. Pure.
//
// Death needs the evidence of the peer's kernel (DeathEvidence). A host is cut off when nothing has
// reached it for longer than a bound, as in the session timeout of a membership service (ZooKeeper,
// USENIX ATC 2010). It differs in that a short interruption of the host itself does not count.
// The alternative not taken is to declare the peer dead when all its connections broke: a switch
// that restarts breaks them too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "protocol/path/death_evidence.h"

namespace r2ccl {

// How a peer ended.
enum class PeerEnd : uint8_t {
  goodbye,  // in order
  dead,     // its kernel refuses every connection: the process is gone
  cut_off,  // nothing reaches it for longer than the bound
};

class PeerLiveness {
 public:
  // `cutoff`: the time after which a host is cut off.
  PeerLiveness(size_t paths, TimeNs cutoff) : evidence_(paths), cutoff_(cutoff) {}

  // --- evidence ---
  // Records that the peer, or a kernel in its place, accepted or acknowledged something.
  void on_alive() {
    evidence_.on_alive();
    doubtful_ = false;
  }
  // Records that the kernel at an address that was the peer's refused a new connection of this
  // path.
  void on_refused(size_t path, TimeNs now) { evidence_.on_refused(path, now); }
  // Records how the path's connections ended.
  void on_failed(size_t path, KernelClose closed, TimeNs now) {
    evidence_.on_failed(path, closed, now);
  }
  void on_explained(size_t path) { evidence_.on_explained(path); }
  // Records how another connection of a path that has failed has ended.
  void on_closed(size_t path, KernelClose closed) { evidence_.on_closed(path, closed); }
  // Records that no path is connected. Returns whether that is new.
  bool on_all_down(TimeNs now);
  void on_connected() { all_down_since_ = 0; }
  // Records for how long the whole peer has been silent. If a kernel has closed some of its
  // connections, the others may be in a black hole, where nothing tells of the end. Returns whether
  // that is a new doubt: new connections of the closed paths show whether the peer lives.
  bool on_silence(TimeNs silence, TimeNs now);
  // `carries`: a data path is up or suspect. `carried`: one has ever been.
  void on_data_paths(bool carries, bool carried, TimeNs now);
  // Records that the loop of this process stood still for `duration`.
  void compensate_idle(TimeNs duration, TimeNs now);

  bool all_down() const { return all_down_since_ != 0; }
  // Returns whether no path works, as far as this end knows.
  bool seeks() const { return all_down() || doubtful_; }
  // Returns whether the peer may be dead: its kernel refuses, and has not done so for long enough.
  bool may_be_dead() const { return seeks() && evidence_.refusals() > 0; }
  // Returns the time for which no message could reach the peer. `silence`: as in check().
  TimeNs away(TimeNs silence, TimeNs now) const;
  struct End {
    PeerEnd end;
    std::string why;
  };
  struct Goodbye {
    bool heard = false;  // the peer said goodbye
    // Both ends did, and a third rank relayed: this end may get no answer of the peer's kernel.
    bool relayed = false;
  };
  // Returns how the peer ended, once it has. `silence`: of the whole peer, by the failure detector.
  std::optional<End> check(Goodbye goodbye, TimeNs silence, TimeNs now) const;
  // Returns the time at which check() is due again if nothing happens before.
  TimeNs next_timeout(TimeNs now) const;

  void check_invariants() const;

 private:
  DeathEvidence evidence_;
  const TimeNs cutoff_;        // > 0
  TimeNs all_down_since_ = 0;  // 0: some path is connected, or none has ever been
  bool doubtful_ = false;      // a path is connected, and perhaps in a black hole
  TimeNs no_data_since_ = 0;   // 0: some path carries data, or none ever has
};

}  // namespace r2ccl
