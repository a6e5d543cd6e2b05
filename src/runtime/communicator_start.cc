// How a communicator starts: its ranks meet, and use the links of a job that all are in, or make
// links of their own.
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "runtime/communicator.h"
#include "runtime/peers/tell_hosts_apart.h"
#include "runtime/unreached_error.h"

namespace r2ccl {
namespace {

// A rank whose links are up waits this much longer, so that the error of a rank that does not reach
// a peer comes first: that rank knows both ends and the last attempt.
constexpr TimeNs kUnreachedSpeakFirst = 1 * kSecond;

// Calls that differ are those of ranks that have returned from the start: on this rank, too, the
// next call fails.
Status failure_at_start(const Status& failed) {
  return failed.code() == Code::invalid_usage ? Status() : failed;
}

// Returns the ranks that have met, this one alone in a communicator of one.
Result<MetJob> meet(Transport& transport, const Clock& clock, RendezvousClient::Options options,
                    const std::function<Status()>& in_vain) {
  MetJob met{{options.info}, {}};
  if (options.rank_count > 1) {
    Reactor reactor(transport.poller());
    auto told = run_rendezvous(transport, reactor, clock, std::move(options), nullptr, in_vain);
    if (!told.ok()) return told.status();
    met = std::move(told).value();
  }
  R2CCL_RETURN_IF_ERROR(check_agreement(met.rank_table));
  return met;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<ProcessDriver> driver,
                                                           Transport& meeting,
                                                           const CommunicatorOptions& options) {
  const LogRank label(options.self.value());
  std::unique_ptr<Communicator> made(new Communicator(std::move(driver), options));
  R2CCL_RETURN_IF_ERROR(made->connect(meeting));
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::create_child(Communicator& parent,
                                                                 const CommunicatorOptions& options,
                                                                 ContextId context,
                                                                 std::span<const Rank> members) {
  const LogRank label(options.self.value());
  std::unique_ptr<Communicator> made(new Communicator(parent.driver_, options));
  log_begin(options);
  std::shared_ptr<Job> job;
  std::vector<Rank> peers;
  parent.ask([&] {
    job = parent.runtime_->shared_job();
    for (const Rank rank : members) peers.push_back(parent.runtime_->members().peer_of(rank));
  });
  R2CCL_RETURN_IF_ERROR(made->join(job, context, std::move(peers)));
  return made;
}

Status Communicator::join(const std::shared_ptr<Job>& job, ContextId context,
                          std::vector<Rank> peers) {
  Status joined;
  const auto work = [&] {
    RankOptions options = rank_options(options_);
    R2CCL_CHECK(options_.plan_costs || job->costs());
    if (!options_.plan_costs) options.plan_costs = *job->costs();
    runtime_ =
        std::make_unique<RankRuntime>(job, std::move(options), static_cast<RankObserver&>(*this));
    joined = runtime_->join(context, std::move(peers));
    if (!joined.ok()) return;
    open_status(options_, *runtime_);
    children_.emplace(runtime_->comm_id());
    started_ = true;
    log_start(options_, *runtime_);
  };
  try {
    ask(std::ref(work));  // call() would fail the other communicators too
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
  return joined.ok() ? failure_at_start(failure()) : joined;
}

Status Communicator::connect(Transport& meeting) {
  log_begin(options_);
  const TimeNs deadline = driver_->clock().now() + options_.config.init_timeout_ns;
  Result<RankInfo> described = describe_self(options_);
  if (!described.ok()) return described.status();
  RankInfo info = std::move(described).value();
  const Status opened = options_.unable.ok() ? open(info) : options_.unable;
  if (!opened.ok()) {
    tell_init_error(meeting, driver_->clock(), options_, opened, std::move(info));
    return opened;
  }
  log_nics(meeting);
  RendezvousClient::Options asked = meeting_options(options_, std::move(info));
  asked.on_met = [this](const MetJob& ranks) { return join_common(ranks); };
  auto met = meet(meeting, driver_->clock(), std::move(asked), [this] {
    const Status others = options_.in_vain ? options_.in_vain() : Status();
    return others.ok() && started_ ? failure() : others;
  });
  Status started = met.status();
  if (met.ok() && !started_) {
    started = start_links(std::move(met).value(), deadline);
  } else if (started_) {
    started = met.ok() ? failure_at_start(failure()) : met.status();
    // The ranks that have joined this one would wait for it.
    if (!met.ok()) call([&] { runtime_->fail(met.status()); });
  }
  ask([this] { offered_.clear(); });
  return started;
}

// Joins the other ranks over the links of a job that all are in. Returns whether there is one.
Result<bool> Communicator::join_common(const MetJob& met) {
  const auto context = ChildNumbers::of_meeting(met.run.id);
  if (started_) {  // the connection to the rendezvous was lost after that
    if (runtime_->members().context() == context) return true;
    return Status(Code::remote, "the ranks have met once more without this one");
  }
  R2CCL_RETURN_IF_ERROR(check_agreement(met.rank_table));
  OfferedJobs::Common common;
  ask([&] { common = offered_.find_common(options_.job.id, met.rank_table); });
  if (common.job == nullptr) return false;
  R2CCL_LOG(info, "all ranks have met before: this communicator uses their connections");
  ask([&] { runtime_.reset(); });
  const Status joined = join(common.job, context, std::move(common.peers));
  ask([&] { common.job.reset(); });
  if (!joined.ok()) return joined;
  return true;
}

// Starts a job of its own.
Status Communicator::start_links(MetJob met, TimeNs deadline) {
  for (RankInfo& info : met.rank_table) info.known_jobs.clear();
  for (const std::string& line : tell_hosts_apart(met.rank_table)) {
    if (options_.self == Rank(0)) R2CCL_LOG(warn, "%s", line.c_str());
  }
  R2CCL_RETURN_IF_ERROR(check_reachable(met.rank_table));
  Status joined;
  call([&] {
    joined = runtime_->start(std::move(met));
    if (!joined.ok()) return;
    open_status(options_, *runtime_);
    // After the socket: an operator who drains meanwhile either finds the socket or is in the
    // registry.
    runtime_->drains().take_over();
    if (options_.plan_costs) runtime_->job().set_costs(*options_.plan_costs);
    driver_->jobs().add(runtime_->shared_job());
    children_.emplace(runtime_->comm_id());
    started_ = true;
  });
  if (!joined.ok()) return joined;
  joined = wait_for_links(deadline);
  if (joined.ok() && !options_.plan_costs) joined = measure_costs(deadline);
  if (!joined.ok()) {
    // The ranks that this one reaches would take its end for a death.
    call([&] { runtime_->fail(joined); });
    return joined;
  }
  ask([this] { log_start(options_, *runtime_); });
  return failure_at_start(failure());
}

// Joins the engine of the process, and listens on the NICs.
Status Communicator::open(RankInfo& info) {
  Status opened;
  const auto work = [&] {
    runtime_ = std::make_unique<RankRuntime>(driver_->engine(), rank_options(options_),
                                             static_cast<RankObserver&>(*this));
    opened = runtime_->open();
    if (!opened.ok()) return;
    runtime_->describe(info);
    if (options_.rank_count == 1) return;
    offered_ = driver_->jobs().offer(runtime_->job().options());
    offered_.describe(options_.job.id, info);
  };
  try {
    call(std::ref(work));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();  // an error like any other, of which the other ranks are told
  }
  return opened;
}

Status Communicator::wait_for_links(TimeNs deadline) {
  const auto in_vain = [this] { return options_.in_vain ? options_.in_vain() : Status(); };
  bool ready = false;
  const auto settled = [&] {
    ready = runtime_->engine().ready();
    return ready || !runtime_->failure().ok() || !in_vain().ok();
  };
  if (!thread().wait_until(std::ref(settled), deadline - driver_->clock().now())) {
    Status late;
    // Another thread may have driven since, and a wait with no time left does not look.
    ask([&] { late = settled() ? Status() : unreached_error(*runtime_); });
    if (!late.ok()) return late;
  }
  return ready ? Status() : in_vain();  // a rank may be lost just after the links are up
}

Status Communicator::measure_costs(TimeNs deadline) {
  call([this] {
    if (runtime_->failure().ok()) runtime_->measure_costs();
  });
  const auto settled = [this] { return runtime_->costs_agreed() || !runtime_->failure().ok(); };
  const TimeNs bound = deadline + kUnreachedSpeakFirst;
  Status late;
  if (thread().wait_until(settled, bound - driver_->clock().now())) return late;
  call([&] { late = settled() ? Status() : unmeasured_error(*runtime_); });
  return late;
}

}  // namespace r2ccl
