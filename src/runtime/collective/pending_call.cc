#include "runtime/collective/pending_call.h"

#include <algorithm>
#include <vector>

namespace r2ccl {
namespace {

// Returns the elements of each block, of this rank's in an AllToAll.
std::string counts_of(const PlanKey& key) {
  const std::vector<uint64_t>& counts = key.blocks.counts;
  if (counts.empty()) return std::to_string(key.count) + " " + to_string(key.type);
  const auto [least, most] = std::ranges::minmax(counts);
  return std::to_string(least) + " to " + std::to_string(most) + " " + to_string(key.type);
}

std::string describe_collective(const PlanKey& key, const std::string& number) {
  const std::string unequal = key.blocks.counts.empty() ? " " : "V ";
  const std::string counts = counts_of(key);
  const std::string reduced = counts + ", " + to_string(key.op);
  const std::string root = " rank " + std::to_string(key.root.value());
  switch (key.collective) {
    case Collective::barrier:
      return "Barrier " + number;
    case Collective::broadcast:
      return "Broadcast " + number + " (" + counts + " from" + root + ")";
    case Collective::reduce:
      return "Reduce " + number + " (" + reduced + " to" + root + ")";
    case Collective::all_gather:
      return "AllGather" + unequal + number + " (" + counts + " of each rank)";
    case Collective::reduce_scatter:
      return "ReduceScatter" + unequal + number + " (" + reduced + " for each rank)";
    case Collective::gather:
      return "Gather" + unequal + number + " (" + counts + " of each rank to" + root + ")";
    case Collective::scatter:
      return "Scatter" + unequal + number + " (" + counts + " for each rank from" + root + ")";
    case Collective::all_to_all:
      return "AllToAll" + unequal + number + " (" + counts + " for each rank)";
    case Collective::all_reduce:
      break;
  }
  return "AllReduce " + number + " (" + reduced + ")";
}

}  // namespace

std::string describe(const PendingCall& call) {
  const std::string name = call.name.empty() ? "" : " \"" + call.name + "\"";
  const std::string number = std::to_string(call.number) + name;
  if (call.kind == PendingCall::Kind::collective) return describe_collective(call.key, number);
  const bool tagged =
      call.kind == PendingCall::Kind::send_tagged || call.kind == PendingCall::Kind::receive_tagged;
  const bool sends =
      call.kind == PendingCall::Kind::send || call.kind == PendingCall::Kind::send_tagged;
  std::string counts = std::to_string(call.key.count) + " " + to_string(call.key.type);
  if (tagged) counts = "tag " + std::to_string(call.tag) + ", " + (sends ? "" : "up to ") + counts;
  return std::string(sends ? "Send" : "Recv") + (tagged ? "Tagged " : " ") + number + " (" +
         counts + ") " + (sends ? "to" : "from") + " rank " + std::to_string(call.peer.value());
}

}  // namespace r2ccl
