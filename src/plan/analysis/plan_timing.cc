#include "plan/analysis/plan_timing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace r2ccl {
namespace {

bool receives(const Step& step) {
  return step.kind == StepKind::receive || step.kind == StepKind::receive_reduce;
}

// Returns the host of each rank.
std::vector<size_t> hosts_of_ranks(const PlanKey& key) {
  std::vector<size_t> host_of(static_cast<size_t>(key.rank_count));
  for (size_t rank = 0; rank < host_of.size(); ++rank) host_of[rank] = rank;
  if (key.hosts.empty()) return host_of;
  const auto& hosts = key.hosts.hosts();
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const Rank rank : hosts[host]) host_of[static_cast<size_t>(rank.value())] = host;
  }
  return host_of;
}

// Times that each host needs, as a multiple of those of the fastest.
struct Slowness {
  double send = 1;
  double receive = 1;
};
std::vector<Slowness> slowness_of(const PlanKey& key) {
  if (key.view.empty()) return std::vector<Slowness>(static_cast<size_t>(key.rank_count));
  std::vector<Slowness> rates;
  double fastest = 0;
  for (const HostRates& host : key.view.hosts()) {
    Slowness rate{0, 0};
    for (const NicRate& nic : host) {
      rate.send += nic.send;
      rate.receive += nic.receive;
    }
    fastest = std::max({fastest, rate.send, rate.receive});
    rates.push_back(rate);
  }
  for (Slowness& rate : rates) rate = {fastest / rate.send, fastest / rate.receive};
  return rates;
}

class Timing {
 public:
  Timing(const PlanKey& key, const std::vector<RankPlan>& plans)
      : key_(key),
        plans_(plans),
        host_of_(hosts_of_ranks(key)),
        slowness_(slowness_of(key)),
        wires_(2 * plans.size()) {
    for (const RankPlan& plan : plans) {
      RankState state;
      state.dependents.resize(plan.steps.size());
      for (uint32_t i = 0; i < plan.steps.size(); ++i) {
        const Step& step = plan.steps[i];
        state.pending.push_back(step.after.size() + (receives(step) ? 1 : 0));
        for (const uint32_t before : step.after) state.dependents[before].push_back(i);
        if (receives(step)) state.receives[step.peer].steps.push_back(i);
        if (step.kind == StepKind::send) state.sends[step.peer].steps.push_back(i);
      }
      ranks_.push_back(std::move(state));
      times_.steps.emplace_back(plan.steps.size());
    }
  }

  PlanTimes run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].pending.size(); ++i) {
        // A step that becomes ready meanwhile has `after`, so that none runs twice.
        const Step& step = plans_[rank].steps[i];
        if (step.after.empty() && !receives(step)) is_ready({rank, i});
      }
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      handle(event);
    }
    for (const RankState& rank : ranks_) R2CCL_CHECK(rank.complete == rank.pending.size());
    times_.end_ns = now_;
    return std::move(times_);
  }

 private:
  struct StepId {
    size_t rank;
    uint32_t index;
    // The order in which a wire takes them.
    friend bool operator>(const StepId& a, const StepId& b) {
      return std::pair(a.index, a.rank) > std::pair(b.index, b.rank);
    }
  };
  // The messages of one direction with one peer. They start in this order.
  struct Messages {
    std::vector<uint32_t> steps;
    size_t started = 0;
  };
  struct RankState {
    std::vector<size_t> pending;  // by step: what it still waits for
    std::vector<std::vector<uint32_t>> dependents;
    std::map<Rank, Messages> sends;
    std::map<Rank, Messages> receives;
    size_t complete = 0;
  };
  // The NICs of a host, or the memory of a rank.
  struct Wire {
    std::priority_queue<StepId, std::vector<StepId>, std::greater<>> ready;
    bool busy = false;
    double receives_until = 0;
  };
  enum class What : uint8_t { wire_is_free, message_arrives, step_is_complete };
  struct Event {
    double at;
    uint64_t number;  // of its making, so that equal times have one order
    What what;
    StepId step;
    friend bool operator>(const Event& a, const Event& b) {
      return std::pair(a.at, a.number) > std::pair(b.at, b.number);
    }
  };

  const Step& step_of(StepId id) const { return plans_[id.rank].steps[id.index]; }
  static size_t index_of(Rank rank) { return static_cast<size_t>(rank.value()); }

  // The first wires are those of the hosts, then come those of the ranks.
  bool in_memory(StepId id) const {
    return host_of_[id.rank] == host_of_[index_of(step_of(id).peer)];
  }
  Wire& wire_of(size_t rank, bool memory) {
    return wires_[memory ? plans_.size() + rank : host_of_[rank]];
  }

  void at(double when, What what, StepId step) { events_.push({when, events_made_++, what, step}); }

  void handle(const Event& event) {
    switch (event.what) {
      case What::wire_is_free: {
        Wire& wire = wire_of(event.step.rank, in_memory(event.step));
        wire.busy = false;
        return send_next(wire);
      }
      case What::message_arrives:
        return arrive(event.step);
      case What::step_is_complete:
        return complete(event.step);
    }
  }

  // A send that waits for an earlier one to the same peer starts with that one.
  void is_ready(StepId id) {
    if (step_of(id).kind != StepKind::send) return complete(id);
    RankState& state = ranks_[id.rank];
    Messages& messages = state.sends[step_of(id).peer];
    while (messages.started < messages.steps.size() &&
           state.pending[messages.steps[messages.started]] == 0) {
      const StepId send{id.rank, messages.steps[messages.started++]};
      Wire& wire = wire_of(id.rank, in_memory(send));
      wire.ready.push(send);
      send_next(wire);
    }
  }

  void send_next(Wire& wire) {
    if (wire.busy || wire.ready.empty()) return;
    const StepId id = wire.ready.top();
    wire.ready.pop();
    wire.busy = true;
    const Step& step = step_of(id);
    const size_t peer = index_of(step.peer);
    const bool memory = in_memory(id);
    const DomainCosts& costs = memory ? key_.costs.memory : key_.costs.network;
    const auto hop = static_cast<double>(memory ? costs.hop_ns : costs.leader_hop_ns);
    const double sent = now_ + message_ns(step, memory, slowness_[host_of_[id.rank]].send);
    Wire& in = wire_of(peer, memory);
    const double first = std::max(now_, in.receives_until);
    const double last =
        std::max(sent, first + message_ns(step, memory, slowness_[host_of_[peer]].receive));
    in.receives_until = last;
    const bool copied = step.source.count * size_of(key_.type) <= limits::kBufferedSendBytesMax;
    times_.steps[id.rank][id.index] = {now_, sent, 0};
    at(sent, What::wire_is_free, id);
    Messages& arriving = ranks_[peer].receives[Rank(static_cast<int32_t>(id.rank))];
    const StepId receive{peer, arriving.steps[arriving.started++]};
    times_.steps[peer][receive.index] = {first + hop, last + hop, 0};
    at(last + hop, What::message_arrives, receive);
    // The link copies a small send, which is complete at once.
    at(copied ? sent : last + 2 * hop, What::step_is_complete, id);
  }

  // One rank alone fills the NICs of its host, which the costs of a leader tell; in memory each
  // rank has the costs of all ranks that act at a time.
  double message_ns(const Step& step, bool memory, double slowness) const {
    const auto kib = static_cast<double>(step.source.count * size_of(key_.type)) / 1024;
    const DomainCosts& costs = memory ? key_.costs.memory : key_.costs.network;
    const auto kib_ns = static_cast<double>(memory ? costs.kib_ps : costs.leader_kib_ps) / 1000;
    if (memory) return static_cast<double>(costs.message_ns) + kib * kib_ns;
    return static_cast<double>(costs.leader_message_ns) + slowness * kib * kib_ns;
  }

  void arrive(StepId receive) {
    if (--ranks_[receive.rank].pending[receive.index] == 0) complete(receive);
  }

  void complete(StepId id) {
    RankState& state = ranks_[id.rank];
    ++state.complete;
    StepTime& time = times_.steps[id.rank][id.index];
    time.end_ns = now_;
    if (step_of(id).kind == StepKind::copy) time.start_ns = time.moved_ns = now_;
    for (const uint32_t dependent : state.dependents[id.index]) {
      if (--state.pending[dependent] == 0) is_ready({id.rank, dependent});
    }
  }

  const PlanKey& key_;
  const std::vector<RankPlan>& plans_;
  const std::vector<size_t> host_of_;
  const std::vector<Slowness> slowness_;  // by host
  double now_ = 0;
  std::vector<RankState> ranks_;
  std::vector<Wire> wires_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t events_made_ = 0;
  PlanTimes times_;
};

}  // namespace

PlanTimes plan_times(const PlanKey& key, const std::vector<RankPlan>& plans) {
  return Timing(key, plans).run();
}

}  // namespace r2ccl
