#include "runtime/admin/ask_by_notice.h"

#include "base/limits.h"

namespace r2ccl {

Reachability ask_by_notice(Link& link, Notice notice) {
  if (const auto end = link.peer_end()) {
    switch (*end) {
      case PeerEnd::goodbye:
        return Reachability::left;
      case PeerEnd::dead:
        return Reachability::dead;
      case PeerEnd::cut_off:
        return Reachability::cut_off;
    }
  }
  if (link.peer_said_goodbye()) return Reachability::left;
  if (link.notices_pending(notice.slot.kind) >= limits::kStatusQueryNoticesAhead)
    return Reachability::no_answer;
  link.send_notice(std::move(notice));
  return Reachability::no_answer;
}

}  // namespace r2ccl
