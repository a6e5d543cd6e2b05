// The messages by which the ranks of a communicator agree on a view, and their bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/status.h"
#include "plan/hosts/view.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

// A view that is in force from one collective of the communicator on. Versions are dense: two
// records of one version are equal.
struct ViewRecord {
  uint64_t version = 0;
  uint64_t start = 0;  // the number of the first collective whose plan follows the view
  View view;
  friend bool operator==(const ViewRecord&, const ViewRecord&) = default;
};

enum class ViewStage : uint8_t {
  collect = 0,  // asks for the member's state, and for its promise to obey no lower ballot
  propose = 1,  // asks the member to bind nothing from the proposal's start on
  release = 2,  // the proposal is aborted: the member's promise to bind nothing ends
};

// A proposer's question to a member. A later (ballot, round) replaces an earlier one.
struct ViewAsk {
  uint64_t ballot = 0;  // its remainder by the number of ranks is the proposer's rank
  uint32_t round = 0;
  ViewStage stage = ViewStage::collect;
  uint64_t known = 0;                  // the version of the proposer's latest record
  std::optional<ViewRecord> proposal;  // set exactly in `propose`
  friend bool operator==(const ViewAsk&, const ViewAsk&) = default;
};

// A member's state. The ballot and the round are those of the last question that it has obeyed.
struct ViewAnswer {
  uint64_t ballot = 0;
  uint32_t round = 0;
  bool accepted = false;  // the proposal of that question
  uint64_t held = 0;      // the ballot of the proposal that keeps it from binding; 0: none
  uint64_t bound = 0;     // the number of the last collective whose plan is bound
  uint64_t version = 0;   // of its latest record
  std::optional<ViewRecord> record;  // the latest one, if the proposer lacks it
  friend bool operator==(const ViewAnswer&, const ViewAnswer&) = default;
};

// Tells a member that all members have accepted the record. The ballot is the proposer's: a member
// that has obeyed a higher one gets its decision from that proposer.
struct ViewCommit {
  uint64_t ballot = 0;
  ViewRecord record;
  friend bool operator==(const ViewCommit&, const ViewCommit&) = default;
};

using ViewMessage = std::variant<ViewAsk, ViewAnswer, ViewCommit>;

// Parts of other messages. get_view() is as decode_view_message().
void put_view(ByteWriter& out, const View& view);
Result<View> get_view(ByteReader& in, size_t hosts);

std::vector<std::byte> encode(const ViewMessage& message);
// `hosts`: of the communicator. Refuses truncated and surplus bytes, a view of other hosts, and
// every view that View::of refuses.
Result<ViewMessage> decode_view_message(std::span<const std::byte> bytes, size_t hosts);

}  // namespace r2ccl
