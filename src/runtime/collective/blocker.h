// The rank that a call waits for, and the reason. Small enough to travel from rank to rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/ids.h"

namespace r2ccl {

struct Blocker {
  enum class Kind : uint8_t {
    none = 0,     // the call waits for no rank
    unknown = 1,  // the rank may still answer
    done = 2,     // the rank has done its part: the bytes are on their way
    running = 3,  // the rank is in the same call
    // A person can act on the remaining states.
    behind = 4,   // its latest collective is `number`
    no_send = 5,  // it has made only `number` Sends to `towards`
    no_recv = 6,  // it has made only `number` Recvs from `towards`
    silent = 7,   // it does not answer, though its process runs
    // For `towards`, with `number` for the tag:
    no_tagged_send = 8,  // it has sent no message that the Recv could take
    no_tagged_recv = 9,  // it has made no Recv that could take the message
    stopped = 10,        // it does not answer, though the kernel of its host does
    unreached = 11,      // neither the rank nor its host answers
  };
  static constexpr Kind kLastKind = Kind::unreached;
  Kind kind = Kind::none;
  Rank rank = kNoRank;
  uint64_t number = 0;
  Rank towards = kNoRank;
  Rank waits_for = kNoRank;  // the blocker itself waits for this rank

  bool actionable() const { return kind >= Kind::behind; }
  bool is_silent() const {
    return kind == Kind::silent || kind == Kind::stopped || kind == Kind::unreached;
  }
  // True when no other rank is known to hold it up.
  bool is_root() const { return actionable() && waits_for == kNoRank; }
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

// Returns "1 Send" or "3 Sends".
std::string count_of(uint64_t count, const char* thing);

// Returns "rank 2 (host h2, pid 4711), which is at 10"; empty when the call waits for no rank.
// `who` names a rank.
std::string describe(const Blocker& blocker, const std::function<std::string(Rank)>& who);

}  // namespace r2ccl
