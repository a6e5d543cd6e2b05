#include "runtime/connection/reactor.h"

#include "base/check.h"
#include "base/log.h"

namespace r2ccl {

Result<Reactor::Registration> Reactor::add(int poll_id, EventHandler& handler, bool want_write) {
  return shared_.add_for(owner_, poll_id, handler, want_write);
}

Result<Reactor::Registration> Reactor::add_for(HandlerOwner* owner, int poll_id,
                                               EventHandler& handler, bool want_write) {
  if (free_.empty()) {
    // Room for all slots, so that the end of a registration needs no memory.
    if (free_.capacity() <= slots_.size()) free_.reserve(2 * slots_.size() + 1);
    slots_.emplace_back();
    free_.push_back(slots_.size() - 1);
  }
  const size_t slot = free_.back();
  R2CCL_RETURN_IF_ERROR(poller_->add(poll_id, token(slot), want_write));
  free_.pop_back();  // not before: the line above may fail
  slots_[slot].handler = &handler;
  slots_[slot].owner = owner;
  Registration registration;
  registration.reactor_ = this;
  registration.slot_ = slot;
  registration.poll_id_ = poll_id;
  registration.want_write_ = want_write;
  return registration;
}

void Reactor::Registration::want_write(bool on) {
  if (reactor_ == nullptr || want_write_ == on) return;
  want_write_ = on;
  reactor_->poller_->modify(poll_id_, reactor_->token(slot_), on);
}

void Reactor::Registration::reset() {
  if (reactor_ == nullptr) return;
  reactor_->poller_->remove(poll_id_);
  Slot& slot = reactor_->slots_[slot_];
  slot.handler = nullptr;
  ++slot.generation;
  reactor_->free_.push_back(slot_);
  reactor_ = nullptr;
}

// `slot` is a copy: the handler may add slots.
void Reactor::dispatch(const Slot& slot, const PollEvent& event) {
  if (slot.owner == nullptr) return slot.handler->on_ready(event);
  const LogRank label(slot.owner->self().value());
  try {
    slot.handler->on_ready(event);
  } catch (const std::exception& error) {
    slot.owner->on_exception(error);
  }
}

size_t Reactor::poll(TimeNs timeout_ns) {
  R2CCL_CHECK(poller_ != nullptr);
  const size_t count = poller_->wait(events_, timeout_ns);
  for (size_t i = 0; i < count; ++i) {
    const PollEvent event = events_[i];
    const size_t slot = event.token & 0xffffffffu;
    if (slot >= slots_.size() || slots_[slot].handler == nullptr) continue;
    if (token(slot) != event.token) continue;
    dispatch(Slot(slots_[slot]), event);
  }
  return count;
}

}  // namespace r2ccl
