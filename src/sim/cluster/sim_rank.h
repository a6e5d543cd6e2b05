// One rank of a simulated job: a RankRuntime on a machine of the fabric, and a record of its
// events. The runtime is the real one. Only the time and the network are simulated.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rank_runtime.h"
#include "sim/cluster/data_path_check.h"
#include "sim/cluster/world.h"
#include "sim/fabric/host_clock.h"

namespace r2ccl::sim {

struct SimRank final : RankObserver {
  SimHost* host = nullptr;
  std::vector<SimNic*> nics;
  SimNic* management = nullptr;
  DataPathCheck* check = nullptr;
  std::unique_ptr<HostClock> clock;
  std::vector<std::unique_ptr<MessagePort>> checked_ports;
  std::unique_ptr<ProcessEngine> process;
  std::unique_ptr<RankRuntime> runtime;  // null: the rank has left
  // Further communicators of all ranks, over the same links.
  std::vector<std::unique_ptr<RankRuntime>> further;
  ActorId actor;
  uint64_t turns_per_check = 0;  // 0: its invariants are not checked
  uint64_t turns = 0;

  std::vector<PathEvent> events;
  std::vector<std::pair<Rank, PeerEnd>> ends;
  std::vector<std::string> notices;
  std::function<void()> in_turn;  // every turn of this rank's thread calls it, if it is set
  bool other_call = false;        // its next AllReduce differs from the call of the others

  bool left() const { return runtime == nullptr; }
  // Some communicator has failed.
  bool failed() const { return !failure().ok(); }
  Status failure() const {
    Status why;
    for_each([&](RankRuntime& each) { why = why.ok() ? each.failure() : why; });
    return why;
  }
  // The first communicator is 0.
  RankRuntime& communicator(int number) {
    return number == 0 ? *runtime : *further[static_cast<size_t>(number - 1)];
  }
  // The ranks take the communicators in different orders.
  template <typename Call>
  void for_each(const Call& call) const {
    const bool first = runtime != nullptr && runtime->options().self.value() % 2 == 0;
    if (first) call(*runtime);
    for (const auto& each : further) call(*each);
    if (!first && runtime != nullptr) call(*runtime);
  }
  void abort(const std::string& why) {
    for_each([&](RankRuntime& each) {
      if (each.failure().ok()) each.abort(why);
    });
    wake();
  }
  ProgressEngine& engine() { return runtime->engine(); }
  FaultReporter& fault_reporter() { return runtime->fault_reporter(); }
  Drains& drains() { return runtime->drains(); }

  // Runs one turn, as the thread of a communicator does.
  void progress() {
    process->progress(0);
    if (in_turn) in_turn();
    // Checks in every turn would take more time than the engine.
    ++turns;
    if (left() || turns_per_check == 0 || turns % turns_per_check != 0) return;
    engine().check_invariants();
    fault_reporter().check_invariants();
    for_each([](RankRuntime& each) {
      each.operations().check_invariants();
      if (each.views() != nullptr) each.views()->check_invariants();
    });
    for (size_t peer = 0; peer < engine().rank_count() && !checked_ports.empty(); ++peer) {
      const Link* link = engine().link(Rank(static_cast<int32_t>(peer)));
      if (link != nullptr) check->check_unused(engine().self(), *link);
    }
  }
  TimeNs next_timeout() { return clock->to_virtual(process->next_timeout()); }
  // Wakes the actor. A test calls it after calls to the runtime from outside the actor.
  void wake() { host->poller().wake(); }
  void begin_goodbye() {
    for_each([](RankRuntime& each) {
      if (each.failure().ok()) each.begin_goodbye();
    });
    wake();
  }
  bool goodbye_done() const {
    bool done = true;
    for_each([&](RankRuntime& each) { done = done && each.goodbye_done(); });
    return done;
  }
  bool failure_known() const {
    bool known = true;
    for_each([&](RankRuntime& each) { known = known && each.failure_known(); });
    return known;
  }

  // RankObserver
  void on_path_event(const PathEvent& event) override { events.push_back(event); }
  void on_notice(Rank, std::span<const std::byte> bytes) override {
    notices.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void on_peer_end(Rank peer, PeerEnd end) override { ends.emplace_back(peer, end); }
};

}  // namespace r2ccl::sim
