#include "runtime/communicator.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/printable.h"
#include "runtime/bootstrap/host_identity.h"
#include "runtime/config/secure_random.h"

#include <unistd.h>

namespace r2ccl {
namespace {

// Ids within one job; communicators made by splitting will take later ones.
constexpr ChannelId kCollectives{1};
constexpr ChannelId kPointToPoint{2};

// How long the news of a failure may take to reach the others when this rank leaves: only one that
// neither answers nor ends takes it all.
constexpr TimeNs kFarewellBound = 1500 * kMillisecond;
// The same for a rank that aborts, whose caller may end the process without another call.
constexpr TimeNs kAbortBound = 500 * kMillisecond;
constexpr TimeNs kObstacleBound = 10 * kSecond;

std::vector<Setting> agreed_settings(const Config& config) {
  return {{"R2CCL_ALGO", to_string(config.algo)}};
}

Algorithm algorithm_of(AlgorithmChoice choice) {
  switch (choice) {
    case AlgorithmChoice::automatic:
      return Algorithm::automatic;
    case AlgorithmChoice::ring:
      return Algorithm::ring;
    case AlgorithmChoice::halving_doubling:
      return Algorithm::halving_doubling;
  }
  return Algorithm::automatic;
}

PendingCall transfer(PendingCall::Kind kind, uint64_t count, DataType type, Rank peer) {
  PendingCall call;
  call.kind = kind;
  call.key.count = count;
  call.key.type = type;
  call.peer = peer;
  return call;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options)
    : options_(options),
      transport_(std::move(transport)),
      awaited_(
          std::make_shared<AwaitedRequests>([poller = &transport_->poller()] { poller->wake(); })),
      departed_(static_cast<size_t>(options.rank_count)),
      informed_(static_cast<size_t>(options.rank_count)),
      dead_(static_cast<size_t>(options.rank_count)),
      survey_(options.self, options.rank_count,
              [this](Rank rank, uint32_t number) { return ask(rank, number); }) {}

Result<std::unique_ptr<Communicator>> Communicator::create(std::unique_ptr<Transport> transport,
                                                           const CommunicatorOptions& options) {
  const LogRank label(options.self.value());
  std::unique_ptr<Communicator> made(new Communicator(std::move(transport), options));
  R2CCL_RETURN_IF_ERROR(made->connect());
  return made;
}

Result<RankCard> Communicator::describe_self() const {
  RankCard card;
  card.rank = options_.self;
  card.host_name = host_name();
  card.pid = static_cast<uint32_t>(getpid());
  card.library_version = options_.library_version;
  card.settings = agreed_settings(options_.config);
  if (const std::string& named = options_.config.host_id; !named.empty()) {
    card.host = host_identity_named(named);
    card.host_name = printable_text(named, kHostNameBytesMax);
  } else {
    auto host = host_identity();
    if (!host.ok()) return host.status();
    card.host = host.value();
  }
  return card;
}

RendezvousClient::Options Communicator::meeting_options(RankCard card) const {
  RendezvousClient::Options meeting;
  meeting.job = options_.job;
  meeting.endpoints = options_.rendezvous;
  meeting.card = std::move(card);
  meeting.rank_count = options_.rank_count;
  meeting.timeout_ns = options_.config.init_timeout_ns;
  meeting.nonce = random_nonce;
  return meeting;
}

// This rank will not come; the others need not wait for it until their time is up.
void Communicator::tell_obstacle(const Status& obstacle, RankCard card) {
  if (options_.rank_count == 1) return;
  card.obstacle = printable_text(obstacle.message(), kObstacleBytesMax);
  RendezvousClient::Options meeting = meeting_options(std::move(card));
  meeting.timeout_ns = std::min(meeting.timeout_ns, kObstacleBound);
  // Refused at best: what the caller must know is the obstacle.
  Reactor reactor(transport_->poller());
  (void)run_rendezvous(*transport_, reactor, clock_, std::move(meeting));
}

Status Communicator::connect() {
  started_at_ = clock_.now();
  log_begin();
  const TimeNs deadline = started_at_ + options_.config.init_timeout_ns;
  EngineOptions engine;
  engine.link.monitor = options_.config.monitor;
  engine.link.damping = options_.config.damping;
  engine.link.cutoff = options_.config.cutoff_ns;
  engine.rendezvous = options_.rendezvous;
  engine.oob_ifname = options_.config.oob_ifname;
  engine.oob_ifname_variable = options_.config.oob_ifname_variable;
  engine.nonce = random_nonce;
  engine_ = std::make_unique<ProgressEngine>(*transport_, clock_, std::move(engine));
  Result<RankCard> described = describe_self();
  if (!described.ok()) return described.status();
  RankCard card = std::move(described).value();
  if (const Status opened = engine_->open(); !opened.ok()) {
    engine_.reset();
    tell_obstacle(opened, std::move(card));
    return opened;
  }
  engine_->describe(card);
  log_nics();

  MetJob met{{card}, {}};
  if (options_.rank_count > 1) {
    auto told = engine_->rendezvous(meeting_options(std::move(card)));
    if (!told.ok()) return told.status();
    met = std::move(told).value();
  }
  R2CCL_RETURN_IF_ERROR(check_agreement(met.cards));
  R2CCL_RETURN_IF_ERROR(engine_->start(options_.self, std::move(met), *this));
  incidents_ = std::make_unique<Incidents>(*engine_, clock_);
  drains_ = std::make_unique<Drains>(*engine_, clock_, options_.drain_book);
  std::vector<MessagePort*> ports;
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    ports.push_back(engine_->link(Rank(peer)));
  }
  executor_ = std::make_unique<Executor>(options_.self, kCollectives, ports);
  point_to_point_ = std::make_unique<PointToPoint>(options_.self, kPointToPoint, ports);
  audit_ = std::make_unique<CallAudit>(options_.self, options_.rank_count, executor_->calls(),
                                       audit_callbacks());
  waits_ = std::make_unique<WaitTracker>(options_.self, options_.rank_count, wait_callbacks());
  executor_->set_mismatch_handler([this](Rank peer, const Status&) { audit_->on_mismatch(peer); });
  point_to_point_->set_mismatch_handler([this](Rank peer, const Status& why) {
    fail(why.with_context("the Send of " + who(peer) + " does not match the Recv of " +
                          who(options_.self)));
  });
  open_status();
  // Not before: who drains now either finds the socket or is in the book.
  drains_->take_over();
  start_thread();
  if (!wait_until([this] { return engine_->ready() || !failure_.ok(); }, deadline - clock_.now())) {
    std::string missing;
    std::string why;
    call([&] {
      for (const Rank rank : engine_->unreached()) {
        missing += (missing.empty() ? "" : ", ") + who(rank);
        if (why.empty()) why = engine_->link(rank)->last_dial_failure();
      }
    });
    if (!why.empty()) why = " (the last attempt: " + why + ")";
    return {Code::timeout, "no NIC of " + who(options_.self) + " reaches " + missing + why +
                               "; compare `r2ccl info` on both hosts"};
  }
  call([this] { log_start(); });
  return failure();
}

Communicator::~Communicator() {
  awaited_->close();
  if (thread_.joinable()) {
    if (!failure().ok()) wait_for_news(kFarewellBound);
    stop_.store(true, std::memory_order_release);
    transport_->poller().wake();
    thread_.join();
  }
  status_server_.reset();
  point_to_point_.reset();
  waits_.reset();
  audit_.reset();
  executor_.reset();
  drains_.reset();
  incidents_.reset();
  engine_.reset();
  log_suppressed(true);
}

void Communicator::start_thread() {
  // The thread inherits the mask: no signal of the application is ever delivered to it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "r2ccl");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Communicator::run() {
  const LogRank label(options_.self.value());
  std::vector<bool> ended(departed_.size());
  while (!stop_.load(std::memory_order_acquire)) {
    try {
      run_once(ended);
    } catch (const std::exception& error) {
      fail_by_exception(error);
    }
  }
}

void Communicator::run_once(std::vector<bool>& ended) {
  if (cancel_due_) cancel_operations();
  const TimeNs next =
      std::min({engine_->next_timeout(), incidents_->next_timeout(), waits_->next_timeout(),
                survey_.next_timeout(), drains_->next_timeout(), status_server_->next_timeout()});
  const TimeNs now = clock_.now();
  engine_->progress(next == kNever ? kNever : std::max<TimeNs>(next - now, 0));
  // Not before: what arrived ahead of a goodbye must have been delivered.
  check_departed();
  for (size_t rank = 0; rank < ended.size(); ++rank) ended[rank] = departed_[rank] || dead_[rank];
  incidents_->progress(ended);
  progress_waits();
  progress_status();
}

void Communicator::call(const std::function<void()>& work) {
  Request ran;
  engine_->post([&] {
    try {
      work();
    } catch (const std::exception& error) {
      fail_by_exception(error);
    }
    ran.complete({});
  });
  (void)ran.wait(kNever);
}

bool Communicator::wait_until(const std::function<bool()>& done, TimeNs timeout) {
  const TimeNs deadline = clock_.now() + timeout;
  while (true) {
    bool held = false;
    call([&] { held = done(); });
    if (held) return true;
    const TimeNs now = clock_.now();
    if (now >= deadline) return false;
    Request pause;
    (void)pause.wait(std::min<TimeNs>(2 * kMillisecond, deadline - now));
  }
}

Status Communicator::failure() const {
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

std::string Communicator::who(Rank rank) const {
  return r2ccl::describe(engine_->cards()[static_cast<size_t>(rank.value())]);
}

PlanKey Communicator::plan_key(Collective what, uint64_t count, DataType type) const {
  PlanKey key;
  key.collective = what;
  key.algorithm = algorithm_of(options_.config.algo);
  key.type = type;
  key.rank_count = options_.rank_count;
  key.count = count;
  return key;
}

std::shared_ptr<Request> Communicator::start(
    const PendingCall& what, std::function<void(const std::shared_ptr<Request>&)> work) {
  auto request = std::make_shared<Request>(what, awaited_);
  engine_->post([this, work = std::move(work), request] {
    try {
      work(request);
    } catch (const std::exception& error) {
      fail_by_exception(error);
      if (!request->done()) complete(request, failure_);
    }
  });
  return request;
}

std::shared_ptr<Request> Communicator::collective(const PlanKey& key, const std::byte* input,
                                                  std::byte* output, const MaybeBad& bad) {
  PendingCall what;
  what.key = key;
  return start(what, [=, this](const std::shared_ptr<Request>& request) {
    CollectiveCall call{key, input, output,
                        [=, this](const Status& status) { complete(request, status); }};
    if (bad) {
      return refuse_buffer(executor_->use_of(call, executor_->next_number(), *bad), *bad, request);
    }
    request->set_number(++collectives_);
    executor_->start(std::move(call));
  });
}

std::shared_ptr<Request> Communicator::all_reduce(const std::byte* input, std::byte* output,
                                                  uint64_t count, DataType type, ReduceOp op,
                                                  const MaybeBad& bad) {
  PlanKey key = plan_key(Collective::all_reduce, count, type);
  key.op = op;
  return collective(key, input, output, bad);
}

std::shared_ptr<Request> Communicator::broadcast(const std::byte* input, std::byte* output,
                                                 uint64_t count, DataType type, Rank root,
                                                 const MaybeBad& bad) {
  PlanKey key = plan_key(Collective::broadcast, count, type);
  key.root = root;
  return collective(key, input, output, bad);
}

std::shared_ptr<Request> Communicator::barrier() {
  return collective(plan_key(Collective::barrier, 0, DataType::int32), nullptr, nullptr, {});
}

std::shared_ptr<Request> Communicator::send(const std::byte* bytes, uint64_t count, DataType type,
                                            Rank peer, const MaybeBad& bad) {
  const std::span<const std::byte> source(bytes, count * size_of(type));
  const PendingCall what = transfer(PendingCall::Kind::send, count, type, peer);
  return start(what, [=, this](const std::shared_ptr<Request>& request) {
    if (bad) {
      return refuse_buffer(point_to_point_->use_by_next(peer, source, *bad), *bad, request);
    }
    request->set_number(point_to_point_->sends_to(peer) + 1);
    point_to_point_->send(peer, source, type,
                          [=, this](const Status& status) { complete(request, status); });
  });
}

std::shared_ptr<Request> Communicator::receive(std::byte* bytes, uint64_t count, DataType type,
                                               Rank peer, const MaybeBad& bad) {
  const std::span<std::byte> target(bytes, count * size_of(type));
  const PendingCall what = transfer(PendingCall::Kind::receive, count, type, peer);
  return start(what, [=, this](const std::shared_ptr<Request>& request) {
    if (bad) {
      return refuse_buffer(point_to_point_->use_by_next(peer, target, *bad), *bad, request);
    }
    request->set_number(point_to_point_->receives_from(peer) + 1);
    point_to_point_->receive(peer, target, type,
                             [=, this](const Status& status) { complete(request, status); });
  });
}

void Communicator::complete(const std::shared_ptr<Request>& request, const Status& status) {
  if (status.ok()) ++operations_;
  request->complete(status);
}

Status Communicator::finalize_result() {
  const Status failed = failure();
  if (failed.ok()) return failed;
  bool unmatched = false;
  call([&] { unmatched = abandoned_; });
  return unmatched ? Status(Code::invalid_usage, failed.message()) : failed;
}

Status Communicator::finalize() {
  const bool idle = wait_until(
      [this] { return !failure_.ok() || (executor_->idle() && point_to_point_->idle_but_local()); },
      kNever / 2);
  R2CCL_CHECK(idle);
  call([this] {
    if (point_to_point_->unmatched_local() == 0) return;
    fail({Code::invalid_usage, who(options_.self) +
                                   " finalizes with a Send to itself that it did " +
                                   "not Recv, or the other way round"});
  });
  R2CCL_RETURN_IF_ERROR(finalize_result());
  call([this] {
    finalizing_ = true;
    audit_->end();
    for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
      if (Link* link = engine_->link(Rank(peer)); link != nullptr) link->begin_goodbye();
    }
  });
  std::string missing;
  const auto over = [this, &missing] {
    missing.clear();
    if (!failure_.ok()) return true;
    for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
      const Link* link = engine_->link(Rank(peer));
      if (link == nullptr || link->goodbye_done()) continue;
      missing += (missing.empty() ? "" : ", ") + who(Rank(peer));
    }
    return missing.empty();
  };
  // A rank that is late here waits no less than one that is cut off in an operation.
  const TimeNs bound = options_.config.cutoff_ns;
  if (wait_until(over, bound)) return finalize_result();
  return {Code::timeout, "no goodbye from " + missing + " within " +
                             std::to_string(bound / kMillisecond) +
                             " ms: did it finalize or destroy its communicator? R2CCL_CUTOFF_S "
                             "sets how long it is waited for"};
}

void Communicator::abort(const std::string& why) {
  call([&] { fail({Code::aborted, why}); });
  wait_for_news(kAbortBound);
}

}  // namespace r2ccl
