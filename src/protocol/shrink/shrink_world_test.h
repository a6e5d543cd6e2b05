// A small world of ranks that agree on a smaller communicator, and a search through every order of
// its events: ranks that die, leave, call late, or with other lists, and time that passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "protocol/shrink/shrink_agreement.h"

namespace r2ccl {

inline constexpr TimeNs kPatience = 10 * kSecond;

struct Budget {
  int deaths = 0;
  int calls = 1;  // for each rank
  int leaves = 0;
  int timers = 0;
  int withdrawals = 0;
  bool replaces = false;  // a message replaces an earlier one of its slot that is under way
  bool swift = false;     // messages and the news of deaths arrive before time passes
};

struct Event {
  enum class Kind : uint8_t { deliver, call, die, die_unheard, tell_gone, leave, timer, withdraw };
  Kind kind = Kind::deliver;
  size_t at = 0;     // the sender, or the rank
  size_t other = 0;  // the receiver, or the rank that is told

  std::string text() const {
    static constexpr const char* kNames[] = {"deliver",   "call",  "die",   "die_unheard",
                                             "tell_gone", "leave", "timer", "withdraw"};
    return std::string("; ") + kNames[static_cast<size_t>(kind)] + " " + std::to_string(at) + " " +
           std::to_string(other);
  }
};

inline std::vector<Rank> ranks_of(const std::set<size_t>& numbers) {
  std::vector<Rank> ranks;
  for (const size_t number : numbers) ranks.emplace_back(static_cast<int32_t>(number));
  return ranks;
}

class World {
 public:
  // `lists`: the ranks that each one excludes at first. Later it also excludes ranks that have
  // gone, in so far as it knows.
  World(const std::vector<std::set<size_t>>& lists, const Budget& budget)
      : budget_(budget), nodes_(lists.size()), wires_(lists.size() * lists.size()) {
    for (size_t i = 0; i < lists.size(); ++i) {
      agents_.emplace_back(rank_of(i), static_cast<int32_t>(lists.size()), kPatience);
      nodes_[i].list = lists[i];
      nodes_[i].knows.resize(lists.size());
      nodes_[i].calls_left = budget.calls;
    }
  }

  const std::string& failure() const { return failure_; }
  size_t size() const { return nodes_.size(); }
  bool made(size_t rank) const { return !nodes_[rank].made.empty(); }
  const std::optional<ShrinkDecision>& outcome(size_t rank) const {
    return agents_[rank].outcome();
  }
  TimeNs now() const { return now_; }

  std::vector<Event> events() const {
    using Kind = Event::Kind;
    std::vector<Event> all;
    for (size_t from = 0; from < size(); ++from) {
      for (size_t to = 0; to < size(); ++to) {
        if (!wire(from, to).empty()) all.push_back({Kind::deliver, from, to});
        const bool gone = nodes_[from].dead && !nodes_[to].dead && !nodes_[to].knows[from];
        if (gone) all.push_back({Kind::tell_gone, from, to});
      }
    }
    const bool any_under_way = !all.empty();
    for (size_t rank = 0; rank < size(); ++rank) {
      const Node& node = nodes_[rank];
      if (node.dead || node.left) continue;
      if (!node.waits && node.calls_left > 0) all.push_back({Kind::call, rank});
      if (budget_.deaths > 0) all.push_back({Kind::die, rank});
      if (budget_.deaths > 0) all.push_back({Kind::die_unheard, rank});
      if (budget_.leaves > 0 && !node.waits) all.push_back({Kind::leave, rank});
      if (budget_.withdrawals > 0 && node.waits) all.push_back({Kind::withdraw, rank});
      const bool waits = budget_.swift && any_under_way;
      if (budget_.timers > 0 && !waits && agents_[rank].next_timeout() != kNever) {
        all.push_back({Kind::timer, rank});
      }
    }
    return all;
  }

  void apply(const Event& event) {
    using Kind = Event::Kind;
    switch (event.kind) {
      case Kind::deliver:
        return deliver(event.at, event.other);
      case Kind::call:
        return call(event.at);
      case Kind::die:
      case Kind::die_unheard:
        return die(event.at, event.kind == Kind::die_unheard);
      case Kind::tell_gone:
        return tell_gone(event.at, event.other);
      case Kind::leave:
        --budget_.leaves;
        return leave(event.at);
      case Kind::timer:
        --budget_.timers;
        return pass_time(event.at);
      case Kind::withdraw:
        --budget_.withdrawals;
        agents_[event.at].withdraw(now_);
        return collect(event.at);
    }
  }

  // No more faults: all ranks hear of those that have gone. Ranks without a communicator call
  // again, `calls` times each.
  void finish(int calls) {
    budget_ = {.replaces = budget_.replaces};
    for (Node& node : nodes_) node.calls_left = calls;
    bool moved = true;
    while (moved && failure_.empty()) {
      settle();
      moved = false;
      for (size_t rank = 0; rank < size(); ++rank) {
        const Node& node = nodes_[rank];
        if (node.dead || node.left || node.waits || node.calls_left == 0 || made(rank)) continue;
        call(rank);
        moved = true;
      }
      if (!moved) moved = pass_least_time();
    }
    for (size_t rank = 0; rank < size(); ++rank) {
      if (nodes_[rank].dead) continue;
      expect(!nodes_[rank].waits, "the call of rank " + std::to_string(rank) + " ends");
    }
    check_uniform();
  }

  // All ranks that live have made one communicator of themselves, or of ranks that died after that.
  void expect_all_made() {
    for (size_t rank = 0; rank < size(); ++rank) {
      if (nodes_[rank].dead || nodes_[rank].left) continue;
      expect(made(rank), "rank " + std::to_string(rank) + " has a communicator in the end");
    }
  }

  uint64_t fingerprint() const {
    uint64_t hash = hash_of({static_cast<uint64_t>(now_),
                             static_cast<uint64_t>(budget_.deaths * 64 + budget_.leaves),
                             static_cast<uint64_t>(budget_.timers * 64 + budget_.withdrawals)});
    for (size_t rank = 0; rank < size(); ++rank) {
      const Node& node = nodes_[rank];
      hash = hash_of({hash, agents_[rank].fingerprint(), node.dead, node.left, node.waits,
                      static_cast<uint64_t>(node.calls_left), node.made.size()});
      for (const bool knows : node.knows) hash = hash_of({hash, knows});
    }
    for (const auto& each : wires_) {
      hash = hash_of({hash, each.size()});
      for (const auto& [slot, bytes] : each) {
        for (const std::byte byte : bytes) hash = hash_of({hash, std::to_integer<uint64_t>(byte)});
      }
    }
    return hash;
  }

 private:
  struct Node {
    std::set<size_t> list;
    bool dead = false;
    bool left = false;
    bool waits = false;  // a call
    int calls_left = 0;
    std::vector<bool> knows;                  // the ranks that have gone
    std::vector<ShrinkSubject> called, made;  // all of them
    std::vector<ShrinkSubject> given_up;      // without an answer
  };
  // Slots and bytes of messages; without bytes: the sender has left.
  using Wire = std::deque<std::pair<uint64_t, std::vector<std::byte>>>;
  static constexpr uint64_t kFarewellSlot = UINT64_MAX;

  static Rank rank_of(size_t number) { return Rank(static_cast<int32_t>(number)); }
  static size_t number_of(Rank rank) { return static_cast<size_t>(rank.value()); }
  Wire& wire(size_t from, size_t to) { return wires_[from * size() + to]; }
  const Wire& wire(size_t from, size_t to) const { return wires_[from * size() + to]; }

  void expect(bool condition, const std::string& what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  void call(size_t rank) {
    Node& node = nodes_[rank];
    --node.calls_left;
    std::set<size_t> excluded = node.list;
    for (size_t other = 0; other < size(); ++other) {
      if (node.knows[other]) excluded.insert(other);
    }
    node.waits = true;
    uint32_t ordinal = 0;
    for (const ShrinkSubject& each : node.made) {
      ordinal += each.excluded == ranks_of(excluded) ? 1 : 0;
    }
    node.called.push_back({ranks_of(excluded), ordinal});
    agents_[rank].call(ranks_of(excluded), {}, now_);
    collect(rank);
  }

  void collect(size_t rank) {
    for (const ShrinkSend& send : agents_[rank].take_sends()) {
      put(rank, number_of(send.to), slot_of(send.message), encode(send.message));
    }
    Node& node = nodes_[rank];
    if (!node.waits || !agents_[rank].outcome()) return;
    node.waits = false;
    const ShrinkDecision& outcome = *agents_[rank].outcome();
    expect(outcome.subject == node.called.back(), "the outcome is of the call");
    if (gives_up(outcome)) node.given_up.push_back(outcome.subject);
    if (outcome.outcome != ShrinkOutcome::made) return;
    node.made.push_back(outcome.subject);
    for (size_t other = 0; other < size(); ++other) {
      if (nodes_[other].dead || excludes(outcome.subject, other)) continue;
      expect(made(other, outcome.subject) || waits_for(other, outcome.subject) ||
                 has_given_up(other, outcome.subject),
             "it is made only while all of it want it");
    }
  }

  static bool excludes(const ShrinkSubject& subject, size_t rank) {
    return std::ranges::find(subject.excluded, rank_of(rank)) != subject.excluded.end();
  }
  bool made(size_t rank, const ShrinkSubject& subject) const {
    return std::ranges::find(nodes_[rank].made, subject) != nodes_[rank].made.end();
  }
  // A lower rank may have made it: then this one refuses it later, or it has failed with that one.
  bool gives_up(const ShrinkDecision& outcome) const {
    const ShrinkOutcome how = outcome.outcome;
    if (how != ShrinkOutcome::not_called && how != ShrinkOutcome::cut_off) return false;
    for (size_t lower = 0; lower < number_of(outcome.by); ++lower) {
      if (!excludes(outcome.subject, lower)) return true;
    }
    return false;
  }
  bool has_given_up(size_t rank, const ShrinkSubject& subject) const {
    const auto& all = nodes_[rank].given_up;
    return std::ranges::find(all, subject) != all.end();
  }
  bool waits_for(size_t rank, const ShrinkSubject& subject) const {
    return nodes_[rank].waits && nodes_[rank].called.back() == subject;
  }

  void put(size_t from, size_t to, uint64_t slot, std::vector<std::byte> bytes) {
    if (nodes_[to].dead || nodes_[to].left) return;
    const auto older = [slot](const auto& each) { return each.first == slot; };
    if (budget_.replaces) std::erase_if(wire(from, to), older);
    wire(from, to).emplace_back(slot, std::move(bytes));
  }

  void deliver(size_t from, size_t to) {
    const std::vector<std::byte> bytes = wire(from, to).front().second;
    wire(from, to).pop_front();
    if (bytes.empty()) {
      agents_[to].on_gone(rank_of(from), ShrinkOutcome::left, now_);
      nodes_[to].knows[from] = true;
      return collect(to);
    }
    const auto read = decode_shrink_message(bytes, static_cast<int32_t>(size()), size());
    expect(read.ok(), "a message of a correct rank is decoded");
    if (!read.ok()) return;
    const Status status = agents_[to].on_message(rank_of(from), read.value(), now_);
    expect(status.ok(), "a message of a correct rank is refused: " + status.message());
    collect(to);
  }

  void die(size_t rank, bool unheard) {
    --budget_.deaths;
    nodes_[rank].dead = true;
    for (size_t other = 0; other < size(); ++other) {
      wire(other, rank).clear();
      if (unheard) wire(rank, other).clear();
    }
  }

  // Nothing of a rank arrives after its end is known.
  void tell_gone(size_t gone, size_t rank) {
    nodes_[rank].knows[gone] = true;
    wire(gone, rank).clear();
    agents_[rank].on_gone(rank_of(gone), ShrinkOutcome::died, now_);
    collect(rank);
  }

  void leave(size_t rank) {
    for (const ShrinkSend& send : agents_[rank].last_words()) {
      put(rank, number_of(send.to), slot_of(send.message), encode(send.message));
    }
    for (size_t other = 0; other < size(); ++other) {
      wire(other, rank).clear();
      if (other != rank) put(rank, other, kFarewellSlot, {});
    }
    nodes_[rank].left = true;
  }

  void pass_time(size_t rank) {
    now_ = std::max(now_, agents_[rank].next_timeout());
    agents_[rank].progress(now_);
    collect(rank);
  }

  bool pass_least_time() {
    size_t next = size();
    for (size_t rank = 0; rank < size(); ++rank) {
      if (nodes_[rank].dead || nodes_[rank].left) continue;
      const TimeNs at = agents_[rank].next_timeout();
      if (at != kNever && (next == size() || at < agents_[next].next_timeout())) next = rank;
    }
    if (next == size()) return false;
    expect(agents_[next].next_timeout() < now_ + 2 * kPatience, "time is of use");
    expect(++idle_turns_ < 5000, "time comes to an end");
    pass_time(next);
    return true;
  }

  void settle() {
    bool moved = true;
    while (moved && failure_.empty()) {
      moved = false;
      for (const Event& event : events()) {
        const bool is_delivery =
            event.kind == Event::Kind::deliver || event.kind == Event::Kind::tell_gone;
        if (!is_delivery) continue;
        apply(event);
        moved = true;
        break;
      }
    }
  }

  // Checks that a communicator that one rank has made is made on all of its ranks that live.
  void check_uniform() {
    for (const Node& one : nodes_) {
      if (one.dead) continue;
      for (const ShrinkSubject& subject : one.made) {
        for (size_t other = 0; other < size(); ++other) {
          if (nodes_[other].dead || excludes(subject, other)) continue;
          expect(made(other, subject) || has_given_up(other, subject),
                 "rank " + std::to_string(other) + " has what another rank has made");
        }
      }
    }
  }

  Budget budget_;
  std::vector<ShrinkAgreement> agents_;
  std::vector<Node> nodes_;
  std::vector<Wire> wires_;
  TimeNs now_ = 0;
  int idle_turns_ = 0;
  std::string failure_;
};

// Visits every state that the budget allows, each once. Returns the first failure.
class Search {
 public:
  explicit Search(bool all_made) : all_made_(all_made) {}
  std::string run(const World& from) {
    visit(from);
    return failure_;
  }
  size_t states() const { return seen_.size(); }

 private:
  void visit(const World& world) {
    if (!failure_.empty() || !seen_.insert(world.fingerprint()).second) return;
    const std::vector<Event> events = world.events();
    // From every fourth state, and from each that has no further event, the rest must end well.
    if (events.empty() || seen_.size() % 4 == 0) {
      World rest(world);
      rest.finish(4);
      if (all_made_) rest.expect_all_made();
      failure_ = rest.failure();
    }
    for (const Event& event : events) {
      World next(world);
      next.apply(event);
      if (failure_.empty()) failure_ = next.failure();
      if (failure_.empty()) visit(next);
      if (failure_.empty()) continue;
      failure_ += event.text();
      return;
    }
  }

  const bool all_made_;
  std::unordered_set<uint64_t> seen_;
  std::string failure_;
};

using Lists = std::vector<std::set<size_t>>;

inline void search(const Lists& lists, Budget budget, size_t states_least, bool all_made = true) {
  for (const bool replaces : {false, true}) {
    budget.replaces = replaces;
    Search all(all_made);
    EXPECT_EQ(all.run(World(lists, budget)), "");
    EXPECT_GE(all.states(), states_least);
    testing::Test::RecordProperty("states", std::to_string(all.states()));
  }
}

}  // namespace r2ccl
