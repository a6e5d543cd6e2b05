#include "sim/trial/regroup.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "runtime/child_numbers.h"

namespace r2ccl::sim {
namespace {

// A rank that knows of more deaths than the others calls again after this time.
constexpr TimeNs kPause = 10 * kMillisecond;

constexpr TimeNs kBound = 45 * kSecond;  // refusals alone prove a death after 30 s

std::vector<Rank> list_of(const std::set<Rank>& ranks) {
  return {ranks.begin(), ranks.end()};
}

class Regroup {
 public:
  Regroup(Cluster& cluster, IsAlive is_alive) : cluster_(cluster), is_alive_(std::move(is_alive)) {
    ranks_.resize(static_cast<size_t>(cluster.size()));
  }

  // Begins on all ranks that live.
  void start();
  // Goes on, and returns whether all have ended an AllReduce of the ranks that live.
  bool step();
  // Returns an error of a call, or of a result; empty: none.
  std::string wrong() const;
  // Returns the ranks that have not ended, in words.
  std::string waiting() const;
  // Other buffers will get the memory of the values.
  ~Regroup() {
    for (const One& one : ranks_) cluster_.check().forget(std::as_bytes(std::span(one.values)));
  }
  Regroup(const Regroup&) = delete;
  Regroup& operator=(const Regroup&) = delete;

 private:
  static constexpr size_t kCount = 3000;
  struct One {
    RankObserver observer;
    RankRuntime* parent = nullptr;
    std::vector<int> members;  // the parent's ranks, by their numbers in the cluster
    std::set<Rank> excluded;
    bool called = false;
    TimeNs call_at = 0;
    std::vector<std::unique_ptr<RankRuntime>> made;
    std::vector<int> left;  // the same of the last one
    std::vector<int32_t> values;
    std::optional<Status> ended;
  };

  One& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const One& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  void step(int rank);
  void call(One& one, int rank);
  void make(One& one, int rank);
  void reduce(One& one, int rank);
  static int32_t value(int member, size_t i) {
    return static_cast<int32_t>(i * static_cast<size_t>(member + 3)) + 17 * member;
  }

  Cluster& cluster_;
  const IsAlive is_alive_;
  std::vector<One> ranks_;
  std::string wrong_;
};

void Regroup::start() {
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    if (!is_alive_(rank)) continue;
    SimRank& node = cluster_.node(rank);
    One& one = at(rank);
    one.parent = node.runtime.get();
    for (int member = 0; member < cluster_.size(); ++member) one.members.push_back(member);
    for (const auto& [peer, end] : node.ends) {
      if (end == PeerEnd::dead) one.excluded.insert(peer);
    }
    // The rank that an error names may only have aborted; this one stays.
    for (const Rank named : one.parent->failure().ranks()) {
      if (!is_alive_(named.value())) one.excluded.insert(named);
    }
  }
}

bool Regroup::step() {
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    if (is_alive_(rank)) step(rank);
  }
  if (!wrong_.empty()) return true;
  std::vector<int> living;
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    if (is_alive_(rank)) living.push_back(rank);
  }
  return std::ranges::all_of(living, [&](int rank) {
    return at(rank).left == living && at(rank).ended && at(rank).ended->ok();
  });
}

void Regroup::step(int rank) {
  One& one = at(rank);
  if (!one.left.empty()) {
    RankRuntime& last = *one.made.back();
    if (last.failure().ok()) return;
    // A member has died since the agreement.
    one.parent = &last;
    one.members = std::exchange(one.left, {});
    one.excluded = {last.failure().ranks().begin(), last.failure().ranks().end()};
    one.called = false;
  }
  if (!one.called) return cluster_.now() < one.call_at ? void() : call(one, rank);
  if (one.parent->shrinks()->waits()) return;
  const Status result = one.parent->shrinks()->result();
  if (result.ok()) return make(one, rank);
  if (result.ranks().empty() && result.code() != Code::invalid_usage) {
    wrong_ = "rank " + std::to_string(rank) + " cannot go on: " + result.message();
  }
  one.excluded.insert(result.ranks().begin(), result.ranks().end());
  one.called = false;
  if (!result.ranks().empty()) return;
  one.call_at = cluster_.now() + kPause;
  cluster_.fabric().at(one.call_at, [] {});
}

void Regroup::call(One& one, int rank) {
  const Status begun = one.parent->begin_shrink(list_of(one.excluded));
  if (!begun.ok()) {
    wrong_ = "rank " + std::to_string(rank) + " calls in vain: " + begun.message();
  }
  one.called = true;
  cluster_.node(rank).wake();
}

void Regroup::make(One& one, int rank) {
  const ShrinkSubject& subject = one.parent->shrinks()->outcome()->subject;
  std::vector<Rank> peers;
  RankOptions options;
  for (size_t i = 0; i < one.members.size(); ++i) {
    const Rank number(static_cast<int32_t>(i));
    if (std::ranges::binary_search(subject.excluded, number)) continue;
    if (one.members[i] == rank) options.self = Rank(static_cast<int32_t>(peers.size()));
    one.left.push_back(one.members[i]);
    peers.push_back(one.parent->members().peer_of(number));
  }
  options.rank_count = static_cast<int32_t>(peers.size());
  options.port = one.parent->options().port;
  auto made =
      std::make_unique<RankRuntime>(one.parent->shared_job(), std::move(options), one.observer);
  const ContextId context =
      ChildNumbers(one.parent->comm_id()).of_shrink(subject.excluded, subject.ordinal);
  if (const Status joined = made->join(context, std::move(peers)); !joined.ok()) {
    wrong_ = "rank " + std::to_string(rank) + " cannot make what is agreed: " + joined.message();
  }
  one.made.push_back(std::move(made));
  reduce(one, rank);
}

void Regroup::reduce(One& one, int rank) {
  one.ended.reset();
  one.values.resize(kCount);
  for (size_t i = 0; i < kCount; ++i) one.values[i] = value(rank, i);
  Operation call;
  call.key.collective = Collective::all_reduce;
  call.key.type = DataType::int32;
  call.key.op = ReduceOp::sum;
  call.key.rank_count = static_cast<int32_t>(one.left.size());
  call.key.count = kCount;
  call.input = call.output = reinterpret_cast<std::byte*>(one.values.data());
  call.done = [&one](const Status& status) { one.ended = status; };
  one.made.back()->start(std::move(call));
  cluster_.node(rank).wake();
}

std::string Regroup::wrong() const {
  if (!wrong_.empty()) return wrong_;
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    if (!is_alive_(rank)) continue;
    const One& one = at(rank);
    for (size_t i = 0; i < kCount; ++i) {
      int32_t sum = 0;
      for (const int member : one.left) sum += value(member, i);
      if (one.values[i] == sum) continue;
      return "rank " + std::to_string(rank) + " has a wrong sum in the smaller communicator";
    }
  }
  return {};
}

std::string Regroup::waiting() const {
  std::string text;
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    const One& one = at(rank);
    if (!is_alive_(rank) || (one.ended && one.ended->ok())) continue;
    text += " " + std::to_string(rank) + (one.left.empty() ? " in the call" : " in its AllReduce");
  }
  return text;
}

bool some_are_cut_off(Cluster& cluster, const IsAlive& is_alive) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    const auto& ends = cluster.node(rank).ends;
    const bool cut_off =
        std::ranges::any_of(ends, [](const auto& each) { return each.second == PeerEnd::cut_off; });
    if (is_alive(rank) && cut_off) return true;
  }
  return false;
}

// A rank that dies while nobody knows its new address is silent: no kernel refuses in its place.
bool some_died_unseen(Cluster& cluster, const IsAlive& is_alive) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (!is_alive(rank)) continue;
    const auto& ends = cluster.node(rank).ends;
    for (int other = 0; other < cluster.size(); ++other) {
      const bool seen =
          std::ranges::any_of(ends, [&](const auto& each) { return each.first == Rank(other); });
      if (!is_alive(other) && !seen) return true;
    }
  }
  return false;
}

}  // namespace

std::string regroup(Cluster& cluster, const IsAlive& is_alive,
                    const std::function<void(int rank)>& kill, uint64_t seed, TimeNs cutoff) {
  if (some_are_cut_off(cluster, is_alive)) return {};
  std::vector<int> living;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (is_alive(rank)) living.push_back(rank);
  }
  Regroup group(cluster, is_alive);
  group.start();
  const uint64_t draw = hash_of({seed, living.size()});
  TimeNs death = cluster.now();
  if (living.size() > 2 && draw % 2 == 0) {
    const int victim = living[draw / 2 % living.size() * (draw / 64 % 2)];  // often the coordinator
    death += static_cast<TimeNs>(draw / 1024 % 3000) * kMicrosecond;
    cluster.fabric().at(death, [&kill, victim] { kill(victim); });
  }
  const auto done = [&] { return group.step() && cluster.now() > death; };
  bool ended = cluster.world().run_until(done, cluster.now() + kBound);
  if (!ended && some_died_unseen(cluster, is_alive)) {
    ended = cluster.world().run_until(done, cluster.now() + cutoff);
  }
  if (!ended) {
    return "the ranks that live do not go on; these wait:" + group.waiting();
  }
  return group.wrong();
}

}  // namespace r2ccl::sim
