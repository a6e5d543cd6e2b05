#include "sim/fluid/fluid_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Events that lie closer together than rounding can tell are at the same time. Else a link that
// ends one message and begins the next at once would seem idle in between.
constexpr double kSameTime = 1e-12;

}  // namespace

FluidRun::FluidRun(const FluidPlan& plan, const HostGroups& hosts, const FluidFabric& fabric,
                   const FluidOptions& options, FluidRecorder* recorder)
    : plan_(plan),
      fabric_(fabric),
      options_(options),
      recorder_(recorder),
      network_(fabric, hosts, static_cast<int32_t>(plan.ranks().size())),
      changes_(options.changes),
      processor_free_s_(plan.ranks().size()) {
  std::ranges::stable_sort(changes_, {}, &RateChange::at_s);
  result_.rank_s.resize(plan.ranks().size());
  result_.host_sent.resize(network_.hosts());
  result_.host_received.resize(network_.hosts());
}

Result<FluidTime> FluidRun::run() {
  make_links();
  for (uint32_t rank = 0; rank < players_.size(); ++rank) {
    posted_.clear();
    players_[rank].start(posted_);
    if (players_[rank].work_left() > 0) ++ranks_left_;
    handle_posted(rank);
  }
  begin_messages();
  while (ranks_left_ > 0) {
    const double next = next_time();
    if (next == kNever) return standstill();
    now_s_ = std::max(now_s_, next);
    run_events(now_s_ + now_s_ * kSameTime);
    begin_messages();
  }
  result_.time_s = *std::ranges::max_element(result_.rank_s);
  return std::move(result_);
}

void FluidRun::make_links() {
  const std::vector<CompactPlan>& ranks = plan_.ranks();
  const PlanPlayer::Bounds bounds{
      .window = options_.window,
      .staging = options_.staging,
      .buffered_count = options_.buffered_bytes / plan_.element_bytes()};
  uint32_t queues = 0;
  players_.reserve(ranks.size());
  for (const CompactPlan& rank : ranks) {
    players_.emplace_back(rank, bounds);
    first_queue_.push_back(queues);
    queues += static_cast<uint32_t>(rank.queues().size());
  }
  link_of_queue_.resize(queues);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    for (uint32_t queue = 0; queue < ranks[rank].queues().size(); ++queue) {
      if (ranks[rank].queues()[queue].sends) make_link(rank, queue);
    }
  }
  sending_ = LinkHeap(links_.size());
  if (network_.has_weights()) network_.set_traffic(traffic());
}

// Returns what the plan sends from host to host, in elements.
std::vector<RailFlow> FluidRun::traffic() const {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> counts;
  for (const Link& link : links_) {
    if (!link.remote) continue;
    const CompactPlan& plan = plan_.ranks()[link.from];
    uint64_t& count = counts[{network_.host_of(link.from), network_.host_of(link.to)}];
    CompactStep step;
    uint32_t at = plan.queues()[link.send_queue].begin;
    for (uint32_t i = 0; i < plan.queues()[link.send_queue].length; ++i) {
      plan.read_step(at, step);
      count += step.count;
    }
  }
  std::vector<RailFlow> flows;
  for (const auto& [hosts, count] : counts) flows.push_back({hosts.first, hosts.second, count});
  return flows;
}

void FluidRun::make_link(uint32_t from, uint32_t send_queue) {
  const Rank peer = plan_.ranks()[from].queues()[send_queue].peer;
  const auto to = static_cast<uint32_t>(peer.value());
  const uint32_t receive_queue = plan_.ranks()[to].find(false, Rank(static_cast<int32_t>(from)));
  const auto link = static_cast<uint32_t>(links_.size());
  link_of_queue_[first_queue_[from] + send_queue] = link;
  link_of_queue_[first_queue_[to] + receive_queue] = link;
  links_.push_back({.from = from,
                    .to = to,
                    .send_queue = send_queue,
                    .receive_queue = receive_queue,
                    .remote = network_.is_remote(from, to)});
}

double FluidRun::next_time() const {
  double next = sending_.empty() ? kNever : sending_.first_time();
  for (const auto* queues : {arrivals_, acknowledgements_}) {
    for (const Fifo<Timed>* queue : {&queues[0], &queues[1]}) {
      if (!queue->empty()) next = std::min(next, queue->front().at_s);
    }
  }
  if (!late_.empty()) next = std::min(next, std::get<double>(late_.top()));
  if (next_change_ < changes_.size()) next = std::min(next, changes_[next_change_].at_s);
  return next;
}

void FluidRun::run_events(double until_s) {
  while (!sending_.empty() && sending_.first_time() <= until_s) end_message(sending_.first());
  while (next_change_ < changes_.size() && changes_[next_change_].at_s <= until_s) {
    apply(changes_[next_change_++]);
  }
  while (!late_.empty() && std::get<double>(late_.top()) <= until_s) {
    const auto [at, order, event, link] = late_.top();
    late_.pop();
    if (event == Event::arrival) {
      arrive(link);
    } else {
      ++links_[link].sendable;
      startable_.push_back(link);
    }
  }
  for (Fifo<Timed>& queue : arrivals_) {
    for (; !queue.empty() && queue.front().at_s <= until_s; queue.pop_front()) {
      arrive(queue.front().link);
    }
  }
  for (Fifo<Timed>& queue : acknowledgements_) {
    for (; !queue.empty() && queue.front().at_s <= until_s; queue.pop_front()) {
      acknowledge(queue.front().link);
    }
  }
}

void FluidRun::apply(const RateChange& change) {
  const NicRate before = network_.rate(change.host, change.nic);
  const bool fails = (before.send > 0 && change.rate.send == 0) ||
                     (before.receive > 0 && change.rate.receive == 0);
  std::vector<uint32_t> restarted;
  for (uint32_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (!link.active || !link.remote) continue;
    const bool concerned =
        network_.host_of(link.from) == change.host || network_.host_of(link.to) == change.host;
    if (!concerned && !network_.has_weights()) continue;
    if (fails && concerned && uses(link, change)) {
      link.held_until_s = std::max(link.held_until_s, now_s_ + options_.detection_s);
    }
    restarted.push_back(i);
  }
  // Their pairs of NICs, or the weights of these, may be others now.
  for (const uint32_t link : restarted) stop_flows(link);
  network_.set_rate(change.host, change.nic, change.rate);
  switched_.insert(switched_.end(), restarted.begin(), restarted.end());
}

// Returns whether the link sends bytes through the NIC.
bool FluidRun::uses(const Link& link, const RateChange& change) {
  if (fabric_.kind == FluidFabricKind::flat) return true;
  const uint32_t from = network_.host_of(link.from);
  const uint32_t to = network_.host_of(link.to);
  if (fabric_.kind == FluidFabricKind::rails) {
    return network_.rate(from, change.nic).send > 0 && network_.rate(to, change.nic).receive > 0;
  }
  const bool sends = from == change.host;
  return std::ranges::any_of(network_.pairs(link.from, link.to), [&](const auto& pair) {
    return (sends ? pair.sender : pair.receiver) == change.nic;
  });
}

// Looks at the queues of the rank in which messages were posted.
void FluidRun::handle_posted(uint32_t rank) {
  for (const uint32_t queue : posted_) {
    const uint32_t link = link_of_queue_[first_queue_[rank] + queue];
    const bool sends = links_[link].from == rank && links_[link].send_queue == queue;
    if (sends) prepare(link);
    startable_.push_back(link);
  }
}

void FluidRun::prepare(uint32_t index) {
  Link& link = links_[index];
  const uint32_t posted = players_[link.from].posted(link.send_queue);
  if (options_.message_s == 0) {
    link.sendable = posted;
    return;
  }
  double& free_s = processor_free_s_[link.from];
  for (; link.prepared < posted; ++link.prepared) {
    free_s = std::max(free_s, now_s_) + options_.message_s;
    late_.emplace(free_s, late_count_++, Event::prepared, index);
  }
}

// Begins all messages that can begin now. Messages without bytes, and without latency, may let
// others begin.
void FluidRun::begin_messages() {
  do {
    for (size_t i = 0; i < startable_.size(); ++i) begin_next(startable_[i]);
    startable_.clear();
    refresh_flows();
  } while (!startable_.empty());
}

void FluidRun::begin_next(uint32_t index) {
  for (;;) {
    Link& link = links_[index];
    const uint32_t receivable = players_[link.to].posted(link.receive_queue);
    if (link.busy || link.begun >= link.sendable || link.begun >= receivable) return;
    const uint64_t count = players_[link.from].begin(link.send_queue);
    ++link.begun;
    if (count == 0) {
      depart(index);
      continue;
    }
    link.busy = true;
    const uint64_t bytes = count * plan_.element_bytes();
    link.message_end = link.sent + static_cast<double>(bytes);
    if (link.remote) {
      result_.host_sent[network_.host_of(link.from)] += bytes;
      result_.host_received[network_.host_of(link.to)] += bytes;
    }
    if (link.active) {
      set_end(index);
    } else {
      link.sent_then = link.sent;
      switched_.push_back(index);
    }
  }
}

void FluidRun::end_message(uint32_t index) {
  Link& link = links_[index];
  sending_.remove(index);
  link.busy = false;
  link.sent = link.message_end;
  startable_.push_back(index);
  switched_.push_back(index);
  depart(index);
}

// The last byte of a message has left.
void FluidRun::depart(uint32_t index) {
  ++result_.messages;
  const Link& link = links_[index];
  const double latency = link.remote ? fabric_.latency_s : fabric_.intra_latency_s;
  if (latency == 0) return arrive(index);
  arrivals_[link.remote ? 1 : 0].push_back({now_s_ + latency, index});
}

void FluidRun::arrive(uint32_t index) {
  const Link& link = links_[index];
  if (now_s_ < link.held_until_s) {
    late_.emplace(link.held_until_s, late_count_++, Event::arrival, index);
    return;
  }
  PlanPlayer& receiver = players_[link.to];
  const uint32_t work = receiver.work_left();
  posted_.clear();
  receiver.arrive(link.receive_queue, posted_);
  note_work(link.to, work);
  handle_posted(link.to);
  const double latency = link.remote ? fabric_.latency_s : fabric_.intra_latency_s;
  if (latency == 0) return acknowledge(index);
  acknowledgements_[link.remote ? 1 : 0].push_back({now_s_ + latency, index});
}

void FluidRun::acknowledge(uint32_t index) {
  const Link& link = links_[index];
  PlanPlayer& sender = players_[link.from];
  const uint32_t work = sender.work_left();
  posted_.clear();
  sender.acknowledge(link.send_queue, posted_);
  note_work(link.from, work);
  handle_posted(link.from);
}

// The rank may have completed steps beside its sends.
void FluidRun::note_work(uint32_t rank, uint32_t work_before) {
  const uint32_t work = players_[rank].work_left();
  if (work == work_before) return;
  result_.rank_s[rank] = now_s_;
  if (work == 0) --ranks_left_;
}

void FluidRun::refresh_flows() {
  for (const uint32_t index : switched_) {
    const Link& link = links_[index];
    if (link.busy && !link.active) start_flows(index);
    if (!link.busy && link.active) stop_flows(index);
  }
  switched_.clear();
  network_.shares().settle([this](uint32_t link, double) {
    if (std::exchange(links_[link].rerated, true)) return;
    rerated_.push_back(link);
  });
  for (const uint32_t link : rerated_) set_rate(link);
  rerated_.clear();
}

void FluidRun::start_flows(uint32_t index) {
  Link& link = links_[index];
  link.active = true;
  for (const FluidNetwork::Pair& pair : network_.pairs(link.from, link.to)) {
    const MaxMin::Flow flow = network_.shares().add_flow(pair.all(), index, pair.weight);
    if (flow >= next_flow_.size()) next_flow_.resize(flow + 1);
    next_flow_[flow] = std::exchange(link.first_flow, flow);
  }
  link.since_s = now_s_;
}

void FluidRun::stop_flows(uint32_t index) {
  Link& link = links_[index];
  advance(link);
  link.rate = 0;
  link.active = false;
  sending_.remove(index);
  for (uint32_t flow = link.first_flow; flow != kNone; flow = next_flow_[flow]) {
    network_.shares().remove_flow(flow);
  }
  link.first_flow = kNone;
}

// Counts the bytes that the link has sent at its rate.
void FluidRun::advance(Link& link) {
  const double bytes = (now_s_ - link.since_s) * link.rate;
  if (recorder_ != nullptr && bytes > 0 && link.remote) {
    recorder_->carried(network_.host_of(link.from), network_.host_of(link.to), link.since_s, now_s_,
                       bytes);
  }
  link.sent_then += bytes;
  link.since_s = now_s_;
}

void FluidRun::set_rate(uint32_t index) {
  Link& link = links_[index];
  link.rerated = false;
  if (!link.active) return;
  advance(link);
  link.rate = 0;
  for (uint32_t flow = link.first_flow; flow != kNone; flow = next_flow_[flow]) {
    link.rate += network_.shares().rate(flow);
  }
  set_end(index);
}

void FluidRun::set_end(uint32_t index) {
  const Link& link = links_[index];
  if (link.rate == 0) return sending_.remove(index);
  sending_.set(index, link.since_s + (link.message_end - link.sent_then) / link.rate);
}

// Names the cause: a message that no NIC carries, or else a rank that waits for ever.
Status FluidRun::standstill() {
  for (const Link& link : links_) {
    if (!link.busy) continue;
    return {Code::invalid_argument,
            "the collective cannot end: no pair of NICs carries a message from rank " +
                std::to_string(link.from) + " to rank " + std::to_string(link.to) + ", of host " +
                std::to_string(network_.host_of(link.from)) + " to host " +
                std::to_string(network_.host_of(link.to))};
  }
  for (size_t rank = 0; rank < players_.size(); ++rank) {
    if (players_[rank].work_left() == 0) continue;
    return {Code::invalid_argument, "the plan stands still: rank " + std::to_string(rank) +
                                        " waits in step " +
                                        std::to_string(players_[rank].first_left()) + " for ever"};
  }
  R2CCL_CHECK(false);
  return {};
}

}  // namespace r2ccl::sim
