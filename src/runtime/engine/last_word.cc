#include "runtime/engine/last_word.h"

#include <new>
#include <utility>

namespace r2ccl {
namespace {

// How long, and how often, a rank tries to tell its peers.
constexpr TimeNs kBound = 1 * kSecond;
constexpr TimeNs kInterval = 5 * kMillisecond;

}  // namespace

void LastWord::reserve(std::vector<std::byte> notice) {
  ControlFrame frame;
  // It brings no state: a later version than `version` describes the paths and channels.
  frame.counted = 1;
  frame.notices.push_back({0, std::move(notice)});
  memory_.reserve(kControlHeaderBytes + encoded_body_bytes(frame) + kMacBytes);
  frame_ = std::move(frame);
}

void LastWord::begin(TimeNs now) noexcept {
  begun_at_ = now;
  frame_.sent_at = static_cast<uint64_t>(now);
}

TimeNs LastWord::next_timeout(TimeNs now) const {
  return told_ ? kNever : now + kInterval;
}

bool LastWord::tell_one(Link& link) {
  try {
    return link.send_last(frame_, memory_);
  } catch (const std::bad_alloc&) {
    return false;  // only a transport with emulated faults takes memory to write
  }
}

void LastWord::tell(TimeNs now, std::span<Link* const> links) {
  if (told_) return;
  if (frame_.notices.empty()) return hang_up(links);  // the rank has not started
  bool all = true;
  for (Link* link : links) all = tell_one(*link) && all;
  // A peer that does not read finds the connections closed.
  if (!all && now - begun_at_ >= kBound) return hang_up(links);
  told_ = all;
}

void LastWord::hang_up(std::span<Link* const> links) {
  for (Link* link : links) link->hang_up();
  told_ = true;
}

}  // namespace r2ccl
