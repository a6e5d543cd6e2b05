// Bounds the first dials that a rank has open at a time. At the start of a job each rank dials all
// higher ranks. All at once they would need more processor time than the ranks of a host have
// before the dials run out of time, and each dial that is given up costs its peer as much as one
// that succeeds.
//
// Dials are admitted in the order in which they ask. All ranks ask for their peers in the order of
// ranks, so neighbours dial the same peers, one after the other, and no peer gets all ranks' dials
// at once. Driving thread only.
#pragma once

#include <cstddef>
#include <deque>

#include "base/check.h"

namespace r2ccl {

class DialGate {
 public:
  // The place of one dial: none, one in the line, or one inside the gate.
  class Place {
   public:
    class Owner {
     public:
      virtual ~Owner() = default;
      // The place is inside now. Called from inside the call that made room.
      virtual void on_admitted() = 0;
    };

    explicit Place(Owner& owner) : owner_(owner) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { leave(); }

    // Joins the line unless it has a place already. Returns whether it is inside. `gate` must
    // outlive the place.
    bool enter(DialGate& gate);
    // Gives the place back, which may admit another.
    void leave();
    bool waits() const { return gate_ != nullptr && !inside_; }

   private:
    friend class DialGate;
    Owner& owner_;
    DialGate* gate_ = nullptr;  // null: it has no place
    bool inside_ = false;
  };

  explicit DialGate(size_t most) : most_(most) { R2CCL_CHECK(most > 0); }
  DialGate(const DialGate&) = delete;
  DialGate& operator=(const DialGate&) = delete;

  size_t inside() const { return inside_; }
  size_t waiting() const { return line_.size(); }

 private:
  const size_t most_;
  size_t inside_ = 0;
  std::deque<Place*> line_;  // not empty only while as many as may be are inside
};

inline bool DialGate::Place::enter(DialGate& gate) {
  if (gate_ != nullptr) return inside_;
  const bool room = gate.inside_ < gate.most_;
  room ? void(++gate.inside_) : gate.line_.push_back(this);  // which may throw
  gate_ = &gate;
  inside_ = room;
  return inside_;
}

inline void DialGate::Place::leave() {
  if (gate_ == nullptr) return;
  DialGate& gate = *gate_;
  gate_ = nullptr;
  if (!inside_) {
    std::erase(gate.line_, this);
    return;
  }
  inside_ = false;
  --gate.inside_;
  if (gate.line_.empty()) return;
  Place& next = *gate.line_.front();
  gate.line_.pop_front();
  ++gate.inside_;
  next.inside_ = true;
  next.owner_.on_admitted();
}

}  // namespace r2ccl
