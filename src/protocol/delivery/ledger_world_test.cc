// Checks the two ledgers of a channel against a model, in every order of events that a small world
// allows: two paths, a few chunks, and at each step every event that can happen in production.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "protocol/delivery/receive_ledger.h"
#include "protocol/delivery/send_ledger.h"

namespace r2ccl {
namespace {

using Placement = ReceiveLedger::Placement;

constexpr uint64_t kContext = 7;
constexpr size_t kRoom = 16;  // bytes of memory for each message
constexpr std::byte kUntouched{0xee};

enum class Event : uint8_t {
  send_a,          // the next fresh chunk goes out on path a
  send_b,          // and on path b
  hedge,           // the oldest chunk outstanding on a goes out on b as well
  header_a,        // the header and half of the payload of the next frame on a arrive
  arrive_a,        // a frame on a arrives, or the rest of one
  arrive_b,        // and on b
  report,          // the receiver's state reaches the sender
  old_report,      // so does a state of two events ago
  path_a_down,     // the chunks on a are lost; chunks without another copy go out on b
  post,            // the next receive is posted
  cancel_receive,  // the receiver gives up
  cancel_send,     // the sender does
};
constexpr int kEvents = 12;

struct Setup {
  std::vector<size_t> messages;  // their sizes
  uint64_t pool = 0;
  std::vector<Event> start;
  uint64_t messages_ahead = limits::kMessagesAheadMax;
};

class World {
 public:
  explicit World(const Setup& setup)
      : setup_(setup),
        send_(ChannelId(1), setup.pool, setup.messages_ahead),
        receive_(ChannelId(1), setup.pool, setup.messages_ahead) {
    for (size_t m = 0; m < setup.messages.size(); ++m) {
      for (size_t i = 0; i < kRoom; ++i) {
        source_.push_back(static_cast<std::byte>(m * 16 + i + 1));
      }
    }
    target_.assign(source_.size(), kUntouched);
    for (size_t m = 0; m < setup.messages.size(); ++m) {
      send_.post(std::span(source_).subspan(m * kRoom, setup.messages[m]), kContext);
    }
    for (const Event event : setup.start) R2CCL_CHECK(apply(event));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Returns false when the event cannot happen now; then nothing has changed.
  bool apply(Event event) {
    const bool happened = happen(event);
    if (happened) {
      check();
      history_.push_back(snapshot());
    }
    return happened;
  }

  // Delivers everything that is outstanding, and checks that nothing was lost.
  void finish() {
    if (receive_cancelled_ || send_cancelled_) return;
    while (happen(Event::post)) {
    }
    for (int round = 0; round < 20 && !send_.idle(); ++round) {
      while (happen(Event::send_a)) {
      }
      while (happen(Event::arrive_a) || happen(Event::arrive_b)) {
      }
      happen(Event::report);
      check();
    }
    expect(send_.idle() && receive_.idle(), "everything ends");
    for (size_t m = 0; m < setup_.messages.size(); ++m) {
      expect(sent_[m] == 1 && received_[m] == 1, "each end is told once");
      for (size_t i = 0; i < kRoom; ++i) {
        const std::byte want = i < setup_.messages[m] ? source_[m * kRoom + i] : kUntouched;
        expect(target_[m * kRoom + i] == want, "the bytes are right");
      }
    }
    expect(receive_.report().eager_total == setup_.pool + charged_, "no credit is lost");
  }

  const std::string& failure() const { return failure_; }

 private:
  struct Copy {
    ChunkRef chunk;
    DataHeader header;
  };
  struct Path {
    uint32_t incarnation = 1;
    size_t arrived = 0;            // frames of this incarnation
    size_t acknowledged = 0;       // part of those, known at the sender
    std::deque<Copy> outstanding;  // not acknowledged, oldest first
    std::optional<ReceiveLedger::Place> half;
  };
  struct Snapshot {
    ChannelReport channel;
    std::array<size_t, 2> arrived{};
    std::array<uint32_t, 2> incarnation{};
  };

  void expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  bool happen(Event event) {
    switch (event) {
      case Event::send_a:
        return send_fresh(paths_[0]);
      case Event::send_b:
        return send_fresh(paths_[1]);
      case Event::hedge:
        return hedge();
      case Event::header_a:
        return begin(paths_[0]);
      case Event::arrive_a:
        return arrive(0);
      case Event::arrive_b:
        return arrive(1);
      case Event::report:
        return report(snapshot(), true);
      case Event::old_report:
        return history_.size() >= 2 && report(history_[history_.size() - 2], false);
      case Event::path_a_down:
        return path_a_down();
      case Event::post:
        return post();
      case Event::cancel_receive:
        return cancel_receive();
      case Event::cancel_send:
        if (send_cancelled_) return false;
        send_cancelled_ = true;
        send_.cancel();
        return true;
    }
    return false;
  }

  // --- the sender ---
  void transmit(Path& path, ChunkRef chunk) {
    const DataHeader header = send_.transmit(chunk);
    const auto [first, fresh] = headers_.emplace(key(chunk), header);
    expect(first->second == header, "a chunk never changes its cut, its size or its charge");
    if (fresh && header.eager) charged_ += header.payload_bytes;
    expect(charged_ <= eager_known_, "the sender stays within the pool");
    path.outstanding.push_back({chunk, header});
  }

  bool send_fresh(Path& path) {
    // The wanted chunk size differs from chunk to chunk; the first one of a message decides.
    const auto chunk = send_.next_fresh(headers_.size() % 2 == 0 ? 4 : 8);
    if (!chunk) return false;
    expect(!headers_.contains(key(*chunk)), "a fresh chunk was never sent");
    expect(
        receive_cancelled_ || chunk->message.value() < low_water_.value() + setup_.messages_ahead,
        "no message is further ahead of the receiver than the bound");
    transmit(path, *chunk);
    return true;
  }

  bool hedge() {
    for (const Copy& copy : paths_[0].outstanding) {
      if (!send_.needs_delivery(copy.chunk) || send_.copies(copy.chunk) != 1) continue;
      transmit(paths_[1], copy.chunk);
      return true;
    }
    return false;
  }

  bool path_a_down() {
    Path& a = paths_[0];
    if (a.outstanding.empty()) return false;
    for (const Copy& copy : std::exchange(a.outstanding, {})) {
      if (send_.copy_gone(copy.chunk)) transmit(paths_[1], copy.chunk);
    }
    const uint32_t next = a.incarnation + 1;
    a = {};
    a.incarnation = next;
    return true;
  }

  bool report(const Snapshot& state, bool current) {
    std::vector<SendLedger::Posted> ended;
    expect(send_.apply(state.channel, ended).ok(), "an honest report is taken");
    eager_known_ = std::max(eager_known_, state.channel.eager_total);
    for (const SendLedger::Posted& each : ended) {
      const size_t m = each.number.value();
      ++sent_[m];
      expect(whole(m), "a send ends when every chunk was accepted");
      expect(sent_[m] == 1 && !send_cancelled_, "a send ends once");
    }
    for (size_t p = 0; p < paths_.size(); ++p) {
      Path& path = paths_[p];
      if (state.incarnation[p] != path.incarnation) continue;
      for (; path.acknowledged < state.arrived[p]; ++path.acknowledged) {
        const Copy copy = path.outstanding.front();
        path.outstanding.pop_front();
        const bool again = send_.copy_gone(copy.chunk);
        expect(!again || receive_cancelled_, "a chunk that arrived is never sent again");
      }
    }
    if (!current || send_cancelled_ || receive_cancelled_) return true;
    for (const auto& [which, header] : headers_) {
      const ChunkRef chunk{MessageNo(which.first), which.second};
      expect(send_.needs_delivery(chunk) != accepted_.contains(which),
             "the sender knows every accepted chunk");
    }
    return true;
  }

  // --- the receiver ---
  bool begin(Path& path) {
    const size_t under_way = path.arrived - path.acknowledged;
    if (path.half || under_way >= path.outstanding.size()) return false;
    const DataHeader& header = path.outstanding[under_way].header;
    const auto place = receive_.place(header);
    expect(place.ok(), "an honest chunk is taken");
    path.half = place.ok() ? place.value() : ReceiveLedger::Place{};
    write(path, header, header.payload_bytes / 2);
    return true;
  }

  // Writes the first `count` bytes of the payload.
  void write(const Path& path, const DataHeader& header, size_t count) {
    if (path.half->placement != Placement::direct) return;
    const size_t at = header.message.value() * kRoom + header.offset;
    expect(path.half->destination == target_.data() + at, "bytes go where they belong");
    std::copy_n(source_.begin() + static_cast<ptrdiff_t>(at), count, path.half->destination);
  }

  bool arrive(size_t p) {
    Path& path = paths_[p];
    if (!path.half && !begin(path)) return false;
    const Copy copy = path.outstanding[path.arrived - path.acknowledged];
    write(path, copy.header, copy.header.payload_bytes);
    const ReceiveLedger::Place place = *std::exchange(path.half, std::nullopt);
    ++path.arrived;
    if (place.placement == Placement::discard) {
      expect(receive_cancelled_ || accepted_.contains(key(copy.chunk)), "only copies are dropped");
      return true;
    }
    std::vector<std::byte> early;
    if (place.placement == Placement::early) {
      const auto from =
          source_.begin() +
          static_cast<ptrdiff_t>(copy.header.message.value() * kRoom + copy.header.offset);
      early.assign(from, from + copy.header.payload_bytes);
    }
    const size_t m = copy.chunk.message.value();
    const bool was_whole = whole(m);
    const auto result = receive_.accept(copy.header, std::move(early), 1);
    const bool fresh = accepted_.insert(key(copy.chunk)).second && !receive_cancelled_;
    expect(result.fresh == fresh, "a chunk is accepted once");
    const bool ends = m < posted_ && whole(m) && !was_whole && !receive_cancelled_;
    expect(result.message_complete == ends, "a receive ends with its last chunk");
    received_[m] += result.message_complete ? 1 : 0;
    if (result.fresh) discard_remainder(copy.header, path);
    return true;
  }

  // Discards the rest of every other copy of an accepted chunk, as the link does: it must not touch
  // the chunk's destination.
  void discard_remainder(const DataHeader& header, const Path& winner) {
    for (Path& other : paths_) {
      if (&other == &winner || !other.half) continue;
      const DataHeader& under_way = other.outstanding[other.arrived - other.acknowledged].header;
      if (under_way.message == header.message && under_way.offset == header.offset) {
        other.half = ReceiveLedger::Place{};
      }
    }
  }

  bool post() {
    if (posted_ == setup_.messages.size() || receive_cancelled_) return false;
    const size_t m = posted_++;
    const auto result =
        receive_.post(std::span(target_).subspan(m * kRoom, setup_.messages[m]), kContext);
    expect(result.number == MessageNo(m) && result.mismatch.ok(), "receives are numbered in order");
    expect(result.complete == whole(m), "a receive whose bytes are all there ends at once");
    received_[m] += result.complete ? 1 : 0;
    return true;
  }

  bool cancel_receive() {
    if (receive_cancelled_) return false;
    receive_cancelled_ = true;
    receive_.cancel();
    for (Path& path : paths_) {
      if (path.half) path.half = ReceiveLedger::Place{};
    }
    return true;
  }

  // --- the model ---
  using Key = std::pair<uint64_t, uint32_t>;
  static Key key(ChunkRef chunk) { return {chunk.message.value(), chunk.index}; }

  bool whole(size_t m) const {
    const auto first = headers_.find({m, 0});
    if (first == headers_.end()) return false;
    const uint32_t cut = first->second.chunk_bytes;
    const uint64_t chunks = std::max<uint64_t>((setup_.messages[m] + cut - 1) / cut, 1);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      if (!accepted_.contains({m, chunk})) return false;
    }
    return true;
  }

  Snapshot snapshot() const {
    return {receive_.report(),
            {paths_[0].arrived, paths_[1].arrived},
            {paths_[0].incarnation, paths_[1].incarnation}};
  }

  void check() {
    const ChannelReport state = receive_.report();
    expect(state.low_water >= low_water_, "the low-water mark never falls");
    low_water_ = state.low_water;
    for (size_t m = 0; !send_cancelled_ && m < send_.low_water().value(); ++m) {
      expect(whole(m), "the sender is done only with accepted chunks");
    }
    if (receive_cancelled_) return;
    uint64_t done = 0;
    while (done < posted_ && whole(done)) ++done;
    expect(low_water_ == MessageNo(done), "the low-water mark counts the finished messages");
    uint64_t early = 0;
    uint64_t returned = 0;
    for (const Key& which : accepted_) {
      const DataHeader& header = headers_.at(which);
      const bool posted = which.first < posted_;
      if (!posted) early += header.payload_bytes;
      if (posted && header.eager) returned += header.payload_bytes;
      const auto at = static_cast<ptrdiff_t>(which.first * kRoom + header.offset);
      expect(
          !posted || std::equal(source_.begin() + at, source_.begin() + at + header.payload_bytes,
                                target_.begin() + at),
          "accepted bytes are right and stay so");
    }
    expect(early <= setup_.pool, "early bytes fit the pool");
    expect(state.eager_total == setup_.pool + returned, "credit comes back once");
  }

  const Setup& setup_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  SendLedger send_;
  ReceiveLedger receive_;
  std::array<Path, 2> paths_;
  std::vector<Snapshot> history_;

  std::map<Key, DataHeader> headers_;  // headers of every chunk that was ever sent
  std::set<Key> accepted_;
  static constexpr size_t kMessagesMax = 6;
  std::array<int, kMessagesMax> sent_{};
  std::array<int, kMessagesMax> received_{};
  size_t posted_ = 0;
  uint64_t charged_ = 0;
  uint64_t eager_known_ = setup_.pool;
  MessageNo low_water_;
  bool receive_cancelled_ = false;
  bool send_cancelled_ = false;
  std::string failure_;
};

std::string describe(const std::vector<Event>& events) {
  static constexpr const char* kNames[] = {
      "send_a", "send_b",     "hedge",       "header_a", "arrive_a",       "arrive_b",
      "report", "old_report", "path_a_down", "post",     "cancel_receive", "cancel_send"};
  std::string text;
  for (const Event event : events) text += std::string(" ") + kNames[static_cast<size_t>(event)];
  return text;
}

struct Explored {
  uint64_t worlds = 0;
  std::array<uint64_t, kEvents> happened{};
};

// Runs every order of `depth` events that can happen. It does not copy a world but replays its
// events.
void explore(const Setup& setup, std::vector<Event>& events, size_t depth, Explored& explored) {
  for (int e = 0; e < kEvents && !testing::Test::HasFailure(); ++e) {
    World world(setup);
    for (const Event event : events) world.apply(event);
    const auto next = static_cast<Event>(e);
    if (!world.apply(next)) continue;
    ++explored.worlds;
    ++explored.happened[static_cast<size_t>(e)];
    events.push_back(next);
    if (events.size() == depth) world.finish();
    EXPECT_EQ(world.failure(), "") << "after" << describe(setup.start) << " |" << describe(events);
    if (events.size() < depth) explore(setup, events, depth, explored);
    events.pop_back();
  }
}

void explore_all(const Setup& setup, size_t depth) {
  std::vector<Event> events;
  Explored explored;
  explore(setup, events, depth, explored);
  if (testing::Test::HasFailure()) return;
  // A world in which an event never happens proves nothing about it.
  for (int e = 0; e < kEvents; ++e) {
    EXPECT_GT(explored.happened[static_cast<size_t>(e)], 0u)
        << describe({static_cast<Event>(e)}) << " never happened";
  }
  EXPECT_GT(explored.worlds, 1000u);
}

TEST(LedgerWorld, KeepsEveryPromiseWhenReceivesComeFirst) {
  explore_all({{6, 4}, 0, {Event::post, Event::report, Event::send_a}}, 5);
}

TEST(LedgerWorld, KeepsEveryPromiseWhenBytesComeFirst) {
  explore_all({{6, 4}, 100, {Event::send_a, Event::send_b}}, 5);
}

TEST(LedgerWorld, KeepsEveryPromiseWhenTheEagerPoolHoldsOneChunk) {
  explore_all({{6, 4}, 4, {Event::send_a}}, 6);
}

TEST(LedgerWorld, KeepsEveryPromiseToMessagesOfNoBytes) {
  explore_all({{0, 5, 0}, 5, {Event::send_a}}, 5);
}

TEST(LedgerWorld, KeepsEveryPromiseWhenTheSenderRunsAhead) {
  // The receiver accepted two messages early and acknowledged them: complete here, open there.
  explore_all({{4, 0, 4, 4, 4},
               100,
               {Event::send_a, Event::send_a, Event::arrive_a, Event::arrive_a, Event::report},
               3},
              4);
}

TEST(LedgerWorld, KeepsEveryPromiseAfterALongStory) {
  // The receiver has read half of chunk 0 on a, which is hedged on b. Chunk 1 is on a, and no
  // receive is posted.
  explore_all({{8, 4, 4},
               100,
               {Event::send_a, Event::hedge, Event::header_a, Event::send_a, Event::send_b}},
              4);
}

}  // namespace
}  // namespace r2ccl
