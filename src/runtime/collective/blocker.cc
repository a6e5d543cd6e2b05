#include "runtime/collective/blocker.h"

namespace r2ccl {
std::string count_of(uint64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

namespace {

std::string reason(const Blocker& blocker) {
  const std::string towards = "rank " + std::to_string(blocker.towards.value());
  switch (blocker.kind) {
    case Blocker::Kind::none:
    case Blocker::Kind::unknown:
      return "";
    case Blocker::Kind::done:
      return ", which has done its part: the bytes are on their way";
    case Blocker::Kind::running:
      return ", which is in it, too";
    case Blocker::Kind::behind:
      return blocker.number == 0 ? ", which has called no collective yet"
                                 : ", which is at " + std::to_string(blocker.number);
    case Blocker::Kind::no_send:
      return ", which has made " + count_of(blocker.number, "Send") + " to " + towards;
    case Blocker::Kind::no_recv:
      return ", which has made " + count_of(blocker.number, "Recv") + " from " + towards;
    case Blocker::Kind::no_tagged_send:
      return ", which has sent no further message with tag " + std::to_string(blocker.number) +
             " to " + towards;
    case Blocker::Kind::no_tagged_recv:
      return ", which has made no further Recv with tag " + std::to_string(blocker.number) +
             " from " + towards;
    case Blocker::Kind::silent:
      return ", which does not answer, though its process runs: it may not have made this "
             "communicator yet";
    case Blocker::Kind::stopped:
      return ", which does not answer, though its host's kernel does: it is stopped, swapping, or "
             "has no CPU time";
    case Blocker::Kind::unreached:
      return ", which does not answer, nor does its host";
  }
  return "";
}

}  // namespace

std::string describe(const Blocker& blocker, const std::function<std::string(Rank)>& who) {
  if (blocker.kind == Blocker::Kind::none) return "";
  std::string text = who(blocker.rank) + reason(blocker);
  if (blocker.actionable() && blocker.waits_for != kNoRank) {
    text += " and waits for rank " + std::to_string(blocker.waits_for.value());
  }
  return text;
}

}  // namespace r2ccl
