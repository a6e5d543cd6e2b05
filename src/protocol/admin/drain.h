// A NIC that an operator takes out of service: who knows of it, and how far it has come. Pure.
//
// A rank owns the state of its own NICs and tells each peer all of it whenever it changes, so both
// ends of a path know whether one of its NICs is out of service. Nobody decides for another rank:
// the operator's wish reaches the ranks that have the NIC as a question, and what every rank
// answers says what is still in the way.
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

// Some of one rank's NICs.
class NicSet {
 public:
  static_assert(limits::kNicsMax <= 64);
  constexpr NicSet() = default;
  constexpr explicit NicSet(uint64_t bits) : bits_(bits) {}

  constexpr uint64_t bits() const { return bits_; }
  // kNoNic is in no set: what is not a NIC cannot be taken out of service.
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
  check = 0,  // how are things? Changes nothing
  drain = 1,
  undo = 2,
  take_back = 3,  // undo, unless anybody but the holder of the ticket has asked for it too
};

inline constexpr size_t kDrainNicBytesMax = 64;

// What every rank of the job is asked. Those of the host do as the verb says, and all answer.
struct DrainQuestion {
  uint32_t number = 0;
  DrainVerb verb = DrainVerb::check;
  Rank host;        // a rank of the host, which stands for it
  std::string nic;  // by its name, because ranks of one host may number them differently
  // Of the command that asks, and of no other: it may take back what it alone asked for. 0: never.
  uint64_t ticket = 0;
  friend bool operator==(const DrainQuestion&, const DrainQuestion&) = default;
};
std::vector<std::byte> encode(const DrainQuestion& question);
Result<DrainQuestion> decode_drain_question(std::span<const std::byte> bytes);

// One rank's paths that end at the NIC, here or at the peer.
struct DrainTally {
  uint32_t paths = 0;
  uint32_t up = 0;         // of these
  uint32_t marked = 0;     // the NIC is out of service, as far as this end knows
  uint32_t in_use = 0;     // and yet used, because their link has no other that is up
  uint32_t busy = 0;       // something is under way on them from this end
  uint32_t stranded = 0;   // links for which no path is left that is up and stays in service
  Rank peer{-1};           // at the other end of a path that is in the way; -1: none is
  Rank stranded_peer{-1};  // at the other end of such a link; -1: there is none
  bool out_of_service() const { return marked == paths && in_use == 0 && busy == 0; }
  friend bool operator==(const DrainTally&, const DrainTally&) = default;
};

// The answer, with the question's number before it.
std::vector<std::byte> encode_drain_answer(uint32_t number, const DrainTally& tally);
struct DrainAnswer {
  uint32_t number = 0;
  DrainTally tally;
};
Result<DrainAnswer> decode_drain_answer(std::span<const std::byte> bytes);

}  // namespace r2ccl
