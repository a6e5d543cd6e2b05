#include "runtime/admin/ask_by_notice.h"

#include "base/limits.h"

namespace r2ccl {

Presence ask_by_notice(Link& link, Notice notice) {
  if (const auto end = link.peer_end()) {
    switch (*end) {
      case PeerEnd::goodbye:
        return Presence::left;
      case PeerEnd::dead:
        return Presence::dead;
      case PeerEnd::cut_off:
        return Presence::cut_off;
    }
  }
  if (link.peer_said_goodbye()) return Presence::left;
  if (link.notices_pending(notice.slot.kind) >= limits::kSurveyNoticesAhead)
    return Presence::no_answer;
  link.send_notice(std::move(notice));
  return Presence::no_answer;
}

}  // namespace r2ccl
