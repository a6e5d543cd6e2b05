#include "runtime/rank_runtime.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"
#include "runtime/link/notice.h"
#include "runtime/rank_status.h"

namespace r2ccl {
namespace {

// Made from public values that all ranks have alike. The listeners' ports make it differ between
// the communicators of the same processes.
uint64_t make_comm_id(const JobIdentity& job, const std::vector<RankInfo>& rank_table) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.put_bytes(job.id);
  out.put(job.epoch);
  for (const RankInfo& info : rank_table) {
    out.put_bytes(info.host);
    out.put(info.pid);
    for (const Endpoint& endpoint : info.control) out.put(endpoint.port);
    for (const NicInfo& nic : info.nics) out.put(nic.port);
  }
  const crypto::Hash hash = crypto::hash("r2ccl communicator id", input);
  return ByteReader(hash).get<uint64_t>();
}

}  // namespace

RankRuntime::RankRuntime(ProcessEngine& process, RankOptions options, RankObserver& observer)
    : process_(process),
      options_(std::move(options)),
      clock_(process.clock()),
      observer_(observer),
      started_at_(clock_.now()),
      job_(process, options_.self, {options_.engine, options_.drain_registry},
           static_cast<JobPart&>(*this)),
      engine_(job_.engine()),
      departed_(static_cast<size_t>(options_.rank_count)),
      informed_(static_cast<size_t>(options_.rank_count)) {}

RankRuntime::~RankRuntime() {
  if (operations_ == nullptr) return;
  // Nothing moves bytes any more.
  const Status destroyed = Status::in_any_case(Code::aborted, "the communicator was destroyed");
  operations_->abandon(destroyed);
  if (cost_meter_ != nullptr) cost_meter_->abandon(destroyed);
}

Status RankRuntime::start(MetJob met) {
  R2CCL_RETURN_IF_ERROR(failure_);
  if (Status begun = job_.start(std::move(met)); !begun.ok()) {
    engine_.halt();  // some links may be there already, and nobody hears their events
    return begun;
  }
  comm_id_ = make_comm_id(options_.job, engine_.job().ranks());
  std::vector<MessagePort*> ports;
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    Link* link = engine_.link(Rank(peer));
    ports.push_back(link != nullptr && options_.port ? options_.port(*link) : link);
  }
  if (!options_.plan_hosts.empty()) {
    other_hosts_ =
        std::make_unique<JobMap>(options_.self, engine_.job().ranks(), options_.plan_hosts);
  }
  const JobMap& job = other_hosts_ != nullptr ? *other_hosts_ : engine_.job();
  const HostGroups hosts(job.host_numbers());
  operations_ = std::make_unique<Operations>(options_.self, ports, options_.contexts, hosts,
                                             options_.plan_costs);
  if (options_.views) {
    views_ = std::make_unique<RankViews>(engine_, *operations_, job, options_.first_view, clock_);
  }
  cost_meter_ = std::make_unique<CostMeter>(
      options_.self, Operations::first_free_channel(options_.contexts), ports, hosts, clock_,
      [this](Rank to, std::span<const std::byte> body) {
        engine_.link(to)->send_notice(make_notice(NoticeKind::costs, body));
      });
  // The measurement uses these links, and the plans of jobs of a few hosts do.
  for (const Rank peer : measured_peers(hosts, ports.size(), options_.self)) {
    if (options_.data_at_start) ports[static_cast<size_t>(peer.value())]->expect_messages();
  }
  waits_ = std::make_unique<RankWaits>(engine_, clock_, *operations_, on_communicator(),
                                       [this](const std::string& why, std::vector<Rank> ranks) {
                                         fail_of(std::move(ranks), Code::invalid_usage, why);
                                       });
  handle_mismatches();
  reserve_end();
  rank_status_ = std::make_unique<RankStatus>(*this);  // last: now it has started
  return {};
}

void RankRuntime::measure_costs() {
  cost_meter_->start([this](const PlanCosts& costs) {
    operations_->set_costs(costs);
    costs_agreed_ = true;
  });
}

void RankRuntime::handle_mismatches() {
  for (int c = 0; c < options_.contexts; ++c) {
    operations_->executor(c).set_mismatch_handler([this, c](Rank peer, const Status& why) {
      if (c == 0) return waits_->on_mismatch(peer);
      fail(why.with_ranks({peer, options_.self})
               .with_context("a collective of " + name_of(peer) + " does not match that of " +
                             name_of(options_.self)));
    });
    operations_->tagged_messages(c).set_failure_handler(
        [this](const Status& why) { fail(why); }, [this](Rank rank) { return name_of(rank); });
    operations_->point_to_point(c).set_mismatch_handler([this](Rank peer, const Status& why) {
      fail(why.with_ranks({peer, options_.self})
               .with_context("the Send of " + name_of(peer) + " does not match the Recv of " +
                             name_of(options_.self)));
    });
  }
}

std::string RankRuntime::name_of(Rank rank) const {
  return r2ccl::describe(engine_.job().info(rank));
}

std::string RankRuntime::on_communicator() const {
  return options_.name.empty() ? "" : " on communicator \"" + options_.name + "\"";
}

uint64_t RankRuntime::start(Operation&& operation, const MaybeBad& bad, int context) {
  if (!bad) return operations_->start(std::move(operation), context);
  const uint64_t number = operations_->next_number(operation, context);
  refuse_buffer(operations_->use_by_next(operation, *bad, context), *bad);
  operation.done(failure_);
  return number;
}

void RankRuntime::progress(TimeNs now) {
  waits_->progress(now);
  if (views_ != nullptr) views_->progress(now);
  rank_status_->progress(now);
  observer_.on_pass_end();
}

TimeNs RankRuntime::next_timeout() {
  return std::min({waits_->next_timeout(), rank_status_->next_timeout(),
                   views_ == nullptr ? kNever : views_->next_timeout()});
}

void RankRuntime::begin_goodbye() {
  if (operations_->unmatched_local() > 0) {
    return fail_of({options_.self}, Code::invalid_usage,
                   name_of(options_.self) +
                       " finalizes with a Send to itself that it did not Recv, or the other way "
                       "round");
  }
  if (const Status unmatched = operations_->end(); !unmatched.ok()) return fail(unmatched);
  leaving_ = true;
  if (views_ != nullptr) views_->stop();
  waits_->end();
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    if (Link* link = engine_.link(Rank(peer)); link != nullptr) link->begin_goodbye();
  }
}

void RankRuntime::set_caller_waits(bool waits) {
  if (std::exchange(caller_waits_, waits) != waits && waits) process_.tell_caller_waits();
}

// A rank that has left takes part in nothing more, so this one owes it only its acknowledgements. A
// caller that waits in another communicator cannot leave this one, and the rank that has left may
// be the one that he waits for.
void RankRuntime::answer_departed() {
  if (!any_departed_ || !process_.caller_waits_outside(comm_id_)) return;
  if (leaving_ || halted() || !failure_.ok()) return;
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    Link* link = engine_.link(Rank(peer));
    if (link != nullptr && link->peer_said_goodbye() && !link->ends()) link->begin_goodbye();
  }
}

bool RankRuntime::goodbye_done() const {
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_.link(Rank(peer));
    if (link != nullptr && !link->goodbye_done()) return false;
  }
  // Others may still say goodbye to each other through this rank.
  return engine_.relays().empty();
}

std::vector<Rank> RankRuntime::goodbyes_missing() const {
  std::vector<Rank> missing;
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_.link(Rank(peer));
    if (link != nullptr && (!link->goodbye_done() || engine_.relays().serves(Rank(peer)))) {
      missing.emplace_back(peer);
    }
  }
  return missing;
}

void RankRuntime::on_path_event(const PathEvent& event) {
  if (views_ != nullptr) views_->on_change();
  observer_.on_path_event(event);
}

void RankRuntime::on_peer_end(Rank peer, PeerEnd end, const std::string& why) {
  const auto index = static_cast<size_t>(peer.value());
  if (views_ != nullptr) views_->on_gone(peer, end == PeerEnd::goodbye);
  observer_.on_peer_end(peer, end);
  switch (end) {
    case PeerEnd::goodbye:
      departed_[index] = any_departed_ = true;
      return;
    case PeerEnd::dead:
      return fail_of({peer}, Code::remote, name_of(peer) + " died: " + why);
    case PeerEnd::cut_off:
      return fail_of({peer}, Code::remote, name_of(peer) + " is cut off: " + why);
  }
}

void RankRuntime::on_goodbye(Rank peer) {
  if (views_ != nullptr) views_->on_gone(peer, true);
  if (leaving_) return;
  const auto index = static_cast<size_t>(peer.value());
  departed_[index] = any_departed_ = true;
  answer_departed();
}

void RankRuntime::on_contradiction(Rank peer, const std::string& why) {
  fail_of({peer, options_.self}, Code::remote,
          name_of(peer) + " contradicts " + name_of(options_.self) + ": " + why +
              ". No path mends this: the memory of one of the two hosts is at fault, or r2ccl. Run "
              "the job without these hosts, or report a bug");
}

void RankRuntime::on_notice(Rank peer, std::span<const std::byte> bytes) {
  if (!bytes.empty()) handle(peer, bytes);
  observer_.on_notice(peer, bytes);
}

void RankRuntime::handle(Rank peer, std::span<const std::byte> notice) {
  const auto body = notice.subspan(1);
  switch (static_cast<NoticeKind>(notice[0])) {
    case NoticeKind::failure:
      return on_failure_notice(peer, body);
    case NoticeKind::calls:
      return waits_->on_notice(peer, body);
    case NoticeKind::status_request:
      return rank_status_->on_request(peer, body);
    case NoticeKind::status:
      return rank_status_->on_answer(peer, body);
    case NoticeKind::view:
      if (views_ != nullptr) views_->on_message(peer, body);
      return;
    case NoticeKind::host_report:
      if (views_ != nullptr) views_->on_report(peer, body);
      return;
    case NoticeKind::costs:
      return cost_meter_->on_notice(peer, body);
    case NoticeKind::address:
    case NoticeKind::drained:
    case NoticeKind::silent:
    case NoticeKind::observation:
    case NoticeKind::verdict:
    case NoticeKind::vouch:
    case NoticeKind::probe_request:
    case NoticeKind::probe_answer:
    case NoticeKind::losses:
    case NoticeKind::drain_question:
    case NoticeKind::drain_answer:
      return;  // the engine's, or the job's
  }
  R2CCL_LOG(info, "a notice of unknown kind %d from rank %d", static_cast<int>(notice[0]),
            peer.value());
}

}  // namespace r2ccl
