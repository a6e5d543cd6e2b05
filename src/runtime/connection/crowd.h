// How many strangers may wait to prove themselves, and which one goes when it is one too many.
//
// A flood must not push out an honest peer that needs a few round trips. So the address that has
// the most strangers here gives one up, and not simply the oldest of all: a host competes with
// itself only, however fast it knocks. An IPv6 /64 is one address here, because its owner can use
// all of it. A flood from many addresses leaves each stranger little time; so the addresses of the
// rank table have places of their own, which nothing else takes. And when descriptors have run out,
// strangers are the first to give some back: their number falls to half of those here, for a while.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "transport/endpoint.h"

namespace r2ccl {

class Crowd {
 public:
  // For the ranks of a host that come by the same address at once, each with two connections.
  static constexpr size_t kReservedPlaces = 32;

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
    // It is one of its address's own places, and is not counted.
    bool is_reserved() const { return reserved_; }

   private:
    Crowd* crowd_ = nullptr;
    std::array<uint8_t, 16> from_{};  // a Key
    bool reserved_ = false;
  };

  // The addresses that peers have from now on. Each has kReservedPlaces of its own.
  void reserve(const std::vector<Address>& peers);

  // Without those in reserved places.
  size_t size() const { return size_; }
  bool too_many() const { return size_ > size_max_; }

  // Descriptors ran out. False when the strangers here are too few to be the reason.
  bool shrink(TimeNs now);
  // Takes as many as ever once the shortage is long enough past.
  void recover(TimeNs now);

 private:
  using Key = std::array<uint8_t, 16>;

  static Key whole(const Address& address);
  static Key network(const Address& address);

  std::map<Key, size_t> of_network_;
  std::map<size_t, size_t> networks_with_;  // by the number of their places
  std::map<Key, size_t> reserved_;          // by peer address: its own places in use
  size_t size_ = 0;
  size_t size_max_ = limits::kPendingHandshakesMax;
  TimeNs shrunk_at_ = 0;
};

}  // namespace r2ccl
