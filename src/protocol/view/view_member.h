// A rank as a member of the agreement on a view: its records of views, and its promises. Pure.
//
// A member obeys the questions in the order of their ballots. While it has accepted a proposal it
// binds no plan from the proposal's start on, until the proposal is committed, aborted or replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/mutant.h"
#include "base/status.h"
#include "protocol/view/view_messages.h"

namespace r2ccl {

// A view's start lies ahead of all ranks, and some may be far behind. A member that has so many
// records ahead of it accepts no further one until it has caught up.
inline constexpr size_t kViewRecordsMax = 16;

class ViewMember {
 public:
  // `first`: the record of all ranks at the start.
  explicit ViewMember(ViewRecord first) { records_.push_back(std::move(first)); }

  // Returns whether the plan of this collective may be bound.
  bool may_bind(uint64_t number) const { return number < gate_; }
  // Requires a number that is not bound yet.
  const View& view_of(uint64_t number) const {
    R2CCL_CHECK(number > bound_);
    return records_.size() == 1 ? records_.front().view : later_view_of(number);
  }
  // The plan of this collective is bound. Numbers come in ascending order.
  void on_bound(uint64_t number) {
    R2CCL_CHECK(number > bound_);
    R2CCL_CHECK(may_bind(number) || mutated(Mutant::view_no_gate));
    bound_ = number;
    if (records_.size() > 1) drop_old_records();
  }

  // Obeys the question unless its ballot is too low.
  void obey(const ViewAsk& ask);
  // Takes over the record that all members have accepted, unless it is known already. Refuses one
  // that no correct rank can have sent.
  Status learn(const ViewRecord& record);

  // Returns the answer to a proposer that knows records up to this version.
  ViewAnswer answer(uint64_t known) const;

  const ViewRecord& latest() const { return records_.back(); }
  uint64_t ballot() const { return ballot_; }
  uint64_t bound() const { return bound_; }
  // Returns the ballot of the proposal that it has accepted; 0: none.
  uint64_t held() const { return held_ ? held_->ballot : 0; }
  bool accepted(uint64_t ballot, uint32_t round) const {
    return held_ && held_->ballot == ballot && held_->round == round;
  }

  void check_invariants() const;
  // Returns a number that is equal for equal states.
  uint64_t fingerprint() const;

 private:
  struct Held {
    uint64_t ballot = 0;
    uint32_t round = 0;
    ViewRecord proposal;
  };
  bool accepts(const ViewRecord& proposal) const;
  const View& later_view_of(uint64_t number) const;
  void drop_old_records();
  void hold(std::optional<Held> held);

  std::vector<ViewRecord> records_;  // ascending versions and starts; the first is in force
  uint64_t bound_ = 0;
  uint64_t ballot_ = 0;  // with round_: of the last question obeyed
  uint32_t round_ = 0;
  std::optional<Held> held_;
  uint64_t gate_ = UINT64_MAX;  // the start of held_'s proposal
};

}  // namespace r2ccl
