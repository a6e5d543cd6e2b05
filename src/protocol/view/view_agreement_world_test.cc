// Checks the agreement of a few ranks in every order of events that a small world allows, and in
// random orders of larger ones: messages that are late, lost and repeated, ranks that die, are
// silent, or are ahead of the others in their collectives, and several proposers.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/hash.h"
#include "protocol/view/view_agreement.h"

namespace r2ccl {
namespace {

// Returns a view in which the host's only NIC has this rate.
View slow(size_t hosts, size_t host, uint32_t rate) {
  std::vector<HostRates> all(hosts, HostRates{{}});
  all[host][0] = {rate, rate};
  return View::of(std::move(all)).value();
}

struct Budget {
  int losses = 0;
  int repeats = 0;
  int deaths = 0;
  int leaves = 0;  // when all is bound and sent; needs a world without losses and deaths
  int timers = 0;
  int proposals = 0;  // besides the first one
  uint64_t collectives = 3;
  uint64_t lead = 3;  // of a rank ahead of the slowest
};

struct Event {
  enum class Kind : uint8_t {
    deliver,
    lose,
    repeat,
    bind,
    die,
    die_unheard,
    leave,
    tell_gone,
    timer,
    propose
  };
  Kind kind = Kind::deliver;
  size_t at = 0;     // of the message, or the rank
  size_t other = 0;  // the rank that is told
};

class World {
 public:
  World(int32_t ranks, const Budget& budget)
      : budget_(budget), dead_(size(ranks)), left_(size(ranks)) {
    const ViewRecord first;
    for (int32_t rank = 0; rank < ranks; ++rank) agents_.emplace_back(Rank(rank), ranks, first);
    bound_.resize(size(ranks));
    knows_.assign(size(ranks), std::vector<bool>(size(ranks)));
    silent_.resize(size(ranks));
  }

  static size_t size(int32_t ranks) { return static_cast<size_t>(ranks); }
  size_t ranks() const { return agents_.size(); }
  const ViewAgreement& agent(size_t rank) const { return agents_[rank]; }
  bool is_dead(size_t rank) const { return dead_[rank]; }
  const std::string& failure() const { return failure_; }
  size_t messages() const { return network_.size(); }
  void set_silent(size_t rank, bool silent) { silent_[rank] = silent; }

  void propose(size_t rank, const View& view) {
    agents_[rank].propose(view, now_);
    collect(rank);
  }

  std::vector<Event> events() const {
    using Kind = Event::Kind;
    std::vector<Event> all;
    for (size_t i = 0; i < network_.size(); ++i) {
      if (silent_[network_[i].to]) continue;
      all.push_back({Kind::deliver, i});
      if (budget_.losses > 0) all.push_back({Kind::lose, i});
      if (budget_.repeats > 0) all.push_back({Kind::repeat, i});
    }
    for (size_t rank = 0; rank < ranks(); ++rank) {
      if (dead_[rank] || silent_[rank]) continue;
      if (can_bind(rank)) all.push_back({Kind::bind, rank});
      if (budget_.timers > 0 && agents_[rank].next_timeout() != kNever) {
        all.push_back({Kind::timer, rank});
      }
      if (budget_.proposals > 0) all.push_back({Kind::propose, rank});
      if (budget_.deaths > 0) {
        all.push_back({Kind::die, rank});
        all.push_back({Kind::die_unheard, rank});
      }
      if (can_leave(rank)) all.push_back({Kind::leave, rank});
      for (size_t other = 0; other < ranks(); ++other) {
        if (dead_[other] && !knows_[rank][other]) all.push_back({Kind::tell_gone, other, rank});
      }
    }
    return all;
  }

  void apply(const Event& event) {
    using Kind = Event::Kind;
    switch (event.kind) {
      case Kind::deliver:
        return deliver(event.at);
      case Kind::lose:
        --budget_.losses;
        return forget(event.at);
      case Kind::repeat:
        --budget_.repeats;
        network_.push_back(network_[event.at]);
        return;
      case Kind::bind:
        return bind(event.at);
      case Kind::die:
      case Kind::die_unheard:
        return die(event.at, event.kind == Kind::die_unheard);
      case Kind::leave:
        return leave(event.at);
      case Kind::tell_gone:
        return tell_gone(event.at, event.other);
      case Kind::timer:
        --budget_.timers;
        return pass_time(event.at);
      case Kind::propose:
        --budget_.proposals;
        return propose(event.at,
                       slow(ranks(), event.at, 100 + static_cast<uint32_t>(budget_.proposals)));
    }
  }

  // No more faults: everything is delivered, and time passes. Checks that all ranks come to rest
  // with one view, and that no rank is kept from binding.
  void finish() {
    budget_ = {.collectives = budget_.collectives + (any_left() ? 0 : 2), .lead = budget_.lead};
    for (int turn = 0; turn < 400; ++turn) {
      for (size_t rank = 0; rank < ranks(); ++rank) {
        for (size_t other = 0; other < ranks(); ++other) {
          if (dead_[other] && !dead_[rank] && !knows_[rank][other]) tell_gone(other, rank);
        }
      }
      while (!network_.empty()) deliver(0);
      bool bound = false;
      for (size_t rank = 0; rank < ranks(); ++rank) {
        while (can_bind(rank)) {
          bind(rank);
          bound = true;
        }
      }
      if (!bound && !pass_least_time()) break;
    }
    for (size_t rank = 0; rank < ranks(); ++rank) {
      if (dead_[rank]) continue;
      const ViewAgreement& agent = agents_[rank];
      expect(agent.settled(), "rank " + std::to_string(rank) + " comes to rest");
      expect(agent.latest() == agents_[first_alive()].latest(), "all ranks end with one view");
      expect(agent.member().bound() == budget_.collectives,
             "rank " + std::to_string(rank) + " binds all its collectives");
    }
  }

  // The same while some ranks are silent: the others must go on as far as collectives let them.
  void run_for(TimeNs duration) {
    const TimeNs end = now_ + duration;
    while (now_ < end) {
      size_t at = 0;
      while (at < network_.size()) {
        if (silent_[network_[at].to]) {
          ++at;
        } else {
          deliver(at);
          at = 0;
        }
      }
      for (size_t rank = 0; rank < ranks(); ++rank) {
        if (can_bind(rank)) bind(rank);
      }
      now_ += 10 * kMillisecond;
      for (size_t rank = 0; rank < ranks(); ++rank) {
        if (dead_[rank] || silent_[rank]) continue;
        agents_[rank].progress(now_);
        collect(rank);
      }
    }
  }

  uint64_t fingerprint() const {
    uint64_t flight = 0;  // the order of messages in flight does not matter
    for (const Message& message : network_) flight += message.hash;
    uint64_t hash = hash_of({flight, static_cast<uint64_t>(now_),
                             static_cast<uint64_t>(budget_.losses * 64 + budget_.repeats),
                             static_cast<uint64_t>(budget_.deaths * 64 + budget_.timers),
                             static_cast<uint64_t>(budget_.leaves * 64 + budget_.proposals)});
    for (size_t rank = 0; rank < ranks(); ++rank) {
      hash = hash_of({hash, agents_[rank].fingerprint(), dead_[rank], left_[rank]});
      for (const uint64_t view : bound_[rank]) hash = hash_of({hash, view});
      for (const bool knows : knows_[rank]) hash = hash_of({hash, knows});
    }
    return hash;
  }

 private:
  struct Message {
    size_t from = 0;
    size_t to = 0;
    std::vector<std::byte> bytes;
    uint64_t hash = 0;
  };

  void expect(bool condition, const std::string& what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  size_t first_alive() const {
    return static_cast<size_t>(std::ranges::find(dead_, false) - dead_.begin());
  }

  void collect(size_t rank) {
    agents_[rank].check_invariants();
    for (const ViewSend& send : agents_[rank].take_sends()) {
      Message message{rank, static_cast<size_t>(send.to.value()), encode(send.message), 0};
      message.hash = hash_of({message.from, message.to});
      for (const std::byte byte : message.bytes) {
        message.hash = hash_of({message.hash, std::to_integer<uint64_t>(byte)});
      }
      if (!dead_[message.to]) network_.push_back(std::move(message));
    }
  }

  void forget(size_t at) { network_.erase(network_.begin() + static_cast<ptrdiff_t>(at)); }
  void forget_all_to(size_t rank) {
    std::erase_if(network_, [&](const Message& each) { return each.to == rank; });
  }

  void deliver(size_t at) {
    const Message message = network_[at];
    forget(at);
    if (dead_[message.to]) return;
    const auto decoded = decode_view_message(message.bytes, ranks());
    expect(decoded.ok(), "a message of a correct rank is decoded");
    if (!decoded.ok()) return;
    const Status status = agents_[message.to].on_message(Rank(static_cast<int32_t>(message.from)),
                                                         decoded.value(), now_);
    expect(status.ok(), "a message of a correct rank is refused: " + status.message());
    collect(message.to);
  }

  bool can_bind(size_t rank) const {
    if (dead_[rank] || silent_[rank]) return false;
    const uint64_t next = bound_[rank].size() + 1;
    if (next > budget_.collectives || !agents_[rank].may_bind(next)) return false;
    for (size_t other = 0; other < ranks(); ++other) {
      if (!dead_[other] && next > bound_[other].size() + budget_.lead) return false;
    }
    return true;
  }

  void bind(size_t rank) {
    const uint64_t number = bound_[rank].size() + 1;
    bound_[rank].push_back(agents_[rank].view_of(number).hash());
    agents_[rank].on_bound(number);
    for (size_t other = 0; other < ranks(); ++other) {
      if ((dead_[other] && !left_[other]) || bound_[other].size() < number) continue;
      expect(bound_[other][number - 1] == bound_[rank].back(),
             "ranks " + std::to_string(rank) + " and " + std::to_string(other) +
                 " bind different plans of collective " + std::to_string(number));
    }
    collect(rank);
  }

  bool any_left() const { return std::ranges::count(left_, true) > 0; }
  bool can_leave(size_t rank) const {
    return budget_.leaves > 0 && std::ranges::count(dead_, false) > 1 &&
           bound_[rank].size() == budget_.collectives &&
           std::ranges::none_of(network_, [&](const Message& each) { return each.from == rank; });
  }

  void leave(size_t rank) {
    --budget_.leaves;
    dead_[rank] = left_[rank] = true;
    forget_all_to(rank);
  }

  void die(size_t rank, bool unheard) {
    if (std::ranges::count(dead_, false) < 2) return;
    --budget_.deaths;
    dead_[rank] = true;
    forget_all_to(rank);
    if (unheard) std::erase_if(network_, [&](const Message& each) { return each.from == rank; });
  }

  void tell_gone(size_t gone, size_t rank) {
    knows_[rank][gone] = true;
    agents_[rank].on_gone(Rank(static_cast<int32_t>(gone)), left_[gone], now_);
    collect(rank);
  }

  void pass_time(size_t rank) {
    now_ = std::max(now_, agents_[rank].next_timeout());
    agents_[rank].progress(now_);
    collect(rank);
  }

  bool pass_least_time() {
    size_t next = ranks();
    for (size_t rank = 0; rank < ranks(); ++rank) {
      if (dead_[rank] || agents_[rank].next_timeout() == kNever) continue;
      if (next == ranks() || agents_[rank].next_timeout() < agents_[next].next_timeout()) {
        next = rank;
      }
    }
    if (next == ranks()) return false;
    pass_time(next);
    return true;
  }

  Budget budget_;
  std::vector<ViewAgreement> agents_;
  std::vector<Message> network_;
  std::vector<bool> dead_;  // or left
  std::vector<bool> left_;
  std::vector<bool> silent_;
  std::vector<std::vector<uint64_t>> bound_;  // by rank: the hash of the view of each collective
  std::vector<std::vector<bool>> knows_;      // knows_[a][b]: a knows that b has gone
  TimeNs now_ = 0;
  std::string failure_;
};

// Visits every state that the budget allows, each once. Returns the first failure.
class Search {
 public:
  std::string run(const World& from) {
    visit(from);
    return failure_;
  }
  size_t states() const { return seen_.size(); }
  size_t ends() const { return ends_; }

 private:
  void visit(const World& world) {
    if (!failure_.empty() || !seen_.insert(world.fingerprint()).second) return;
    const std::vector<Event> events = world.events();
    // From every eighth state, and from each that has no further event, the rest must end well.
    if (events.empty() || seen_.size() % 8 == 0) {
      World rest(world);
      rest.finish();
      failure_ = rest.failure();
      ++ends_;
    }
    for (const Event& event : events) {
      World next(world);
      next.apply(event);
      if (failure_.empty()) failure_ = next.failure();
      if (!failure_.empty()) return;
      visit(next);
    }
  }

  std::unordered_set<uint64_t> seen_;
  size_t ends_ = 0;
  std::string failure_;
};

void search(int32_t ranks, const Budget& budget, size_t states_least, bool two_proposers = false) {
  World world(ranks, budget);
  world.propose(0, slow(World::size(ranks), 0, 750));
  if (two_proposers) world.propose(1, slow(World::size(ranks), 1, 500));
  Search all;
  EXPECT_EQ(all.run(world), "");
  EXPECT_GE(all.states(), states_least);
  testing::Test::RecordProperty("states", std::to_string(all.states()));
}

TEST(ViewAgreementWorld, EveryOrderOfMessagesOfTwoRanks) {
  search(2, {.losses = 1, .repeats = 1, .timers = 1, .collectives = 2}, 1000);
}

TEST(ViewAgreementWorld, EveryOrderOfMessagesOfThreeRanks) {
  search(3, {.collectives = 2, .lead = 2}, 1000);
}

TEST(ViewAgreementWorld, AProposerDiesAtAnyMoment) {
  search(3, {.deaths = 1, .collectives = 1, .lead = 1}, 1000);
}

TEST(ViewAgreementWorld, ARankLeavesAtAnyMoment) {
  search(3, {.leaves = 1, .collectives = 1, .lead = 1}, 1000);
  search(2, {.leaves = 1, .timers = 1, .collectives = 2, .lead = 2}, 1000, true);
}

TEST(ViewAgreementWorld, TwoRanksProposeAtOnce) {
  search(2, {.losses = 1, .timers = 1, .collectives = 1, .lead = 1}, 1000, true);
}

TEST(ViewAgreementWorld, TwoRanksProposeAtOnceAndOneDies) {
  search(2, {.deaths = 1, .timers = 1, .collectives = 1, .lead = 1}, 1000, true);
}

// Larger worlds in random order.
class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed) {}

  std::string run() {
    const auto ranks = static_cast<int32_t>(2 + pick(4));
    Budget budget;
    budget.losses = static_cast<int>(pick(12));
    budget.repeats = static_cast<int>(pick(6));
    budget.deaths = static_cast<int>(pick(3));
    if (budget.losses + budget.deaths == 0) budget.leaves = static_cast<int>(pick(3));
    budget.timers = static_cast<int>(pick(30));
    budget.proposals = static_cast<int>(pick(5));
    budget.collectives = 1 + pick(12);
    budget.lead = 1 + pick(6);
    World world(ranks, budget);
    const size_t first = pick(static_cast<size_t>(ranks));
    world.propose(first, slow(World::size(ranks), first, 750));
    // Some ranks seldom act. Their messages are the late ones.
    const size_t lazy = pick(static_cast<size_t>(ranks) + 1);
    const size_t steps = 20 + pick(300);
    for (size_t i = 0; i < steps && world.failure().empty(); ++i) {
      if (lazy < static_cast<size_t>(ranks)) world.set_silent(lazy, pick(8) != 0);
      const std::vector<Event> events = world.events();
      if (events.empty()) continue;
      world.apply(choose(events));
    }
    if (lazy < static_cast<size_t>(ranks)) world.set_silent(lazy, false);
    if (world.failure().empty()) world.finish();
    return world.failure();
  }

 private:
  size_t pick(size_t count) { return static_cast<size_t>(random_() % count); }
  // Deaths are rare, so that they find something under way.
  Event choose(const std::vector<Event>& events) {
    Event event = events[pick(events.size())];
    const bool fatal = event.kind == Event::Kind::die || event.kind == Event::Kind::die_unheard;
    return fatal && pick(4) != 0 ? events[pick(events.size())] : event;
  }

  std::mt19937_64 random_;
};

TEST(ViewAgreementWorld, RandomOrdersOfLargerWorlds) {
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    const std::string failure = Walk(seed).run();
    ASSERT_EQ(failure, "") << "seed " << seed;
  }
}

TEST(ViewAgreementWorld, ASilentRankLeavesTheOldViewInForceAndKeepsNoOtherFromBinding) {
  World world(4, {.collectives = 40, .lead = 40});
  world.set_silent(2, true);
  world.propose(0, slow(4, 1, 500));
  world.run_for(3 * kSecond);
  for (const size_t rank : {0, 1, 3}) {
    EXPECT_EQ(world.agent(rank).member().bound(), 40u);
    EXPECT_EQ(world.agent(rank).latest().version, 0u);
  }
  // It wakes, and the view is agreed after all.
  world.set_silent(2, false);
  world.run_for(10 * kSecond);
  EXPECT_EQ(world.agent(2).latest().version, 1u);
  world.finish();
  EXPECT_EQ(world.failure(), "");
}

TEST(ViewAgreementWorld, ARankFarAheadMovesTheStartAhead) {
  World world(3, {.collectives = 1000, .lead = 1000});
  world.propose(0, slow(3, 1, 500));
  // Rank 2 binds 30 collectives between any two messages.
  for (int i = 0; i < 12 && world.messages() > 0; ++i) {
    for (int bound = 0; bound < 30; ++bound) world.apply({Event::Kind::bind, 2});
    for (size_t left = world.messages(); left > 0; --left) world.apply({Event::Kind::deliver, 0});
    if (!world.agent(2).may_bind(world.agent(2).member().bound() + 1)) break;
  }
  world.finish();
  EXPECT_EQ(world.failure(), "");
  EXPECT_EQ(world.agent(2).latest().version, 1u);
  EXPECT_GT(world.agent(2).latest().start, 30u);
}

TEST(ViewAgreementWorld, AnUnchangedViewSendsNothing) {
  World world(3, {.collectives = 100, .lead = 100});
  world.propose(0, View());
  world.run_for(20 * kSecond);
  EXPECT_EQ(world.messages(), 0u);
  EXPECT_EQ(world.agent(0).attempts(), 0u);
  EXPECT_EQ(world.agent(0).next_timeout(), kNever);
  EXPECT_EQ(world.agent(1).member().bound(), 100u);
}

}  // namespace
}  // namespace r2ccl
