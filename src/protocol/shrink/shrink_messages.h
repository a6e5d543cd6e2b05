// The messages by which the ranks of a communicator agree on a smaller one, and their bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "plan/hosts/view.h"

namespace r2ccl {

// Runs of consecutive ranks in the list of a message: so many fit into a notice.
inline constexpr size_t kShrinkRunsMax = 400;

// The communicator that a rank wants. Ranks want the same one when their subjects are equal.
struct ShrinkSubject {
  std::vector<Rank> excluded;  // in ascending order
  uint32_t ordinal = 0;        // how many the rank has made with this list before
  friend bool operator==(const ShrinkSubject&, const ShrinkSubject&) = default;
};

// A call of the sender.
struct ShrinkWish {
  uint32_t serial = 0;  // the number of its calls; 0: no call waits
  bool withdrawn = false;
  ShrinkSubject subject;
  friend bool operator==(const ShrinkWish&, const ShrinkWish&) = default;
};

// Asks a rank for its wish, and whether it has made a communicator.
struct ShrinkQuestion {
  uint32_t round = 0;
  // The sender decides in place of the lower ranks that stay, which have gone. A rank that has
  // answered hears none of these about the subject any more.
  bool takes_over = false;
  ShrinkSubject subject;
  friend bool operator==(const ShrinkQuestion&, const ShrinkQuestion&) = default;
};

struct ShrinkAnswer {
  uint32_t round = 0;  // the question's; 0: the answer to none
  ShrinkWish wish;
  bool made = false;  // the sender has made the communicator of the question
  View view;          // that it has begun with; empty unless made
  friend bool operator==(const ShrinkAnswer&, const ShrinkAnswer&) = default;
};

enum class ShrinkOutcome : uint8_t {
  made = 0,
  died = 1,          // ranks
  cut_off = 2,       // ranks
  left = 3,          // ranks
  lists_differ = 4,  // ranks: one that has the other list
  not_called = 5,    // ranks, within the coordinator's patience
  aborted = 6,       // ranks
};

struct ShrinkDecision {
  uint32_t serial = 0;  // the receiver's call; 0: none, it is news for an excluded rank
  ShrinkSubject subject;
  Rank by;  // the coordinator
  ShrinkOutcome outcome = ShrinkOutcome::made;
  std::vector<Rank> ranks;  // at fault; at most 32
  std::vector<Rank> other;  // the list that differs
  View view;                // that the new communicator begins with
  friend bool operator==(const ShrinkDecision&, const ShrinkDecision&) = default;
};

using ShrinkMessage = std::variant<ShrinkWish, ShrinkQuestion, ShrinkAnswer, ShrinkDecision>;

// Returns the slot of the message: a later one from the same rank to the same rank may replace it
// before it is delivered. Messages that the receiver may wait for share none with others.
uint64_t slot_of(const ShrinkMessage& message);
// Returns the view, or the empty one if messages have no room for it. The new communicator then
// finds the rates by itself.
View fitting(const View& view);

// Returns whether messages can name this list of ranks, which are in ascending order.
bool fits_shrink(const std::vector<Rank>& excluded);

std::vector<std::byte> encode(const ShrinkMessage& message);
// `ranks` and `hosts`: of the communicator. Refuses truncated and surplus bytes, lists that are not
// in order, other ranks, and a view of other hosts.
Result<ShrinkMessage> decode_shrink_message(std::span<const std::byte> bytes, int32_t ranks,
                                            size_t hosts);

}  // namespace r2ccl
