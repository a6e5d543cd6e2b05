// Statements of the peer that cannot be true together with what this end knows.
//
// The receiver decides what is sent again, by listing what it accepted. A path's count of frames is
// the other word on the same chunks: a chunk that a path counts, and that the list of the same
// state does not have, is lost at the peer. It is sent again, on another connection.
#include <algorithm>

#include "base/log.h"
#include "base/mutant.h"
#include "runtime/link/link.h"

namespace r2ccl {

// The path that said it is opened anew; nothing that came this way is to be trusted.
void Link::refuse(Path& path, const std::string& what) {
  note_contradiction(path, path.state.incarnation(), what);
  if (path.broken || contradicted_) return;
  path.broken = DownCause::protocol;
  path.broken_why = "the peer contradicts this end: it " + what;
}

// After the second time paths stay as they are: the ranks must still hear of the error.
void Link::note_contradiction(const Path& path, Incarnation incarnation, const std::string& what) {
  if (contradicted_ || !contradictions_.repeated(what, path.spec.id, incarnation)) return;
  contradicted_ = true;
  contradiction_ = "it " + what + ", on two connections, the second by " + path.spec.local_name;
  touch();
}

// Outside of any I/O: the client will cancel its channels.
void Link::tell_contradiction() {
  if (contradiction_.empty()) return;
  R2CCL_LOG(warn, "rank %d: %s", peer_.value(), contradiction_.c_str());
  host_.on_contradiction(peer_, std::exchange(contradiction_, {}));
}

// The last copy under way was counted by its path; the channels of the same frame are applied.
void Link::note_unlisted(const Path& path, const Transmission& transmission, uint64_t counted) {
  unlisted_.push_back(
      {path.spec.id, path.state.incarnation(), transmission.channel, transmission.chunk, counted});
}

// Only a frame that held all there was to list says that a chunk is not listed.
void Link::settle_unlisted(const ControlFrame& frame) {
  if (unlisted_.empty() || frame.counted > frame.version) return;
  std::erase_if(unlisted_, [&](const Unlisted& one) {
    if (one.counted > frame.version) return false;
    const SendLedger& send = channel(one.channel).send;
    if (send.needs_delivery(one.chunk) && !send.peer_discards()) send_unlisted(one);
    return true;
  });
}

void Link::send_unlisted(const Unlisted& lost) {
  if (mutated(Mutant::believe_the_path)) return;
  Path& path = *find(lost.path);
  const std::string what = "counts chunk " + std::to_string(lost.chunk.index) + " of message " +
                           std::to_string(lost.chunk.message.value()) + " of channel " +
                           std::to_string(lost.channel.value()) +
                           " as received and does not list it";
  if (path.state.is_current(lost.incarnation)) {
    refuse(path, what);
  } else {
    note_contradiction(path, lost.incarnation, what);
  }
  if (channel(lost.channel).send.copies(lost.chunk) > 0) return;
  resend_.push_back({lost.channel, lost.chunk, lost.path, false});
}

}  // namespace r2ccl
