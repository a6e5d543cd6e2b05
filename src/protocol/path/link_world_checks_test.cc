// The small world of link_world.h: its model. After each event it checks both ends.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "testing/link_world.h"

namespace r2ccl::link_world {

uint32_t World::chunk_count(size_t message) const {
  const size_t bytes = setup_.messages[message];
  return std::max<uint32_t>(static_cast<uint32_t>((bytes + setup_.cut - 1) / setup_.cut), 1);
}

size_t World::chunk_bytes(size_t message, uint32_t index) const {
  return std::min<size_t>(setup_.cut, setup_.messages[message] - size_t{index} * setup_.cut);
}

World::Chunks World::all_of(size_t message) const {
  return ((Chunks{1} << chunk_count(message)) - 1) << (message * kChunksMax);
}

World::Chunks World::posted_chunks() const {
  return (Chunks{1} << (posted_ * kChunksMax)) - 1;
}

// Returns how many of the first `limit` messages are whole, counted from the first.
size_t World::leading(Chunks chunks, size_t limit) const {
  size_t m = 0;
  while (m < limit && (chunks & all_of(m)) == all_of(m)) ++m;
  return m;
}

template <typename Visit>
void World::for_each_chunk(Visit visit) const {
  for (size_t m = 0; m < setup_.messages.size(); ++m) {
    for (uint32_t i = 0; i < chunk_count(m); ++i) visit(m, i, ChunkRef{MessageNo(m), i});
  }
}

uint64_t World::bytes_in(Chunks chunks) const {
  uint64_t bytes = 0;
  for_each_chunk([&](size_t m, uint32_t i, ChunkRef chunk) {
    if ((chunks & bit(chunk)) != 0) bytes += chunk_bytes(m, i);
  });
  return bytes;
}

void World::check() {
  check_sender();
  check_copies();
  check_permission();
  check_receiver();
  for (const Path& path : paths_) check_path(path);
  check_notices();
}

void World::check_sender() {
  const size_t done = leading(heard_, setup_.messages.size());
  expect(send_.low_water() == MessageNo(done), "the sender is done with acknowledged messages");
  for_each_chunk([&](size_t m, uint32_t i, ChunkRef chunk) {
    const bool whole = (heard_ & all_of(m)) == all_of(m);
    const bool heard = (heard_ & bit(chunk)) != 0;
    if ((sent_ & bit(chunk)) == 0) return;
    expect(send_.needs_delivery(chunk) == !heard, "the sender knows the reports, no more");
    if (whole || heard || !send_.needs_delivery(chunk)) return;
    const std::span<const std::byte> bytes = send_.bytes(chunk);
    expect(bytes.size() == chunk_bytes(m, i) &&
               same(bytes.data(), golden(m) + i * setup_.cut, bytes.size()),
           "bytes are kept until they are acknowledged");
  });
}

// Each chunk that has not arrived, as far as the sender knows, has a copy outstanding or queued.
void World::check_copies() {
  for_each_chunk([&](size_t m, uint32_t, ChunkRef chunk) {
    if ((sent_ & bit(chunk)) == 0 || (heard_ & all_of(m)) == all_of(m)) return;
    uint32_t copies = 0;
    for (const Path& path : paths_) {
      copies += static_cast<uint32_t>(
          std::ranges::count(path.model.outstanding(), chunk, &Transmission::chunk));
    }
    expect(send_.copies(chunk) == copies, "copies under way are counted");
    const bool waits = std::ranges::find(resend_, chunk) != resend_.end();
    expect((heard_ & bit(chunk)) != 0 || copies > 0 || waits, "nothing is given up");
  });
}

void World::check_permission() {
  expect(bytes_in(eager_) <= credit_heard_, "the sender stays within the pool");
  std::optional<ChunkRef> next;
  for_each_chunk([&](size_t, uint32_t, ChunkRef chunk) {
    if (!next && (sent_ & bit(chunk)) == 0) next = chunk;
  });
  if (next) {
    const size_t m = next->message.value();
    const uint64_t charged = bytes_in(eager_) + chunk_bytes(m, next->index);
    const bool permitted = m < posted_heard_ || charged <= credit_heard_;
    if (!permitted || m >= low_water_heard_ + setup_.messages_ahead) next.reset();
  }
  expect(send_.next_fresh(setup_.cut) == next, "the sender sends the permitted chunk, no other");
}

void World::check_receiver() {
  const ChannelReport state = receive_.report();
  expect(state.low_water >= low_water_, "the low-water mark never falls");
  low_water_ = state.low_water;
  expect(low_water_ == MessageNo(leading(accepted_, posted_)),
         "the low-water mark counts the finished messages");
  expect(state.posted == MessageNo(posted_), "every posted receive is announced");
  expect(state.eager_total == credit(), "credit comes back once");
  expect(bytes_in(accepted_ & ~posted_chunks()) <= setup_.pool, "early bytes fit the pool");
  for_each_chunk([&](size_t m, uint32_t i, ChunkRef chunk) {
    if ((accepted_ & posted_chunks() & bit(chunk)) == 0) return;
    expect(all_are(target(m, i), chunk_bytes(m, i), kConsumed),
           "nothing touches an accepted chunk");
  });
  for (size_t m = 0; m < setup_.messages.size(); ++m) {
    const bool done = m < posted_ && (accepted_ & all_of(m)) == all_of(m);
    expect(receive_ended_[m] == (done ? 1 : 0), "a receive ends once, and not early");
  }
}

void World::check_path(const Path& path) {
  const PathPhase phase = path.at_sender == 0 ? PathPhase::down
                          : path.suspected    ? PathPhase::suspect
                                              : PathPhase::up;
  expect(path.sender.phase() == phase, "the sender's end is in the phase that its events say");
  expect(path.receiver.phase() == (path.at_receiver == 0 ? PathPhase::down : PathPhase::up),
         "the receiver's end is in the phase that its events say");
  expect(path.sender.incarnation() == Incarnation(path.connections) &&
             path.receiver.incarnation() == Incarnation(path.connections),
         "each connection has an incarnation of its own");
  const uint64_t under_way =
      path.model.frames_sent() - (path.at_sender == 0 ? 0 : path.frames_told);
  expect(path.model.outstanding().size() == under_way,
         "the outstanding chunks are the unreported ones");
}

bool World::settled() const {
  const bool quiet = std::ranges::all_of(paths_, [](const Path& path) {
    return path.sender.usable() && path.model.outstanding().empty();
  });
  return quiet && send_.idle() && receive_.idle() && notices_at_receiver_.pending() == 0;
}

void World::finish() {
  while (happen(Event::post)) {
  }
  for (int round = 0; round < 8 && !settled(); ++round) {
    happen(Event::report);
    happen(Event::answer);
    if (a().at_sender == 0) happen(Event::up);
    while (happen(Event::send_a) || happen(Event::send_b)) {
    }
    while (happen(Event::read_a) || happen(Event::read_b)) {
    }
  }
  happen(Event::stray);
  happen(Event::late_report);
  check();
  expect(send_.idle() && receive_.idle(), "everything ends");
  expect(credit() == setup_.pool + bytes_in(eager_), "no credit is lost");
  expect(notices_at_receiver_.pending() == 0 && notices_delivered_ == notices_,
         "every notice is delivered");
  for (size_t m = 0; m < setup_.messages.size(); ++m) {
    expect(send_ended_[m] == 1 && receive_ended_[m] == 1, "each end is told once");
  }
  for (const Path& path : paths_) {
    expect(path.sender.usable() && path.model.outstanding().empty(), "every path is up and empty");
  }
}

}  // namespace r2ccl::link_world
