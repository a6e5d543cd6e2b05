#include "runtime/collective/pending_call.h"

namespace r2ccl {
namespace {

std::string describe_collective(const PlanKey& key, const std::string& number) {
  const std::string elements = std::to_string(key.count) + " " + to_string(key.type);
  switch (key.collective) {
    case Collective::barrier:
      return "Barrier " + number;
    case Collective::broadcast:
      return "Broadcast " + number + " (" + elements + " from rank " +
             std::to_string(key.root.value()) + ")";
    case Collective::all_reduce:
      break;
  }
  return "AllReduce " + number + " (" + elements + ", " + to_string(key.op) + ")";
}

}  // namespace

std::string describe(const PendingCall& call) {
  const std::string number = std::to_string(call.number);
  if (call.kind == PendingCall::Kind::collective) return describe_collective(call.key, number);
  const bool sends = call.kind == PendingCall::Kind::send;
  return (sends ? "Send " : "Recv ") + number + " (" + std::to_string(call.key.count) + " " +
         to_string(call.key.type) + ") " + (sends ? "to" : "from") + " rank " +
         std::to_string(call.peer.value());
}

}  // namespace r2ccl
