// The question whether a NIC is out of service, and the answers of the ranks: which rank knows of
// it, and how far the drain has come. Pure.
//
// A rank owns the state of its own NICs and tells each peer all of it at every change. So both ends
// of a path know whether one of its NICs is out of service. No rank decides for another one: the
// operator's command reaches the ranks that have the NIC as a question, and each rank's answer
// tells which of its paths still use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"

namespace r2ccl {

// A set of one rank's NICs.
class NicSet {
 public:
  static_assert(limits::kNicsMax <= 64);
  constexpr NicSet() = default;
  constexpr explicit NicSet(uint64_t bits) : bits_(bits) {}

  constexpr uint64_t bits() const { return bits_; }
  // Returns whether the NIC is in the set. kNoNic is in no set: only a NIC can be taken out of
  // service.
  constexpr bool contains(NicId nic) const {
    return nic.value() < limits::kNicsMax && (bits_ >> nic.value() & 1) != 0;
  }
  constexpr void set(NicId nic, bool member) {
    if (nic.value() >= limits::kNicsMax) return;
    const uint64_t bit = uint64_t{1} << nic.value();
    bits_ = member ? bits_ | bit : bits_ & ~bit;
  }
  friend bool operator==(NicSet, NicSet) = default;

 private:
  uint64_t bits_ = 0;
};

enum class DrainVerb : uint8_t {
  check = 0,  // asks for the state; changes nothing
  drain = 1,
  undo = 2,
  take_back = 3,  // undo, unless a command other than the ticket's has asked for it too
};

inline constexpr size_t kDrainNicBytesMax = 64;

// The question to every rank of the job. The ranks of the host act on the verb, and all ranks
// answer.
struct DrainQuestion {
  DrainVerb verb = DrainVerb::check;
  Rank host;        // a rank of the host, which stands for it
  std::string nic;  // its name, because ranks of one host may number NICs differently
  // Identifies one command, which may take back only its own requests. 0: never.
  uint64_t ticket = 0;
  friend bool operator==(const DrainQuestion&, const DrainQuestion&) = default;
};
std::vector<std::byte> encode(const DrainQuestion& question);
Result<DrainQuestion> decode_drain_question(std::span<const std::byte> bytes);

// One rank's paths that end at the NIC, here or at the peer.
struct DrainTally {
  uint32_t paths = 0;
  uint32_t up = 0;         // part of these
  uint32_t marked = 0;     // the NIC is out of service, as far as this end knows
  uint32_t in_use = 0;     // and yet used, because their link has no other that is up
  uint32_t busy = 0;       // this end has bytes outstanding on them
  uint32_t stranded = 0;   // links without a path that is up and stays in service
  Rank peer{-1};           // at the other end of a path that still uses the NIC; -1: none
  Rank stranded_peer{-1};  // at the other end of such a link; -1: none
  bool out_of_service() const { return marked == paths && in_use == 0 && busy == 0; }
  friend bool operator==(const DrainTally&, const DrainTally&) = default;
};

std::vector<std::byte> encode(const DrainTally& tally);
Result<DrainTally> decode_drain_tally(std::span<const std::byte> bytes);

}  // namespace r2ccl
