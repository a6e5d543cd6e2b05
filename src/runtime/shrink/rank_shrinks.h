// The smaller communicators that some ranks of a communicator make: carries their agreement over
// notices. It works while the communicator has failed, too.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/shrink/shrink_agreement.h"
#include "runtime/engine/members.h"

namespace r2ccl {

class RankShrinks {
 public:
  // Both must outlive this. `hosts`: of a view. `patience`: as ShrinkAgreement.
  RankShrinks(Members& members, size_t hosts, const Clock& clock, TimeNs patience);

  // As ShrinkAgreement. Fails when these ranks cannot make a communicator.
  Status call(std::vector<Rank> excluded, const View& view);
  void withdraw();
  bool waits() const { return called_ && !agreement_.outcome(); }
  const std::optional<ShrinkDecision>& outcome() const { return agreement_.outcome(); }
  // As ShrinkAgreement.
  std::vector<ShrinkSubject> take_ghosts() { return agreement_.take_ghosts(); }
  // Returns Ok for a communicator that is made, or the error of the call.
  Status result() const;

  void on_message(Rank rank, std::span<const std::byte> body);
  void on_gone(Rank rank, ShrinkOutcome how);
  // Tells the others which communicators this rank has made, before it leaves.
  void tell_last_words();
  void progress(TimeNs now) {
    if (now >= agreement_.next_timeout()) step(now);
  }
  TimeNs next_timeout() const { return agreement_.next_timeout(); }

  const ShrinkAgreement& agreement() const { return agreement_; }
  // Returns how many messages were refused because no correct rank sends them.
  uint64_t refused() const { return refused_; }

 private:
  void step(TimeNs now);
  void send(const std::vector<ShrinkSend>& sends);
  std::string names(const std::vector<Rank>& ranks) const;
  Status lists_differ(const ShrinkDecision& decision) const;
  Status excluded() const;

  Members& members_;
  const size_t hosts_;
  const Clock& clock_;
  const TimeNs patience_;
  ShrinkAgreement agreement_;
  bool called_ = false;
  bool told_exclusion_ = false;
  uint64_t refused_ = 0;
};

}  // namespace r2ccl
