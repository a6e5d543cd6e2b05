// Limits the number of pending handshakes, and chooses the one to evict when there is one too many.
//
// A flood must not push out an honest peer that needs a few round trips. So the limiter evicts from
// the address with the most pending connections, and not simply the oldest of all: a host competes
// with itself only, however fast it connects. An IPv6 /64 counts as one address, because its owner
// can use all of it. A flood from many addresses leaves each connection little time; so the
// addresses of the rank table have reserved places. When descriptors have run out, the limit falls
// for a while to half of the pending connections, so that they are the first to give descriptors
// back.
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

class HandshakeLimiter {
 public:
  // Enough for the ranks of a host that connect at once by the same address, with two connections
  // each.
  static constexpr size_t kReservedPlaces = 32;

  // The place of one pending connection, given up when it ends or is reset. The limiter outlives
  // it.
  class Place {
   public:
    Place() = default;
    Place(HandshakeLimiter& limiter, const Address& from);
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { reset(); }
    void reset();
    bool is_taken() const { return limiter_ != nullptr; }
    // Returns true when the place is not reserved and no other address has more places. The limiter
    // evicts the oldest such connection.
    bool is_of_the_largest() const;
    // Returns true for one of its address's reserved places, which are not counted.
    bool is_reserved() const { return reserved_; }

   private:
    HandshakeLimiter* limiter_ = nullptr;
    std::array<uint8_t, 16> from_{};  // a Key
    bool reserved_ = false;
  };

  // Replaces the addresses of the peers. Each gets kReservedPlaces of its own.
  void reserve(const std::vector<Address>& peers);

  // Returns the number of places, reserved ones excluded.
  size_t size() const { return size_; }
  bool too_many() const { return size_ > size_max_; }

  // Lowers the limit after descriptors ran out. Returns false when too few connections are pending
  // to be the cause.
  bool shrink(TimeNs now);
  // Restores the limit once the shortage is long enough past.
  void recover(TimeNs now);

 private:
  using Key = std::array<uint8_t, 16>;

  static Key whole(const Address& address);
  static Key network(const Address& address);

  std::map<Key, size_t> of_network_;
  // By the number of their places. It only grows, so the end of a place needs no memory.
  std::vector<size_t> networks_with_;
  size_t most_ = 0;                 // places of the largest networks; 0: there are none
  std::map<Key, size_t> reserved_;  // reserved places in use, by peer address
  size_t size_ = 0;
  size_t size_max_ = limits::kPendingHandshakesMax;
  TimeNs shrunk_at_ = 0;
};

}  // namespace r2ccl
