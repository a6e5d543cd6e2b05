// Every order of events that a small world of a link allows (link_world.h).
//
// The explorer follows orders that lead to the same state only once from there on. So it covers
// lengths at which it could not run each order by itself.
#include "testing/link_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace r2ccl::link_world {
namespace {

// Sanitizers make each step ten times as expensive. Shorter orders show the same defects to them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kLength = 5;
#else
constexpr size_t kLength = 7;
#endif

std::string describe(const Setup& setup, const std::vector<Event>& events) {
  std::string text;
  for (const auto& part : {setup.start, events}) {
    for (const Event event : part) text += std::string(" Event::") + to_string(event) + ",";
  }
  return text;
}

// A ledger that finds a bug in itself ends the program. This prints the order of events then.
class OrderInLastWords {
 public:
  OrderInLastWords() : before_(std::signal(SIGABRT, tell)) {}
  ~OrderInLastWords() { (void)std::signal(SIGABRT, before_); }
  OrderInLastWords(const OrderInLastWords&) = delete;
  OrderInLastWords& operator=(const OrderInLastWords&) = delete;

  // Sets the events that the last words print; null: none.
  static void watch(const Setup* setup, const std::vector<Event>* events) {
    setup_ = setup;
    events_ = events;
  }

 private:
  static void tell(int) {
    if (events_ != nullptr) std::fprintf(stderr, "after%s\n", describe(*setup_, *events_).c_str());
  }
  static inline const Setup* setup_ = nullptr;
  static inline const std::vector<Event>* events_ = nullptr;
  void (*before_)(int);
};

// Runs all orders up to a length. It does not copy a world but replays its events.
class Explorer {
 public:
  Explorer(const Setup& setup, bool merge) : setup_(setup), merge_(merge) {}

  void run(size_t length);
  std::string failure() const { return failure_; }
  // Returns the number of orders of each length, as if each had run by itself.
  std::vector<uint64_t> orders(size_t length) const;
  uint64_t order_count(size_t length) const {
    uint64_t sum = 0;
    for (const uint64_t orders_of_length : orders(length)) sum += orders_of_length;
    return sum;
  }
  size_t states() const { return states_.size(); }
  uint64_t happened(Event event) const { return happened_[static_cast<size_t>(event)]; }

 private:
  struct State {
    uint32_t from = 0;
    Event by = Event::send_a;
    uint32_t next_first = 0;  // in next_
    uint32_t next_count = 0;
  };

  std::vector<Event> way_to(uint32_t state) const;
  void follow(uint32_t state);
  bool take(uint32_t from, Event event, World& world, std::vector<Event>& events);

  const Setup& setup_;
  const bool merge_;
  std::vector<State> states_;
  std::vector<uint32_t> next_;  // states that one event leads to
  std::unordered_map<Digest, uint32_t, Digest::Hash> known_;
  std::array<uint64_t, kEvents> happened_{};
  std::string failure_;
};

void Explorer::run(size_t length) {
  states_ = {State{}};
  known_ = {{World(setup_).digest(), 0}};
  size_t layer = 0;
  for (size_t depth = 0; depth < length; ++depth) {
    const size_t end = states_.size();
    for (; layer < end && failure_.empty(); ++layer) follow(static_cast<uint32_t>(layer));
  }
}

std::vector<Event> Explorer::way_to(uint32_t state) const {
  std::vector<Event> events;
  for (; state != 0; state = states_[state].from) events.push_back(states_[state].by);
  std::ranges::reverse(events);
  return events;
}

// Tries each event in this state.
void Explorer::follow(uint32_t state) {
  std::vector<Event> events = way_to(state);
  const uint32_t first = static_cast<uint32_t>(next_.size());
  OrderInLastWords::watch(&setup_, &events);
  std::optional<World> world;
  for (size_t e = 0; e < kEvents && failure_.empty(); ++e) {
    if (!world) {
      world.emplace(setup_);
      for (const Event event : events) (void)world->happen(event);
    }
    if (take(state, static_cast<Event>(e), *world, events)) world.reset();
  }
  OrderInLastWords::watch(nullptr, nullptr);
  states_[state].next_first = first;
  states_[state].next_count = static_cast<uint32_t>(next_.size()) - first;
}

// Returns false when the event cannot happen.
bool Explorer::take(uint32_t from, Event event, World& world, std::vector<Event>& events) {
  events.push_back(event);
  const bool happens = world.happen(event);
  if (happens) {
    world.check();
    ++happened_[static_cast<size_t>(event)];
    const auto fresh = static_cast<uint32_t>(states_.size());
    const auto reached = merge_ ? known_.emplace(world.digest(), fresh).first->second : fresh;
    next_.push_back(reached);
    const char* then = "";
    if (reached == fresh && world.failure().empty()) {
      states_.push_back({from, event, 0, 0});
      world.finish();
      then = " and when the faults then stopped";
    }
    if (!world.failure().empty()) {
      failure_ = world.failure() + ": not so after" + describe(setup_, events) + then + " (step " +
                 std::to_string(next_.size()) + ")";
    }
  }
  events.pop_back();
  return happens;
}

std::vector<uint64_t> Explorer::orders(size_t length) const {
  std::vector<uint64_t> totals;
  std::unordered_map<uint32_t, uint64_t> at = {{0, 1}};
  for (size_t depth = 0; depth < length; ++depth) {
    std::unordered_map<uint32_t, uint64_t> after;
    uint64_t total = 0;
    for (const auto& [state, count] : at) {
      const State& reached = states_[state];
      for (uint32_t i = 0; i < reached.next_count; ++i)
        after[next_[reached.next_first + i]] += count;
      total += count * reached.next_count;
    }
    totals.push_back(total);
    at = std::move(after);
  }
  return totals;
}

void explore_all(const Setup& setup) {
  const OrderInLastWords last_words;
  Explorer explorer(setup, true);
  explorer.run(kLength);
  ASSERT_EQ(explorer.failure(), "");
  testing::Test::RecordProperty("orders", std::to_string(explorer.order_count(kLength)));
  testing::Test::RecordProperty("states", std::to_string(explorer.states()));
  // A world in which an event never happens proves nothing about it.
  for (size_t e = 0; e < kEvents; ++e) {
    const auto event = static_cast<Event>(e);
    EXPECT_GT(explorer.happened(event), 0u) << to_string(event) << " never happened";
  }
  EXPECT_GT(explorer.order_count(kLength), 2 * explorer.states());
}

TEST(LinkWorld, KeepsEveryPromiseWhenBytesComeFirst) {
  explore_all({{6, 3}, 4, 100, {}});
}

TEST(LinkWorld, KeepsEveryPromiseWhenReceivesComeFirst) {
  explore_all({{6, 3}, 4, 0, {Event::post, Event::report, Event::send_a}});
}

TEST(LinkWorld, KeepsEveryPromiseWhenTheEagerPoolHoldsOneChunk) {
  explore_all({{6, 3}, 4, 4, {Event::send_a}});
}

TEST(LinkWorld, KeepsEveryPromiseToMessagesOfNoBytes) {
  explore_all({{0, 6, 0}, 4, 4, {Event::send_a}});
}

TEST(LinkWorld, KeepsEveryPromiseWhenTheSenderRunsAhead) {
  // The receiver accepted the first message early and acknowledged it: complete here, open there.
  explore_all({{3, 0, 6}, 4, 100, {Event::send_a, Event::read_a, Event::read_a, Event::report}, 2});
}

TEST(LinkWorld, KeepsEveryPromiseToMessagesThatAreNotCopied) {
  explore_all({{33'000, 3}, 20'480, 0, {Event::post, Event::report, Event::send_a}});
}

TEST(LinkWorld, KeepsEveryPromiseAfterAPathHasFailedAndReturned) {
  // The receiver read one chunk and has not reported it, and one was outstanding. A slow control
  // stream holds an earlier report.
  explore_all({{6, 3},
               4,
               100,
               {Event::send_a, Event::read_a, Event::say_slowly, Event::read_a, Event::send_a,
                Event::down_at_sender, Event::up}});
}

// Otherwise the explorer would count orders as covered that it never ran.
TEST(LinkWorld, MergesOnlyOrdersThatHaveTheSameFuture) {
  const link_world::Setup setup{{6, 3}, 4, 4, {Event::send_a}};
  constexpr size_t kShort = 4;
  Explorer merged(setup, true);
  Explorer each(setup, false);
  merged.run(kShort);
  each.run(kShort);
  EXPECT_EQ(merged.orders(kShort), each.orders(kShort));
  EXPECT_EQ(each.states(), 1 + each.order_count(kShort));
  EXPECT_LT(merged.states(), each.states() / 2);
  EXPECT_EQ(merged.failure() + each.failure(), "");
}

}  // namespace
}  // namespace r2ccl::link_world
