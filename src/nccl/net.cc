#include "nccl/net.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "edge/open_transport.h"
#include "edge/settings.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/rendezvous_thread.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/secure_random.h"

namespace r2ccl::nccl {
namespace {

constexpr TimeNs kFlushMax = 1 * kSecond;

Status nobody_listens() {
  return {Code::remote, "nobody listens there any more"};
}

Status lost_link() {
  return {Code::remote, "the connection was accepted, and its link has ended since"};
}

uint64_t random_number() {
  std::array<std::byte, sizeof(uint64_t)> bytes;
  secure_random(bytes);
  return ByteReader(bytes).get<uint64_t>();
}

}  // namespace

Result<std::unique_ptr<Net>> Net::open(uint32_t version, Warn warn) {
  auto loaded = load_settings();
  if (!loaded.ok()) return loaded.status();
  CommunicatorOptions options;
  options.config = std::move(loaded).value();
  options.library_version = version;
  auto secret = load_secret(options.config);
  if (!secret.ok()) return secret.status();
  auto transport = open_transport(options.config);
  if (!transport.ok()) return transport.status();
  auto nics = transport.value()->nics();
  if (!nics.ok()) return nics.status();
  std::unique_ptr<Net> net(new Net(std::move(options), std::move(secret).value(),
                                   std::move(transport).value(), nics.value(), std::move(warn)));
  if (net->devices_.empty()) return Status(Code::system, "no usable NIC: see `r2ccl info`");
  R2CCL_RETURN_IF_ERROR(net->start(nics.value()));
  return net;
}

Net::Net(CommunicatorOptions options, LockedBytes secret, std::unique_ptr<Transport> transport,
         const std::vector<Nic>& nics, Warn warn)
    : warn_(std::move(warn)),
      options_(std::move(options)),
      devices_(describe_devices(nics, options_.config.nccl_devices)),
      endpoints_(rendezvous_addresses(nics, kHandleEndpointsMax)),
      driver_(std::move(transport)),
      identity_(make_job_identity()),
      secret_(std::move(secret)) {
  options_.rank_count = 2;
}

Net::~Net() {
  driver_.thread()->call([this] {
    driver_.engine().remove(*this);
    connects_.clear();
    parted_.clear();
    peers_.clear();
    server_.reset();
    operator_.reset();
    reactor_.reset();
  });
}

Status Net::start(const std::vector<Nic>& nics) {
  JobIdentity meeting = identity_;
  R2CCL_RETURN_IF_ERROR(mix_in_secret(secret_, &meeting));
  auto info = describe_self(options_);
  if (!info.ok()) return info.status();
  NetIdentity identity;
  identity.id = ByteReader(identity_.id).get<uint64_t>();
  identity.info = std::move(info).value();
  identity.rank =
      find_launched_rank([](const char* name) -> const char* { return std::getenv(name); });
  identity.authenticated = !secret_.empty();
  std::vector<std::string> names;
  for (const Nic& nic : nics) {
    if (nic.usable) names.push_back(nic.name);
  }
  Status opened;
  driver_.thread()->call([&] {
    ProcessEngine& engine = driver_.engine();
    operator_ = std::make_unique<NetStatus>(std::move(identity), engine, drains_, std::move(names),
                                            [this] { return started_peers(); });
    if (options_.config.status) operator_->open(options_.config.runtime_dir);
    reactor_ = std::make_unique<Reactor>(engine.reactor(), static_cast<HandlerOwner&>(*this));
    server_ =
        std::make_unique<MeetingServer>(*reactor_, engine.transport(), driver_.clock(),
                                        static_cast<MeetingHost&>(*this), meeting, random_nonce);
    engine.add(*this);
    opened = server_->open(endpoints_);
  });
  return opened;
}

std::vector<Peer*> Net::started_peers() const {
  std::vector<Peer*> started;
  const auto add = [&](Peer& peer) {
    if (peer.started() && !peer.job().engine().halted()) started.push_back(&peer);
  };
  for (const auto& [key, peer] : peers_) add(*peer);
  for (const auto& peer : parted_) add(*peer);
  return started;
}

std::vector<Fault> Net::faults() {
  std::vector<Fault> faults;
  driver_.thread()->call([&] {
    const auto& all = operator_->faults().faults();
    faults.assign(all.begin(), all.end());
  });
  return faults;
}

Result<uint32_t> Net::listen(std::span<std::byte, kHandleBytes> out) {
  ListenHandle handle{identity_.id, identity_.secret, 0, endpoints_};
  driver_.thread()->call([&] {
    handle.listener = next_listener_++;
    listeners_.insert(handle.listener);
  });
  encode(handle, out);
  return handle.listener;
}

// An end that NCCL has not accepted is NCCL's no more.
void Net::close_listener(uint32_t listener) {
  driver_.thread()->call([&] {
    listeners_.erase(listener);
    std::erase_if(accepted_, [&](const auto& each) {
      const Accepted& accepted = each.second;
      if (accepted.listener != listener || accepted.taken) return false;
      drop(accepted);
      return true;
    });
  });
}

void Net::drop(const Accepted& accepted) {
  Peer* peer = find_link(accepted.link);
  WireEnd* end = peer == nullptr ? nullptr : peer->find(accepted.number);
  if (end != nullptr) peer->close(*end);
}

Result<Comm*> Net::connect(size_t device, std::span<std::byte, kHandleBytes> handle) {
  uint64_t number = attempt_of(handle);
  Comm* made = nullptr;
  Status status;
  if (number == 0) {
    auto decoded = decode_listen_handle(handle);
    if (!decoded.ok()) return decoded.status();
    driver_.thread()->call([&] {
      auto begun = begin_connect(device, std::move(decoded).value());
      if (begun.ok()) number = begun.value();
      if (!begun.ok()) status = begun.status();
    });
    if (!status.ok()) return status;
    set_attempt(handle, number);
    return made;
  }
  driver_.thread()->call([&] {
    const auto found = connects_.find(number);
    if (found == connects_.end()) {
      status = decode_listen_handle(handle).status();
      if (status.ok()) status = {Code::invalid_usage, "a connect that has ended goes on"};
      return;
    }
    Connect& connect = found->second;
    connect.asked_at = driver_.clock().now();
    const MeetingClient& client = *connect.client;
    if (client.state() == MeetingClient::State::done) made = std::exchange(connect.made, nullptr);
    if (client.state() == MeetingClient::State::failed) status = client.error();
    if (made == nullptr && status.ok()) return;
    give_up(connect);
    connects_.erase(found);
  });
  if (made != nullptr || !status.ok()) set_attempt(handle, 0);
  if (!status.ok()) return status;
  return made;
}

Result<uint64_t> Net::begin_connect(size_t device, ListenHandle handle) {
  JobIdentity job;
  job.id = handle.process;
  job.secret = handle.secret;
  R2CCL_RETURN_IF_ERROR(mix_in_secret(secret_, &job));
  const PeerKey key{handle.process, handle.process == identity_.id};
  const uint64_t number = next_connect_++;
  Connect& connect = connects_[number];
  secure_random(connect.attempt);
  connect.device = device;
  connect.asked_at = driver_.clock().now();
  const uint32_t listener = handle.listener;
  MeetingClient::Callbacks callbacks;
  callbacks.ask = [this, key, listener, &connect]() -> Result<Ask> {
    R2CCL_RETURN_IF_ERROR(hold_peer(connect, key));
    return Ask{identity_.id, connect.peer->link_number(), listener, connect.attempt,
               connect.peer->own_info()};
  };
  callbacks.on_answer = [this, key, &connect](const Answer& answer) {
    return on_answer(connect, key, answer);
  };
  callbacks.on_gone = [this, key, &connect] {
    if (find_peer(key) == connect.peer) part_from(key);
  };
  callbacks.nonce = random_nonce;
  connect.client = std::make_unique<MeetingClient>(
      driver_.engine().transport(), *reactor_, std::move(handle), std::move(job),
      std::move(callbacks), driver_.clock().now(), options_.config.init_timeout_ns);
  return number;
}

void Net::give_up(Connect& connect) {
  if (connect.made != nullptr) {
    connect.made->peer()->close(*connect.made->end());
    delete std::exchange(connect.made, nullptr);
  }
  if (connect.peer != nullptr) std::exchange(connect.peer, nullptr)->hold(-1);
}

Peer* Net::find_peer(const PeerKey& key) {
  const auto found = peers_.find(key);
  return found == peers_.end() ? nullptr : found->second.get();
}

// Returns the peer whose link a new connection may use, or null.
Peer* Net::find_usable(const PeerKey& key) {
  Peer* peer = find_peer(key);
  if (peer == nullptr || peer->usable()) return peer;
  part_from(key);
  return nullptr;
}

Result<Peer*> Net::make_peer(const PeerKey& key, uint64_t link) {
  auto info = describe_self(options_);
  if (!info.ok()) return info.status();
  const bool first = key.process == identity_.id ? key.asked_by_self : identity_.id < key.process;
  JobOptions job{rank_options(options_).engine, !secret_.empty(), &drains_, false};
  job.engine.link.completions_per_pass = SIZE_MAX;  // each marks a request, no more
  auto peer = std::make_unique<Peer>(driver_, Rank(first ? 0 : 1), job, link,
                                     std::move(info).value(), warn_, *operator_);
  R2CCL_RETURN_IF_ERROR(peer->open());
  return (peers_[key] = std::move(peer)).get();
}

Status Net::hold_peer(Connect& connect, const PeerKey& key) {
  Peer* peer = find_usable(key);
  if (peer == nullptr) {
    const auto made = make_peer(key, random_number());
    if (!made.ok()) return made.status();
    peer = made.value();
  }
  if (peer == connect.peer) return {};
  peer->hold(+1);
  if (connect.peer != nullptr) connect.peer->hold(-1);
  connect.peer = peer;
  return {};
}

MeetingClient::Opening Net::on_answer(Connect& connect, const PeerKey& key, const Answer& answer) {
  using Kind = MeetingClient::Opening::Kind;
  if (connect.made != nullptr) return {Kind::open};
  Peer* peer = connect.peer;
  // An earlier answer may have shown that the link cannot start.
  if (peer != find_usable(key) || has_parted(answer.link)) return {Kind::again};
  if (!peer->started() && peer->link_number() == answer.link) {
    const Status started = peer->start(answer.link, answer.info, answer.token);
    if (!started.ok()) return {Kind::failed, started};
  }
  // The other process asks, too, and its ask counts.
  if (!peer->started() || peer->link_number() != answer.link) return {Kind::wait};
  // Another link of this number: that process has lost the one that this one has.
  if (!(peer->token() == answer.token)) part_from(key);
  if (peer != find_usable(key)) return {Kind::again};
  const auto end = peer->open_end(answer.connection, true, devices_[connect.device].nic);
  if (!end.ok()) return {Kind::failed, end.status()};
  connect.made = new Comm(end.value(), peer);
  return {Kind::open};
}

Result<MeetingHost::Verdict> Net::on_ask(const Ask& ask, Answer* answer) {
  const auto known = accepted_.find(ask.attempt);
  const bool taken = known != accepted_.end() && known->second.taken;
  if (!taken && !listeners_.contains(ask.listener)) return nobody_listens();
  (void)find_usable({ask.process, false});  // parts from a link that ends
  if (has_parted(ask.link)) {
    if (taken) return lost_link();
    return Verdict::gone;
  }
  bool later = false;
  const auto found = peer_of(ask, &later);
  if (!found.ok()) return found.status();
  if (later) return Verdict::later;
  Peer* peer = found.value();
  if (known == accepted_.end() || known->second.link != peer->link_number()) {
    if (taken) return lost_link();
    if (known != accepted_.end()) drop(known->second);  // its link has ended since the last answer
    const uint32_t number = peer->next_number();
    const auto end = peer->open_end(number, false, {});
    if (!end.ok()) return end.status();
    accepted_[ask.attempt] = {ask.listener, peer->link_number(), number};
  }
  Accepted& accepted = accepted_[ask.attempt];
  accepted.asked_at = driver_.clock().now();
  *answer = {peer->link_number(), accepted.number, peer->token(), peer->own_info()};
  return Verdict::answer;
}

// Returns the peer that asks, with a link.
Result<Peer*> Net::peer_of(const Ask& ask, bool* later) {
  const PeerKey key{ask.process, false};
  Peer* peer = find_usable(key);
  if (peer == nullptr) {
    const auto made = make_peer(key, ask.link);
    if (!made.ok()) return made.status();
    peer = made.value();
  } else if (!peer->started() && (identity_.id < ask.process || peer->link_number() == ask.link)) {
    // Both ask at once, and the ask of the lower process counts; or the other process has the link
    // by this one's ask, and its answer is on the way here.
    *later = true;
    return peer;
  }
  if (peer->started()) return peer;
  const Status started = peer->start(ask.link, ask.info, LockedBytes::random(kRunTokenBytes));
  if (!started.ok()) return started;
  return peer;
}

Status Net::on_opened(const Ask& ask) {
  const auto found = accepted_.find(ask.attempt);
  if (found == accepted_.end()) return nobody_listens();
  Accepted& accepted = found->second;
  if (accepted.opened == 0) accepted.opened = next_opened_++;
  return {};
}

Result<Comm*> Net::accept(uint32_t listener) {
  Comm* made = nullptr;
  driver_.thread()->call([&] {
    Accepted* oldest = nullptr;
    for (auto& [attempt, accepted] : accepted_) {
      if (accepted.listener != listener || accepted.opened == 0 || accepted.taken) continue;
      if (oldest == nullptr || accepted.opened < oldest->opened) oldest = &accepted;
    }
    if (oldest == nullptr) return;
    Peer* peer = find_link(oldest->link);
    made = new Comm(peer->find(oldest->number), peer);
    oldest->taken = true;
  });
  return made;
}

void Net::close(Comm* comm) {
  driver_.thread()->call([comm] { comm->peer()->close(*comm->end()); });
  delete comm;
}

Peer* Net::find_link(uint64_t link) {
  const auto is_it = [link](const auto& peer) { return peer->link_number() == link; };
  const auto here = std::ranges::find_if(
      peers_, is_it, [](auto& e) -> auto& { return e.second; });
  if (here != peers_.end()) return here->second.get();
  const auto parted = std::ranges::find_if(parted_, is_it);
  return parted == parted_.end() ? nullptr : parted->get();
}

bool Net::has_parted(uint64_t link) const {
  return std::ranges::any_of(parted_,
                             [link](const auto& peer) { return peer->link_number() == link; });
}

void Net::part_from(const PeerKey& key) {
  const auto found = peers_.find(key);
  parted_.push_back(std::move(found->second));
  peers_.erase(found);
}

void Net::progress() {
  const TimeNs now = driver_.clock().now();
  server_->progress(now);
  operator_->progress(now);
  for (auto& [number, connect] : connects_) progress(connect, now);
  forget_old(now);
  const auto over = [](const auto& peer) { return peer->over(); };
  const bool any = std::ranges::any_of(parted_, over) ||
                   std::ranges::any_of(
                       peers_, over, [](auto& e) -> auto& { return e.second; });
  // A job ends between two passes.
  if (any && !std::exchange(drops_, true)) {
    driver_.thread()->post([this] { drop_ended_peers(); });
  }
}

void Net::progress(Connect& connect, TimeNs now) {
  connect.client->progress(now);
  // A peer that an attempt in vain held would keep the other process waiting.
  if (connect.client->state() == MeetingClient::State::failed) give_up(connect);
}

// NCCL asks no more for a connect that it has aborted. The other process asks no more once it has
// its end.
void Net::forget_old(TimeNs now) {
  const TimeNs bound = options_.config.init_timeout_ns;
  for (auto it = connects_.begin(); it != connects_.end();) {
    const bool old = now >= it->second.asked_at + bound;
    if (old) give_up(it->second);
    it = old ? connects_.erase(it) : std::next(it);
  }
  std::erase_if(accepted_, [&](const auto& each) {
    return each.second.taken && now >= each.second.asked_at + bound;
  });
}

void Net::drop_ended_peers() {
  drops_ = false;
  const auto over = [this](const auto& peer) {
    if (!peer->over()) return false;
    operator_->on_link_end(peer->link_number());
    return true;
  };
  std::erase_if(parted_, over);
  std::erase_if(peers_, [&](const auto& each) { return over(each.second); });
}

TimeNs Net::next_timeout() {
  TimeNs next = std::min(server_->next_timeout(), operator_->next_timeout());
  for (const auto& [number, connect] : connects_) {
    next = std::min(next, connect.client->next_timeout());
  }
  return next;
}

void Net::on_exception(const std::exception& error) noexcept {
  for (const auto& [key, peer] : peers_) peer->job().fail_by_exception(error);
  for (const auto& peer : parted_) peer->job().fail_by_exception(error);
}

void Net::flush(bool last) {
  const auto settled = [this] {
    const auto test = [](const auto& peer) { return peer->settled(); };
    return std::ranges::all_of(parted_, test) &&
           std::ranges::all_of(
               peers_, test, [](auto& e) -> auto& { return e.second; });
  };
  (void)driver_.thread()->wait_until(settled, kFlushMax);
  if (last) driver_.thread()->call([this] { operator_->close(); });
}

}  // namespace r2ccl::nccl
