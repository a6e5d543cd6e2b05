// Runs a plan on SimGrid (https://simgrid.org), as a check of the fluid simulator by other code:
// the text of `r2ccl plan show --text` is read from standard input, the steps run by the rules of
// src/plan/plan.h, and SimGrid shares the bandwidth. Prints the time in seconds.
//
//   plan_on_simgrid RATE LATENCY_S WINDOW STAGING BUFFERED_BYTES ELEMENT_BYTES [HOST=SHARE]...
//
// RATE is in bytes a second. An actor for each pair of ranks sends their messages one after the
// other. Latency is time after the last byte, in which the next message already goes; so the
// platform itself has none.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace s4u = simgrid::s4u;

struct Settings {
  double rate = 0;
  double latency_s = 0;
  uint32_t window = 0;
  uint32_t staging = 0;
  double buffered_bytes = 0;
  double element_bytes = 0;
};

struct Step {
  std::string kind;
  int peer = -1;
  double bytes = 0;
  std::vector<uint32_t> after;
  std::vector<uint32_t> dependents;
  uint32_t pending = 0;  // steps, and for a reduction its message
  uint32_t queue = 0;
};

struct Link;

// The steps of one direction and peer.
struct Queue {
  bool sends = false;
  std::vector<uint32_t> steps;
  uint32_t posted = 0;
  uint32_t ended = 0;
  Link* link = nullptr;
};

struct Rank {
  std::vector<Step> steps;
  std::vector<Queue> queues;
  std::map<std::pair<bool, int>, uint32_t> queue_of;
  std::vector<uint32_t> staged;  // the reductions, in the order of the plan
  uint32_t staged_next = 0;
  uint32_t slots = 0;
};

// All messages from one rank to another.
struct Link {
  int from = 0;
  int to = 0;
  Queue* sends = nullptr;
  Queue* receives = nullptr;
  s4u::SemaphorePtr sendable = s4u::Semaphore::create(0);
  s4u::SemaphorePtr receivable = s4u::Semaphore::create(0);
  s4u::SemaphorePtr underway = s4u::Semaphore::create(0);
  std::deque<double> arrivals;
  s4u::SemaphorePtr arrived = s4u::Semaphore::create(0);
  std::deque<double> acknowledgements;
};

// ---- The plan ----------------------------------------------------------------------------------

double elements_of(const std::string& region) {
  return std::atof(region.c_str() + region.find('+') + 1);
}

Step parse_step(std::istringstream& words) {
  Step step;
  words >> step.kind;
  for (std::string word; words >> word;) {
    if (word == "peer") {
      words >> step.peer;
    } else if (word == "source" || word == "target") {
      words >> word;
      step.bytes = elements_of(word);
    } else if (word == "after") {
      for (uint32_t earlier = 0; words >> earlier;) {
        step.after.push_back(earlier);
        if (words.peek() == ',') words.ignore();
      }
    }
  }
  return step;
}

std::vector<Rank> read_plan(std::istream& in, const Settings& settings) {
  std::vector<Rank> ranks;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first == "r2ccl-plan" || first[0] == '#') continue;
    if (first == "rank") {
      ranks.emplace_back();
      continue;
    }
    Rank& rank = ranks.back();
    const auto number = static_cast<uint32_t>(rank.steps.size());
    rank.steps.push_back(parse_step(words));
    Step& step = rank.steps.back();
    step.bytes *= settings.element_bytes;
    step.pending = static_cast<uint32_t>(step.after.size());
    for (const uint32_t earlier : step.after) rank.steps[earlier].dependents.push_back(number);
    if (step.kind == "copy") continue;
    const std::pair key(step.kind == "send", step.peer);
    const auto [it, is_new] = rank.queue_of.emplace(key, static_cast<uint32_t>(rank.queues.size()));
    if (is_new) rank.queues.emplace_back().sends = key.first;
    step.queue = it->second;
    rank.queues[it->second].steps.push_back(number);
    if (step.kind != "receive_reduce") continue;
    ++step.pending;
    rank.staged.push_back(number);
  }
  for (Rank& rank : ranks) rank.slots = settings.staging;
  return ranks;
}

// ---- The run -----------------------------------------------------------------------------------

class Run {
 public:
  Run(std::vector<Rank> ranks, const Settings& settings, std::vector<s4u::Host*> hosts)
      : settings_(settings), ranks_(std::move(ranks)), hosts_(std::move(hosts)) {
    for (int from = 0; from < static_cast<int>(ranks_.size()); ++from) {
      for (const auto& [key, queue] : ranks_[from].queue_of) {
        if (key.first) make_link(from, key.second, queue);
      }
    }
  }

  double time() {
    for (const auto& link : links_) {
      s4u::Actor::create("link", hosts_[link->from], [this, &link] { send_all(*link); });
      if (settings_.latency_s == 0) continue;
      s4u::Actor::create("arrivals", hosts_[link->to], [this, &link] { arrive_all(*link); });
      s4u::Actor::create("acks", hosts_[link->from], [this, &link] { acknowledge_all(*link); });
    }
    s4u::Actor::create("start", hosts_[0], [this] {
      for (Rank& rank : ranks_) start(rank);
      release();
    });
    s4u::Engine::get_instance()->run();
    for (const Rank& rank : ranks_) {
      for (const Queue& queue : rank.queues) {
        if (queue.ended == queue.steps.size()) continue;
        std::fputs("plan_on_simgrid: the plan stands still\n", stderr);
        std::exit(1);
      }
    }
    return end_s_;
  }

 private:
  void make_link(int from, int to, uint32_t queue) {
    links_.push_back(std::make_unique<Link>());
    Link& link = *links_.back();
    link.from = from;
    link.to = to;
    link.sends = &ranks_[from].queues[queue];
    link.receives = &ranks_[to].queues[ranks_[to].queue_of.at({false, from})];
    link.sends->link = link.receives->link = &link;
  }

  void send_all(Link& link) {
    for (const uint32_t step : link.sends->steps) {
      link.sendable->acquire();
      link.receivable->acquire();
      const double bytes = ranks_[link.from].steps[step].bytes;
      if (bytes > 0) s4u::Comm::sendto(hosts_[link.from], hosts_[link.to], bytes);
      if (settings_.latency_s == 0) {
        arrive(link);
        acknowledge(link);
        release();
        continue;
      }
      link.arrivals.push_back(s4u::Engine::get_clock() + settings_.latency_s);
      link.underway->release();
    }
  }

  void arrive_all(Link& link) {
    for (size_t i = 0; i < link.receives->steps.size(); ++i) {
      link.underway->acquire();
      s4u::this_actor::sleep_until(link.arrivals.front());
      link.arrivals.pop_front();
      arrive(link);
      release();
      link.acknowledgements.push_back(s4u::Engine::get_clock() + settings_.latency_s);
      link.arrived->release();
    }
  }

  void acknowledge_all(Link& link) {
    for (size_t i = 0; i < link.sends->steps.size(); ++i) {
      link.arrived->acquire();
      s4u::this_actor::sleep_until(link.acknowledgements.front());
      link.acknowledgements.pop_front();
      acknowledge(link);
      release();
    }
  }

  void arrive(Link& link) {
    Rank& rank = ranks_[link.to];
    const uint32_t number = link.receives->steps[link.receives->ended++];
    end_s_ = s4u::Engine::get_clock();
    if (rank.steps[number].kind == "receive") {
      finish(rank, number);
    } else if (--rank.steps[number].pending == 0) {
      become_ready(rank, number);
    }
    advance(rank, *link.receives);
    advance_staged(rank);
  }

  void acknowledge(Link& link) {
    Rank& rank = ranks_[link.from];
    const uint32_t number = link.sends->steps[link.sends->ended++];
    if (rank.steps[number].bytes > settings_.buffered_bytes) finish(rank, number);
    advance(rank, *link.sends);
    advance_staged(rank);
  }

  void start(Rank& rank) {
    for (Queue& queue : rank.queues) advance(rank, queue);
    advance_staged(rank);
    for (uint32_t i = 0; i < rank.steps.size(); ++i) {
      if (rank.steps[i].kind == "copy" && rank.steps[i].after.empty()) finish(rank, i);
    }
    advance_staged(rank);
  }

  void finish(Rank& rank, uint32_t number) {
    std::vector<uint32_t> finished = {number};
    while (!finished.empty()) {
      const uint32_t step = finished.back();
      finished.pop_back();
      for (const uint32_t dependent : rank.steps[step].dependents) {
        if (--rank.steps[dependent].pending == 0) become_ready(rank, dependent);
      }
    }
  }

  void become_ready(Rank& rank, uint32_t number) {
    const std::string& kind = rank.steps[number].kind;
    if (kind == "send" || kind == "receive") {
      advance(rank, rank.queues[rank.steps[number].queue]);
      return;
    }
    if (kind == "receive_reduce") ++rank.slots;
    end_s_ = s4u::Engine::get_clock();
    finish(rank, number);
  }

  bool may_post(const Rank& rank, const Queue& queue) const {
    if (queue.posted == queue.steps.size() || queue.posted - queue.ended >= settings_.window) {
      return false;
    }
    const uint32_t number = queue.steps[queue.posted];
    if (rank.steps[number].kind != "receive_reduce") return rank.steps[number].pending == 0;
    return rank.slots > 0 && rank.staged[rank.staged_next] == number;
  }

  void advance(Rank& rank, Queue& queue) {
    while (may_post(rank, queue)) {
      const uint32_t number = queue.steps[queue.posted++];
      if (rank.steps[number].kind == "receive_reduce") {
        --rank.slots;
        ++rank.staged_next;
      }
      posted_.push_back(queue.sends ? queue.link->sendable : queue.link->receivable);
      if (queue.sends && rank.steps[number].bytes <= settings_.buffered_bytes) {
        finish(rank, number);
      }
    }
  }

  void advance_staged(Rank& rank) {
    while (rank.staged_next < rank.staged.size()) {
      const uint32_t before = rank.staged_next;
      advance(rank, rank.queues[rank.steps[rank.staged[before]].queue]);
      if (rank.staged_next == before) return;
    }
  }

  // Wakes the links of the messages that were posted. Other actors may run meanwhile, so this comes
  // after all changes.
  void release() {
    for (const s4u::SemaphorePtr& each : std::exchange(posted_, {})) each->release();
  }

  const Settings settings_;
  std::vector<Rank> ranks_;
  std::vector<s4u::Host*> hosts_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<s4u::SemaphorePtr> posted_;
  double end_s_ = 0;
};

// Each host has a link of its own in each direction; between them is nothing.
std::vector<s4u::Host*> make_hosts(const std::vector<double>& rates) {
  auto* zone = s4u::create_star_zone("flat");
  std::vector<s4u::Host*> hosts;
  for (size_t i = 0; i < rates.size(); ++i) {
    const std::string name = std::to_string(i);
    auto* host = zone->create_host("h" + name, 1e9)->seal();
    const auto* up = zone->create_link("up" + name, rates[i])->set_latency(0)->seal();
    const auto* down = zone->create_link("down" + name, rates[i])->set_latency(0)->seal();
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                    std::vector<s4u::LinkInRoute>{s4u::LinkInRoute(up)}, false);
    zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr,
                    std::vector<s4u::LinkInRoute>{s4u::LinkInRoute(down)}, false);
    hosts.push_back(host);
  }
  zone->seal();
  return hosts;
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  if (argc < 7) {
    std::fputs("usage: see the top of plan_on_simgrid.cc\n", stderr);
    return 2;
  }
  // Plain max-min shares: no factors, no windows of TCP, no traffic of acknowledgements.
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
        "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0",
        "surf/precision:1e-12", "contexts/stack-size:64"}) {
    s4u::Engine::set_config(setting);
  }
  Settings settings;
  settings.rate = std::atof(argv[1]);
  settings.latency_s = std::atof(argv[2]);
  settings.window = static_cast<uint32_t>(std::atoi(argv[3]));
  settings.staging = static_cast<uint32_t>(std::atoi(argv[4]));
  settings.buffered_bytes = std::atof(argv[5]);
  settings.element_bytes = std::atof(argv[6]);
  std::vector<Rank> ranks = read_plan(std::cin, settings);
  std::vector<double> rates(ranks.size(), settings.rate);
  for (int i = 7; i < argc; ++i) {
    const std::string text = argv[i];
    rates.at(static_cast<size_t>(std::atoi(text.c_str()))) *=
        std::atof(text.c_str() + text.find('=') + 1);
  }
  std::vector<s4u::Host*> hosts = make_hosts(rates);
  std::printf("%.12g\n", Run(std::move(ranks), settings, std::move(hosts)).time());
  return 0;
}
