#include "runtime/communicator.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "plan/holdings.h"
#include "runtime/rank_report.h"

namespace r2ccl {
namespace {

// How long the news of a failure may take to reach the others when this rank leaves: only one that
// neither answers nor ends takes it all.
constexpr TimeNs kFarewellBound = 1500 * kMillisecond;
// The same for a rank that aborts, whose caller may end the process without another call.
constexpr TimeNs kAbortBound = 500 * kMillisecond;
Algorithm algorithm_of(AlgorithmChoice choice) {
  switch (choice) {
    case AlgorithmChoice::automatic:
      return Algorithm::automatic;
    case AlgorithmChoice::ring:
      return Algorithm::ring;
    case AlgorithmChoice::halving_doubling:
      return Algorithm::halving_doubling;
    case AlgorithmChoice::recursive_doubling:
      return Algorithm::recursive_doubling;
    case AlgorithmChoice::hierarchical:
      return Algorithm::hierarchical;
    case AlgorithmChoice::direct:
      return Algorithm::direct;
    case AlgorithmChoice::nested:
      return Algorithm::nested;
    case AlgorithmChoice::split:
      return Algorithm::split;
    case AlgorithmChoice::recursive_split:
      return Algorithm::recursive_split;
    case AlgorithmChoice::leaf:
      return Algorithm::leaf;
    case AlgorithmChoice::packed:
      return Algorithm::packed;
  }
  return Algorithm::automatic;
}

std::string names_of(const RankRuntime& runtime, const std::vector<Rank>& ranks) {
  std::string names;
  for (const Rank rank : ranks) names += (names.empty() ? "" : ", ") + runtime.name_of(rank);
  return names;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<ProcessDriver> driver,
                           const CommunicatorOptions& options)
    : options_(options),
      driver_(std::move(driver)),
      awaited_(std::make_shared<AwaitedRequests>(driver_->thread())) {}

void Communicator::ask(const std::function<void()>& work) {
  std::exception_ptr thrown;
  const auto guarded = [&] {
    const LogRank label(options_.self.value());
    try {
      work();
    } catch (const std::exception&) {
      thrown = std::current_exception();
    }
  };
  thread().call(std::ref(guarded));  // a reference, because a copy would need memory
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

void Communicator::call(const std::function<void()>& work) {
  const auto guarded = [&] {
    try {
      work();
    } catch (const std::exception& error) {
      if (runtime_ != nullptr) runtime_->fail_by_exception(error);
      if (!started_) throw;
    }
  };
  ask(std::ref(guarded));
}

Communicator::~Communicator() {
  if (started_ && !failure().ok()) {
    // The connections of a communicator that goes on deliver the news without this one.
    bool goes_on = false;
    thread().call([&] { goes_on = runtime_->links_go_on(); });
    if (!goes_on) wait_for_news(kFarewellBound);
  }
  thread().call([this] {
    runtime_.reset();
    offered_.clear();
  });
  awaited_->completions().close();
  log_suppressed(true);
  log_flush();  // the caller may end the process without its exit handlers
}

void Communicator::advance(const Request& started) {
  const PendingCall& call = started.call();
  Extents extents{call.key.count, call.key.count};
  if (call.kind == PendingCall::Kind::collective) extents = extents_of(call.key, rank());
  const uint64_t count = std::max(extents.input_count, extents.output_count);
  // In a turn of a large operation the caller would move many of its bytes.
  const bool is_small = count <= limits::kBufferedSendBytesMax / size_of(call.key.type);
  is_small ? thread().drive_once() : thread().hand_over();
}

// Notes which requests have callers that wait.
void Communicator::on_pass() {
  const uint64_t changes = awaited_->changes();
  if (std::exchange(awaited_seen_, changes) == changes) return;
  std::vector<PendingCall> transfers;
  bool any = false;
  awaited_->for_each([&](const Request& request) {
    any = true;
    if (request.call().kind != PendingCall::Kind::collective) transfers.push_back(request.call());
  });
  runtime_->waits().set_transfers(transfers, awaited_->take_hurried());
  runtime_->set_caller_waits(any || finalizes_);
}

// Gives the requests the causes of their waits.
void Communicator::on_pass_end() {
  RankWaits& waits = runtime_->waits();
  if (!waits.take_changed()) return;
  const std::vector<RankWaits::Waiting> calls = waits.calls();
  awaited_->for_each(
      [&](Request& request) { request.set_wait_cause(waits.cause_of(request.call(), calls)); });
}

void Communicator::on_failure(const Status& why) {
  {
    const std::lock_guard lock(failure_mutex_);
    failure_ = why;
  }
  awaited_->completions().signal();
}

Status Communicator::failure() const {
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

std::shared_ptr<Request> Communicator::start(Operation operation, const MaybeBad& bad) {
  if (operation.kind == PendingCall::Kind::collective) {
    operation.key.algorithm = algorithm_of(options_.config.algo);
    operation.key.reproducible = options_.config.reproducible;
    operation.key.rank_count = options_.rank_count;
  }
  auto request = std::make_shared<Request>(operation.pending(), awaited_);
  thread().post([this, operation = std::move(operation), bad, request]() mutable {
    const LogRank label(options_.self.value());
    try {
      operation.done = [request, ended = std::move(operation.done)](const Status& status) {
        if (ended) ended(status);
        request->complete(status);
      };
      request->set_number(runtime_->start(std::move(operation), bad));
    } catch (const std::exception& error) {
      runtime_->fail_by_exception(error);
      if (!request->done()) request->complete(runtime_->failure());
    }
  });
  return request;
}

Status Communicator::exchange(std::span<int64_t> words, View* view, std::string name) {
  const auto bytes = std::as_writable_bytes(words);
  Operation operation;
  operation.key.collective = Collective::all_reduce;
  operation.key.type = DataType::int64;
  operation.key.op = ReduceOp::sum;
  operation.key.count = words.size();
  operation.name = std::move(name);
  operation.input = operation.output = bytes.data();
  operation.done = [this, view](const Status&) {
    *view = runtime_->operations().executor().latest_view();
  };
  const auto request = start(std::move(operation));
  (void)request->wait(kNever);
  return request->status();
}

Inherited Communicator::inherit(const View& view, std::span<const Rank> ranks) {
  Inherited inherited;
  ask([&] {
    inherited.plan_costs = runtime_->costs();
    if (runtime_->views() != nullptr) inherited.view = runtime_->views()->view_for(view, ranks);
  });
  return inherited;
}

Result<Communicator::Shrunk> Communicator::agree_without(const std::vector<Rank>& excluded) {
  const std::unique_lock turn(shrink_mutex_, std::try_to_lock);
  if (!turn.owns_lock()) {
    return Status(Code::invalid_usage, "an earlier call on this communicator has not returned");
  }
  Status begun;
  call([&] { begun = runtime_->begin_shrink(excluded); });
  if (!begun.ok()) return begun;
  const auto over = [this] { return runtime_->halted() || !runtime_->shrinks()->waits(); };
  (void)thread().wait_until(over, kNever);
  Status result;
  Shrunk shrunk;
  call([&] {
    if (runtime_->shrinks()->waits()) {
      result = runtime_->failure();
      return;
    }
    result = runtime_->shrinks()->result();
    if (!result.ok()) return;
    const ShrinkDecision& made = *runtime_->shrinks()->outcome();
    shrunk = {children_->of_shrink(excluded, made.subject.ordinal), made.view};
    runtime_->waive(excluded);
  });
  if (!result.ok()) return result;
  return shrunk;
}

Status Communicator::finalize() {
  const auto wait = [this](bool waits) {
    call([this, waits] {
      finalizes_ = waits;
      runtime_->set_caller_waits(waits);
    });
  };
  wait(true);
  Status ended = leave();
  wait(false);
  return ended;
}

Status Communicator::leave() {
  const auto complete = [this] {
    return !runtime_->failure().ok() || runtime_->operations().idle_but_local();
  };
  call([] {});  // calls that were only queued have begun after this
  if (!thread().wait_until(complete, RankRuntime::kCloseCallsAfter)) {
    // A call may wait for one that another rank has not made, and that rank may be in here, too.
    call([this] { runtime_->close_calls(); });
    thread().wait_until(complete, kNever);
  }
  call([this] {
    if (runtime_->failure().ok()) runtime_->begin_goodbye();
  });
  // A rank that is late here waits no less than one that is cut off in an operation.
  const TimeNs bound = options_.config.cutoff_ns;
  const auto over = [this] { return !runtime_->failure().ok() || runtime_->goodbye_done(); };
  if (!thread().wait_until(over, bound)) {
    std::vector<Rank> ranks;
    std::string missing;
    ask([&] {
      ranks = runtime_->goodbyes_missing();
      missing = names_of(*runtime_, ranks);
    });
    const Status late(Code::timeout,
                      "no goodbye from " + missing + " within " +
                          std::to_string(bound / kMillisecond) +
                          " ms: did it finalize or destroy its communicator? R2CCL_CUTOFF_S, or "
                          "cutoff_ms of r2cclConfig_t, sets how long it is waited for" +
                          runtime_->on_communicator());
    return late.with_ranks(std::move(ranks));
  }
  const Status failed = failure();
  if (failed.ok()) {
    // An excluded rank that lives should not take this one's end for a death.
    (void)thread().wait_until([this] { return runtime_->waived_told(); }, kAbortBound);
    return failed;
  }
  // Calls that do not match are no failure of another rank.
  bool unmatched = false;
  ask([&] { unmatched = runtime_->abandoned(); });
  if (!unmatched) return failed;
  return Status(Code::invalid_usage, failed.message()).with_ranks(failed.ranks());
}

void Communicator::wait_for_news(TimeNs bound) {
  (void)thread().wait_until([this] { return runtime_->failure_known(); }, bound);
}

void Communicator::fail(const Status& why) {
  call([&] { runtime_->fail(why); });
}

void Communicator::abort(const char* why) {
  call([&] { runtime_->abort(why); });
  wait_for_news(kAbortBound);
  log_flush();
}

LockedBytes Communicator::child_secret(std::span<const std::byte, kJobIdBytes> id) {
  LockedBytes secret;
  ask([&] { secret = runtime_->engine().child_secret(id); });
  return secret;
}

std::string Communicator::report() {
  std::string text;
  ask([&] { text = report_text(*runtime_); });
  return text;
}

std::vector<PathInfo> Communicator::paths() {
  std::vector<PathInfo> infos;
  ask([&] { infos = path_infos(*runtime_); });
  return infos;
}

std::vector<VerdictInfo> Communicator::verdicts() {
  std::vector<VerdictInfo> infos;
  ask([&] {
    for (const size_t place : verdicts_of(*runtime_)) {
      infos.push_back(verdict_info(*runtime_, place));
    }
  });
  return infos;
}

Status Communicator::set_verdict_listener(VerdictTeller::Tell tell) {
  std::unique_ptr<VerdictTeller> teller;
  try {
    if (tell) teller = std::make_unique<VerdictTeller>(std::move(tell));
  } catch (const std::system_error& error) {
    return {Code::system, std::string("the callback gets no thread: ") + error.what()};
  }
  call([&] { std::swap(teller_, teller); });
  return {};  // the end of the earlier one waits for its call
}

void Communicator::on_verdict(size_t place) {
  const Verdict& verdict = runtime_->fault_reporter().verdicts()[place];
  if (teller_ == nullptr || !concerns(*runtime_, verdict)) return;
  try {
    teller_->post(verdict_info(*runtime_, place));
  } catch (const std::bad_alloc&) {
    R2CCL_LOG(warn, "out of memory: the application is not told of a verdict");
  }
}

}  // namespace r2ccl
