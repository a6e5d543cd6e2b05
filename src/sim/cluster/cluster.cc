#include "sim/cluster/cluster.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "runtime/link/notice.h"
#include "sim/cluster/checked_port.h"

namespace r2ccl::sim {
namespace {

// Of communicator c: 2 c + 1 for its collectives, 2 c + 2 for Send and Recv.
constexpr uint32_t kChannelsEach = 2;
constexpr int kManagementRail = 100;
constexpr uint64_t kTurnsPerCheck = 4;

std::function<std::array<std::byte, kNonceBytes>()> nonces(uint64_t seed) {
  return [random = Random(seed)]() mutable {
    std::array<std::byte, kNonceBytes> nonce;
    for (std::byte& byte : nonce) byte = static_cast<std::byte>(random.next());
    return nonce;
  };
}

// These ranks meet without a rendezvous.
RunIdentity make_run() {
  const std::array<std::byte, kSecretBytes> key{std::byte{42}};
  RunIdentity run;
  run.key = LockedBytes::copy_of(key);
  return run;
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options) : world_(options.seed, world_options(options)) {
  std::vector<RankCard> cards;
  for (int rank = 0; rank < options.hosts; ++rank) {
    nodes_.push_back(make_node(rank, options));
    RankCard card;
    card.rank = Rank(rank);
    card.host_name = "h" + std::to_string(rank);
    card.host[0] = static_cast<std::byte>(rank + 1);
    node(rank).engine->describe(card);
    cards.push_back(std::move(card));
  }
  const RunIdentity run = make_run();
  for (int rank = 0; rank < options.hosts; ++rank) {
    Node& each = node(rank);
    R2CCL_CHECK(each.engine->start(Rank(rank), {cards, run}, each).ok());
    each.incidents = std::make_unique<Incidents>(*each.engine, *each.clock);
    each.drains = std::make_unique<Drains>(*each.engine, *each.clock, nullptr);
    each.ended.resize(static_cast<size_t>(options.hosts));
    add_communicators(rank, options);
    each.actor = world_.add_actor(
        {each.host, [&each] { each.progress(); }, [&each] { return each.next_timeout(); }});
  }
}

LinkSettings Cluster::link_settings(const ClusterOptions& options) {
  LinkSettings settings = options.link;
  if (options.checked) settings.witness = &check_;
  return settings;
}

WorldOptions Cluster::world_options(const ClusterOptions& options) {
  WorldOptions world = options.world;
  if (options.checked) world.network.watch = &check_;
  return world;
}

void Cluster::add_communicators(int rank, const ClusterOptions& options) {
  Node& each = node(rank);
  std::vector<MessagePort*> ports;
  for (int peer = 0; peer < options.hosts; ++peer) {
    MessagePort* port = each.engine->link(Rank(peer));
    if (port != nullptr && options.checked) {
      const LinkEnd end{Rank(rank), Rank(peer)};
      each.checked_ports.push_back(std::make_unique<CheckedPort>(*port, end, check_));
      port = each.checked_ports.back().get();
    }
    ports.push_back(port);
  }
  for (int c = 0; c < options.communicators; ++c) {
    const ChannelId first(kChannelsEach * static_cast<uint32_t>(c) + 1);
    const ChannelId second(first.value() + 1);
    each.communicators.push_back({std::make_unique<Executor>(Rank(rank), first, ports),
                                  std::make_unique<PointToPoint>(Rank(rank), second, ports)});
  }
  each.executor = each.communicators.front().executor.get();
  each.point_to_point = each.communicators.front().point_to_point.get();
}

Cluster::~Cluster() {
  for (int rank = 0; rank < size(); ++rank) leave(rank);
}

void Cluster::leave(int rank) {
  Node& each = node(rank);
  if (each.engine == nullptr) return;
  world_.remove_actor(each.actor);
  each.executor = nullptr;
  each.point_to_point = nullptr;
  each.communicators.clear();
  each.checked_ports.clear();
  each.drains.reset();
  each.incidents.reset();
  each.engine.reset();
}

void Cluster::Node::on_path_event(const PathEvent& event) {
  check->on_path_event({engine->self(), event.peer});
  events.push_back(event);
  incidents->on_path_event(event);
}

void Cluster::Node::on_notice(Rank peer, std::span<const std::byte> bytes) {
  notices.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.empty()) return;
  switch (static_cast<NoticeKind>(bytes[0])) {
    case NoticeKind::observation:
      return incidents->on_observation(bytes.subspan(1));
    case NoticeKind::verdict:
      return incidents->on_verdict(bytes.subspan(1));
    case NoticeKind::probe_request:
      return incidents->on_probe_request(peer, bytes.subspan(1));
    case NoticeKind::probe_answer:
      return incidents->on_probe_answer(bytes.subspan(1));
    case NoticeKind::losses:
      return incidents->on_losses(peer, bytes.subspan(1));
    case NoticeKind::drain_question:
      return drains->on_question(peer, bytes.subspan(1));
    case NoticeKind::drain_answer:
      return drains->on_answer(peer, bytes.subspan(1));
    case NoticeKind::failure:
    case NoticeKind::calls:
    case NoticeKind::status_request:
    case NoticeKind::status:
    case NoticeKind::address:
    case NoticeKind::drained:
      return;  // of a communicator, which this job has not
  }
}

void Cluster::Node::on_peer_end(Rank peer, PeerEnd end, const std::string&) {
  ends.emplace_back(peer, end);
  ended[static_cast<size_t>(peer.value())] = true;
  incidents->on_peer_gone(peer, end);
}

// The buffers of a simulated job are all there.
void Cluster::Node::on_bad_memory(const BadMemory&) {
  check->violated("the kernel refused memory that is there");
}

void Cluster::Node::on_contradiction(Rank peer, const std::string& why) {
  contradictions.push_back(why);
  check->violated("rank " + std::to_string(engine->self().value()) + " hears of rank " +
                  std::to_string(peer.value()) + " what cannot be: " + why);
}

void Cluster::Node::progress() {
  engine->progress(0);
  incidents->progress(ended);
  drains->progress();
  if (in_turn) in_turn();
  if (!leaving) check_departed();
  // In every turn it would cost two thirds of the speed.
  if (++turns % kTurnsPerCheck != 0) return;
  engine->check_invariants();
  incidents->check_invariants();
}

void Cluster::Node::check_departed() {
  std::vector<Rank> departed;
  for (size_t peer = 0; peer < ended.size(); ++peer) {
    const Link* link = engine->link(Rank(static_cast<int32_t>(peer)));
    if (link == nullptr) continue;
    if (link->wants_progress()) return;  // it has more to deliver
    if (link->peer_said_goodbye()) departed.emplace_back(static_cast<int32_t>(peer));
  }
  if (departed.empty()) return;
  for (const Communicator& one : communicators) {
    std::vector<Rank> needed = one.executor->waits_on();
    std::ranges::copy(one.point_to_point->waits_on(), std::back_inserter(needed));
    for (const Rank rank : needed) {
      if (std::ranges::find(departed, rank) == departed.end()) continue;
      check->violated("rank " + std::to_string(engine->self().value()) + " waits for rank " +
                      std::to_string(rank.value()) + ", which has said goodbye");
    }
  }
}

TimeNs Cluster::Node::next_timeout() const {
  return clock->to_virtual(
      std::min({engine->next_timeout(), incidents->next_timeout(), drains->next_timeout()}));
}

std::unique_ptr<Cluster::Node> Cluster::make_node(int rank, const ClusterOptions& options) {
  auto made = std::make_unique<Node>();
  made->check = &check_;
  made->host = &fabric().add_host("h" + std::to_string(rank));
  for (int k = 0; k < options.nics; ++k) {
    NicOptions nic;
    nic.name = "nic" + std::to_string(k);
    nic.rail = static_cast<uint8_t>(k);
    nic.rate_bytes_per_s = options.rate_bytes_per_s;
    made->nics.push_back(&fabric().add_nic(*made->host, nic));
  }
  EngineOptions engine;
  engine.link = link_settings(options);
  engine.nonce = nonces(options.seed * 1000 + static_cast<uint64_t>(rank));
  if (options.management) {
    NicOptions nic;
    nic.name = "mgmt";
    nic.rail = static_cast<uint8_t>(kManagementRail);
    nic.rate_bytes_per_s = 12'500'000;
    nic.data = false;
    made->management = &fabric().add_nic(*made->host, nic);
    engine.oob_ifname = "mgmt";
  }
  made->clock = std::make_unique<HostClock>(world_.clock());
  made->engine = std::make_unique<ProgressEngine>(*made->host, *made->clock, engine);
  R2CCL_CHECK(made->engine->open().ok());
  return made;
}

bool Cluster::all_paths_up() {
  for (const auto& each : nodes_) {
    for (int peer = 0; peer < size(); ++peer) {
      Link* link = each->engine->link(Rank(peer));
      if (link == nullptr) continue;
      for (const auto& path : link->paths()) {
        if (path->state.phase() != PathPhase::up) return false;
      }
    }
  }
  return true;
}

void Cluster::begin_goodbye(int rank) {
  Node& each = node(rank);
  each.leaving = true;
  for (int peer = 0; peer < size(); ++peer) {
    if (Link* link = each.engine->link(Rank(peer))) link->begin_goodbye();
  }
  each.host->poller().wake();
}

bool Cluster::goodbye_done(int rank) {
  for (int peer = 0; peer < size(); ++peer) {
    const Link* link = node(rank).engine->link(Rank(peer));
    if (link != nullptr && !link->goodbye_done()) return false;
  }
  return true;
}

bool Cluster::connect() {
  return world_.run_until([this] { return all_paths_up(); }, now() + 5 * kSecond);
}

void Cluster::wake_all() {
  for (const auto& each : nodes_) each->host->poller().wake();
}

}  // namespace r2ccl::sim
