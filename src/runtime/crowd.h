// How many strangers may wait to prove themselves, and who goes when it is one too many.
//
// A flood must not push out an honest peer that needs a few round trips. So the address that has
// the most strangers here gives one up, and not simply the oldest of all: a host competes with
// itself only, however fast it knocks. And when descriptors have run out, strangers are the first
// to give some back: their number falls to half of those here, for a while.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"
#include "transport/endpoint.h"

namespace r2ccl {

class Crowd {
 public:
  // One stranger's place, given up when it ends or is reset. The crowd outlives it.
  class Place {
   public:
    Place() = default;
    Place(Crowd& crowd, const Address& from);
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { reset(); }
    void reset();
    // It is of an address than which none has more. Of these, who has waited longest is to go.
    bool is_of_the_largest() const;

   private:
    Crowd* crowd_ = nullptr;
    Address from_;
  };

  size_t size() const { return size_; }
  bool too_many() const { return size_ > size_max_; }

  // Descriptors ran out. False when the strangers here are too few to be the reason.
  bool shrink(TimeNs now);
  // Takes as many as ever once the shortage is long enough past.
  void recover(TimeNs now);

 private:
  using Key = std::array<uint8_t, 16>;

  std::map<Key, size_t> of_address_;
  size_t size_ = 0;
  size_t size_max_ = limits::kPendingHandshakesMax;
  TimeNs shrunk_at_ = 0;
};

}  // namespace r2ccl
