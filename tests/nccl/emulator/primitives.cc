#include "primitives.h"

#include <algorithm>
#include <cstring>

#include "ll_lines.h"

namespace r2ccl::emulated {

Primitives::Primitives(const WorkFormat& format, const Channel& channel, const Setup& setup,
                       const Reduction& reduction)
    : setup_(setup), reduction_(reduction) {
  const bool is_ll = setup_.protocol == Protocol::kLl;
  const auto steps_in_chunk =
      static_cast<uint64_t>(is_ll ? 1 : setup_.slices_in_chunk * setup_.steps_in_slice);
  const ConnectionFormat& layout = format.connection();
  const auto connect = [&](int peer, const Field& direction) {
    char* connections = address(channel.peers[peer], direction);
    const auto index = static_cast<size_t>(setup_.connection_index);
    return Connection(layout, channel, connections + index * layout.bytes, setup_.protocol,
                      steps_in_chunk);
  };
  for (const int peer : setup_.from) receivers_.push_back(connect(peer, layout.receivers));
  for (const int peer : setup_.to) senders_.push_back(connect(peer, layout.senders));
  if (is_ll) return;
  for (const Connection& receiver : receivers_) receiver.publish_head();
}

Primitives::~Primitives() {
  for (const Connection& receiver : receivers_) receiver.save();
  for (const Connection& sender : senders_) sender.save();
}

char* Primitives::place(char* buffer, int64_t element) const {
  return buffer + element * static_cast<int64_t>(setup_.element_bytes);
}

void Primitives::run(const Operation& operation) {
  if (setup_.protocol == Protocol::kLl) {
    run_ll(operation);
  } else {
    run_simple(operation);
  }
}

// NCCL cuts a chunk into slices of 16 elements or more. Each slice has its steps, also if it is
// empty: both ends count alike.
void Primitives::run_simple(const Operation& operation) {
  constexpr int64_t kAlignment = 16, kLeastShare = 32;
  const auto element = static_cast<int64_t>(setup_.element_bytes);
  const int64_t most = setup_.step_bytes / element * setup_.steps_in_slice;
  const int64_t per_unit = kAlignment * setup_.slices_in_chunk;
  const int64_t even = (operation.count + per_unit - 1) / per_unit * kAlignment;
  const int64_t slice = std::max(even, most / kLeastShare);
  int64_t offset = 0;
  for (int i = 0; i < setup_.slices_in_chunk; ++i) {
    const int64_t count = std::max<int64_t>(std::min(slice, operation.count - offset), 0);
    run_slice(operation, offset, count);
    offset += count;
  }
}

void Primitives::run_slice(const Operation& operation, int64_t offset, int64_t count) {
  const auto steps = static_cast<uint64_t>(setup_.steps_in_slice);
  const size_t bytes = static_cast<size_t>(count) * setup_.element_bytes;
  if (operation.receives) {
    for (const Connection& receiver : receivers_) receiver.wait_until_written(steps);
  }
  if (operation.sends) {
    for (const Connection& sender : senders_) {
      sender.wait_until_free(steps);
      sender.announce(static_cast<int64_t>(bytes));
    }
  }
  if (count > 0) {
    const bool has_target = operation.target != Operation::kNone;
    const bool has_source = operation.source != Operation::kNone;
    char* sum =
        has_target ? place(setup_.output, operation.target + offset) : senders_.front().buffer();
    char* source = has_source ? place(setup_.input, operation.source + offset) : nullptr;
    size_t received = 0;
    if (has_source && operation.receives && !reduction_.prepares()) {
      reduction_.combine(sum, receivers_.front().buffer(), source, count);
      received = 1;
    } else if (has_source) {
      if (source != sum) std::memmove(sum, source, bytes);
      reduction_.prepare(sum, count);
    } else {
      std::memcpy(sum, receivers_.front().buffer(), bytes);
      received = 1;
    }
    for (; operation.receives && received < receivers_.size(); ++received) {
      reduction_.combine(sum, sum, receivers_[received].buffer(), count);
    }
    if (operation.completes) reduction_.finish(sum, count);
    if (operation.sends) {
      for (const Connection& sender : senders_) {
        if (sender.buffer() != sum) std::memcpy(sender.buffer(), sum, bytes);
      }
    }
  }
  if (operation.receives) {
    for (Connection& receiver : receivers_) receiver.publish_read(steps);
  }
  if (operation.sends) {
    for (Connection& sender : senders_) sender.publish_written(steps);
  }
}

// An operation of the protocol LL is one step.
void Primitives::run_ll(const Operation& operation) {
  const size_t bytes = static_cast<size_t>(operation.count) * setup_.element_bytes;
  const size_t lines = ll_lines(bytes);
  if (operation.sends) {
    for (const Connection& sender : senders_) {
      sender.wait_until_free(1);
      sender.announce(ll_message_bytes(sender, lines));
    }
  }
  std::vector<char> sum(lines * kLlDataBytes);
  gather_ll(operation, sum);
  if (operation.completes) reduction_.finish(sum.data(), operation.count);
  if (operation.sends) {
    for (const Connection& sender : senders_) write_ll(sender, lines, sum.data());
  }
  if (operation.target != Operation::kNone && bytes != 0) {
    std::memcpy(place(setup_.output, operation.target), sum.data(), bytes);
  }
  if (operation.receives) {
    for (Connection& receiver : receivers_) receiver.publish_read(1);
  }
  if (operation.sends) {
    for (Connection& sender : senders_) sender.advance(1);
  }
}

void Primitives::gather_ll(const Operation& operation, std::vector<char>& sum) {
  const size_t bytes = static_cast<size_t>(operation.count) * setup_.element_bytes;
  bool is_first = true;
  const auto add = [&](const char* elements) {
    if (is_first) {
      std::memcpy(sum.data(), elements, bytes);
    } else {
      reduction_.combine(sum.data(), sum.data(), elements, operation.count);
    }
    is_first = false;
  };
  if (operation.source != Operation::kNone && bytes != 0) {
    add(place(setup_.input, operation.source));
    reduction_.prepare(sum.data(), operation.count);
  }
  if (!operation.receives) return;
  std::vector<char> received(sum.size());
  for (const Connection& receiver : receivers_) {
    read_ll(receiver, ll_lines(bytes), received.data());
    if (bytes != 0) add(received.data());
  }
}

}  // namespace r2ccl::emulated
