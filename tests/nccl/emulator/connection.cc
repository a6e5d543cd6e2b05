#include "connection.h"

#include <cstring>

namespace r2ccl::emulated {

Connection::Connection(const ConnectionFormat& format, const Channel& channel, char* memory,
                       Protocol protocol, uint64_t steps_in_chunk)
    : format_(&format),
      abort_flag_(channel.abort_flag),
      memory_(memory),
      fifo_(read_pointer(memory, format.fifo)),
      tail_(reinterpret_cast<uint64_t*>(read_pointer(memory, format.tail))),
      head_(reinterpret_cast<uint64_t*>(read_pointer(memory, format.head))),
      step_(read(memory, format.step)) {
  const size_t buffer = format.buffers.offset + static_cast<size_t>(protocol) * sizeof(char*);
  buffers_ = read_pointer(memory, {buffer, sizeof(char*)});
  step_ = (step_ + steps_in_chunk - 1) / steps_in_chunk * steps_in_chunk;
  step_bytes_ =
      protocol == Protocol::kLl ? channel.ll_step_bytes : read_signed(memory, format.step_bytes);
}

char* Connection::fifo_entry() const {
  return fifo_ + step_ % kStepsInFlight * format_->fifo_entry_bytes;
}

char* Connection::buffer() const {
  if (fifo_ != nullptr) {
    // Connections for send and receive may share buffers: the proxy then gives each step its place.
    constexpr int kAtOffset = 1;
    const char* entry = fifo_entry();
    const auto* mode = reinterpret_cast<const int*>(address(entry, format_->fifo_mode));
    if (__atomic_load_n(mode, __ATOMIC_ACQUIRE) == kAtOffset) {
      return buffers_ + read(entry, format_->fifo_offset);
    }
  }
  return buffers_ + static_cast<int64_t>(step_ % kStepsInFlight) * step_bytes_;
}

uint64_t Connection::load(const uint64_t* counter) {
  return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

void Connection::store(uint64_t* counter, uint64_t value) {
  __atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

void Connection::wait_until_free(uint64_t steps) const {
  Waiting waits = waiting();
  while (load(head_) + kStepsInFlight < step_ + steps) waits.pause();
}

void Connection::wait_until_written(uint64_t steps) const {
  Waiting waits = waiting();
  while (load(tail_) < step_ + steps) waits.pause();
}

void Connection::announce(int64_t bytes) const {
  if (fifo_ == nullptr) return;
  auto* size = reinterpret_cast<int64_t*>(address(fifo_entry(), format_->fifo_bytes));
  __atomic_store_n(size, bytes,
                   __ATOMIC_RELAXED);  // before the tail or the flags, which release it
}

void Connection::publish_written(uint64_t steps) {
  advance(steps);
  store(tail_, step_);
}

void Connection::publish_read(uint64_t steps) {
  advance(steps);
  store(head_, step_);
}

void Connection::publish_head() const {
  store(head_, step_);
}

void Connection::save() const {
  std::memcpy(address(memory_, format_->step), &step_, sizeof step_);
}

}  // namespace r2ccl::emulated
