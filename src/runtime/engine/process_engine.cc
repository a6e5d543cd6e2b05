#include "runtime/engine/process_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "runtime/link/control_stream.h"

namespace r2ccl {
namespace {

constexpr size_t kScratchBytes = 256 * 1024;

}  // namespace

ProcessEngine::ProcessEngine(Transport& transport, const Clock& clock,
                             std::function<void()> on_polled, bool spins)
    : transport_(transport),
      clock_(clock),
      on_polled_(std::move(on_polled)),
      scratch_(kScratchBytes),
      read_buffer_(ControlStream::kReadBytes),
      reactor_(transport.poller()),
      spin_wait_(clock, spins) {}

void ProcessEngine::add(Member& member) {
  R2CCL_CHECK(std::ranges::find(members_, &member) == members_.end());
  members_.push_back(&member);
}

void ProcessEngine::remove(Member& member) {
  std::erase(members_, &member);
  if (members_.empty()) nic_events_.reset();
}

Status ProcessEngine::watch_nics() {
  if (nic_events_ || transport_.nic_events_poll_id() < 0) return {};
  auto added = reactor_.add(transport_.nic_events_poll_id(), *this, false);
  if (!added.ok()) return added.status();
  nic_events_ = std::move(added).value();
  return {};
}

void ProcessEngine::on_ready(const PollEvent&) {
  if (!transport_.drain_nic_events()) return;
  for (Member* member : members_) member->on_nics_changed();
}

void ProcessEngine::tell_caller_waits() {
  for (Member* member : members_) member->on_caller_waits();
}

bool ProcessEngine::caller_waits_outside(uint64_t comm) const {
  return std::ranges::any_of(
      members_, [comm](const Member* member) { return member->caller_waits_outside(comm); });
}

void ProcessEngine::progress(TimeNs timeout_ns) {
  (void)(busy() ? spin_wait_.poll(reactor_, timeout_ns) : reactor_.poll(timeout_ns));
  polled_at_ = clock_.now();
  if (on_polled_) on_polled_();
  const size_t count = members_.size();
  for (size_t i = 0; i < count; ++i) {
    Member& member = *members_[(first_ + i) % count];
    const LogRank label(member.self().value());
    try {
      member.progress();
    } catch (const std::exception& error) {
      member.on_exception(error);
    }
  }
  ++first_;
}

TimeNs ProcessEngine::next_timeout() const {
  TimeNs next = kNever;
  for (Member* member : members_) next = std::min(next, member->next_timeout());
  return next;
}

bool ProcessEngine::busy() const {
  return std::ranges::any_of(members_, [](const Member* member) { return member->busy(); });
}

void ProcessEngine::on_exception(const std::exception& error) noexcept {
  for (Member* member : members_) member->on_exception(error);
}

}  // namespace r2ccl
