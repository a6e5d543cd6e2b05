#include "runtime/rank_runtime.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"
#include "runtime/link/notice.h"
#include "runtime/query/query_links.h"
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
    : options_(std::move(options)),
      observer_(observer),
      job_(std::make_shared<Job>(
          process, options_.self,
          JobOptions{options_.engine, options_.job.authenticated(), options_.drain_registry})),
      engine_(job_->engine()),
      clock_(process.clock()),
      started_at_(clock_.now()),
      departed_(static_cast<size_t>(options_.rank_count)),
      informed_(static_cast<size_t>(options_.rank_count)) {
  job_->parts().add(*this);
}

RankRuntime::RankRuntime(std::shared_ptr<Job> job, RankOptions options, RankObserver& observer)
    : options_(std::move(options)),
      observer_(observer),
      job_(std::move(job)),
      engine_(job_->engine()),
      clock_(job_->process().clock()),
      started_at_(clock_.now()),
      departed_(static_cast<size_t>(options_.rank_count)),
      informed_(static_cast<size_t>(options_.rank_count)) {}

RankRuntime::~RankRuntime() {
  const Status destroyed = Status::in_any_case(Code::aborted, "the communicator was destroyed");
  try {
    if (!last_of_job() && !halted()) detach(destroyed);
  } catch (const std::exception& error) {
    fail_by_exception(error);
  }
  // From here on no link calls this.
  if (operations_ != nullptr) operations_->abandon(destroyed);
  if (cost_meter_ != nullptr) cost_meter_->abandon(destroyed);
  job_->parts().remove(*this);
}

// The links go on without this communicator.
void RankRuntime::detach(const Status& why) {
  if (farewells_ == nullptr) return;
  if (started()) tell_end();
  if (shrinks_ != nullptr) shrinks_->tell_last_words();
  if (started()) farewells_->tell_at_once();
  if (operations_ != nullptr) operations_->cancel(why);
  if (cost_meter_ != nullptr) cost_meter_->cancel(why);
  close_contexts();
}

// A rank that has not been left in order would wait for this one.
void RankRuntime::tell_end() {
  if (!failure_.ok()) return;
  const std::string why = name_of(options_.self) + " has destroyed its communicator";
  const std::vector<std::byte> body =
      encode(Failure{Status(Code::remote, why + on_communicator()).with_ranks({options_.self})});
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    const Link* link = members_->link(Rank(rank));
    if (link == nullptr || link->peer_ended() || farewells_->done(Rank(rank))) continue;
    members_->tell(Rank(rank), NoticeKind::failure, body);
  }
}

// The links keep the channels to a rank that may still send: it has not heard of the end.
void RankRuntime::close_contexts() {
  for (uint64_t i = 0; i < contexts(); ++i) {
    const ContextId context(members_->context().value() + i);
    job_->parts().close(context);
    for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
      if (Rank(rank) == options_.self) continue;
      const bool heard = informed_[static_cast<size_t>(rank)] || farewells_->ended(Rank(rank));
      if (heard) job_->parts().forget(context, members_->peer_of(Rank(rank)));
    }
  }
}

// The measurement of costs has one of its own.
uint64_t RankRuntime::contexts() const {
  return cost_meter_ != nullptr ? 2 : 1;
}

Status RankRuntime::start(MetJob met) {
  R2CCL_RETURN_IF_ERROR(failure_);
  if (Status begun = job_->start(std::move(met)); !begun.ok()) {
    engine_.halt();  // some links may be there already, and nobody hears their events
    return begun;
  }
  auto members = std::make_unique<Members>(engine_);
  comm_id_ = make_comm_id(options_.job, engine_.job().ranks());
  begin(std::move(members));
  return {};
}

Status RankRuntime::check_joinable(Members& members) const {
  if (halted()) return {Code::remote, "this process takes part in nothing more"};
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    const Link* link = members.link(Rank(rank));
    if (link != nullptr && link->ends()) {
      return {Code::invalid_usage, "this process is leaving " + members.name_of(Rank(rank))};
    }
    if (link != nullptr && !link->has_room()) {
      return {Code::invalid_usage,
              "a process has at most " + std::to_string(limits::kContextsMax) +
                  " communicators with another one at a time: destroy those that are not used"};
    }
  }
  return job_->parts().is_new(members.context())
             ? Status()
             : Status(Code::internal, "two communicators have the same number");
}

Status RankRuntime::join(ContextId context, std::vector<Rank> peers) {
  auto members = std::make_unique<Members>(engine_, context, options_.self, std::move(peers));
  if (const Status joinable = check_joinable(*members); !joinable.ok()) {
    tell_refusal(*members, joinable);
    return joinable;
  }
  comm_id_ = context.value();
  try {
    begin(std::move(members));
  } catch (const std::bad_alloc&) {
    waits_.reset();
    views_.reset();
    operations_.reset();
    if (members_ != nullptr) tell_refusal(*members_, Status::out_of_memory());
    throw;
  }
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    const Link* link = members_->link(Rank(rank));
    if (link == nullptr) continue;
    if (link->peer_said_goodbye()) on_goodbye(Rank(rank));
    if (!link->peer_end()) continue;
    on_peer_end(Rank(rank), *link->peer_end(), "before this communicator was made");
  }
  job_->parts().hand_over_notices(*this);
  return {};
}

// The other ranks would wait for this one. Their messages until they hear of it are thrown away.
void RankRuntime::tell_refusal(Members& members, const Status& why) const {
  if (halted() || !job_->parts().is_new(members.context())) return;
  job_->parts().close(members.context());
  const std::string text = members.name_of(options_.self) + ": " + why.message();
  const Failure failure{Status(Code::remote, text).with_ranks({options_.self})};
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    Link* link = members.link(Rank(rank));
    if (link == nullptr || link->peer_ended()) continue;
    link->discard(members.context());
    members.tell(Rank(rank), NoticeKind::failure, encode(failure));
  }
}

void RankRuntime::begin(std::unique_ptr<Members> members) {
  members_ = std::move(members);
  farewells_ = std::make_unique<Farewells>(*members_);
  std::vector<MessagePort*> ports;
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    Link* link = members_->link(Rank(rank));
    ports.push_back(link != nullptr && options_.port ? options_.port(*link) : link);
  }
  if (!options_.plan_hosts.empty())
    other_hosts_ = std::make_unique<const HostMap>(options_.plan_hosts);
  R2CCL_CHECK(other_hosts_ == nullptr || options_.plan_hosts.size() == members_->count());
  const HostMap& map = other_hosts_ != nullptr ? *other_hosts_ : members_->map();
  const HostGroups hosts(map.host_numbers());
  operations_ = std::make_unique<Operations>(options_.self, ports, members_->context(), hosts,
                                             options_.plan_costs);
  if (options_.views) {
    views_ = std::make_unique<RankViews>(*members_, *operations_, map, options_.first_view,
                                         job_->nic_health(), clock_);
  }
  if (members_->context() == ContextId()) prepare_measurement(ports, hosts);
  query_ = std::make_unique<RankQuery>(options_.self, options_.rank_count, query_links(*members_));
  waits_ = std::make_unique<RankWaits>(*members_, *query_, clock_, *operations_, on_communicator(),
                                       [this](const std::string& why, std::vector<Rank> ranks) {
                                         fail_of(std::move(ranks), Code::invalid_usage, why);
                                       });
  handle_mismatches();
  no_memory_ =
      Status(Code::system, no_memory_text() + on_communicator()).with_ranks({options_.self});
  // Where all others have failed, the job's last word is the failure of one of them.
  if (!job_->parts().go_on_without(*this)) {
    reserve_end_of({Status(Code::system, no_memory_text()).with_ranks({options_.self})});
  }
  rank_status_ = std::make_unique<RankStatus>(*this);  // last: now it has started
  job_->parts().add(*this);
}

// The measurement uses these links, and the plans of jobs of a few hosts do.
void RankRuntime::prepare_measurement(const std::vector<MessagePort*>& ports,
                                      const HostGroups& hosts) {
  const ContextId context(members_->context().value() + 1);
  cost_meter_ =
      std::make_unique<CostMeter>(options_.self, channel_of(context, 0), ports, hosts, clock_,
                                  [this](Rank to, std::span<const std::byte> body) {
                                    members_->tell(to, NoticeKind::costs, body);
                                  });
  for (const Rank peer : measured_peers(hosts, ports.size(), options_.self)) {
    if (options_.data_at_start) ports[static_cast<size_t>(peer.value())]->expect_messages();
  }
}

void RankRuntime::measure_costs() {
  cost_meter_->start([this](const PlanCosts& costs) {
    operations_->set_costs(costs);
    job_->set_costs(costs);
    costs_agreed_ = true;
  });
}

void RankRuntime::handle_mismatches() {
  operations_->executor().set_mismatch_handler(
      [this](Rank peer, const Status&) { waits_->on_mismatch(peer); });
  operations_->tagged_messages().set_failure_handler([this](const Status& why) { fail(why); },
                                                     [this](Rank rank) { return name_of(rank); });
  operations_->point_to_point().set_mismatch_handler([this](Rank peer, const Status& why) {
    fail(why.with_ranks({peer, options_.self})
             .with_context("the Send of " + name_of(peer) + " does not match the Recv of " +
                           name_of(options_.self)));
  });
}

std::string RankRuntime::on_communicator() const {
  return options_.name.empty() ? "" : " on communicator \"" + options_.name + "\"";
}

uint64_t RankRuntime::start(Operation&& operation, const MaybeBad& bad) {
  if (!bad) return operations_->start(std::move(operation));
  const uint64_t number = operations_->next_number(operation);
  refuse_buffer(operations_->use_by_next(operation, *bad), *bad);
  operation.done(failure_);
  return number;
}

void RankRuntime::progress(TimeNs now) {
  // The links' pass has delivered the messages that arrived ahead of a goodbye.
  if (any_departed_) check_departed();
  farewells_->progress();
  if (shrinks_ != nullptr) shrinks_->progress(now);
  waits_->progress(now);
  const bool waits = waits_->collective_waits(now);
  if (std::exchange(collective_waits_, waits) != waits && waits)
    job_->process().tell_caller_waits();
  if (views_ != nullptr) views_->progress(now);
  query_->progress(now);  // first: its operators are answered in the same turn
  rank_status_->progress(now);
  observer_.on_pass_end();
}

TimeNs RankRuntime::next_timeout() {
  return std::min({waits_->next_timeout(), query_->next_timeout(), rank_status_->next_timeout(),
                   views_ == nullptr ? kNever : views_->next_timeout(),
                   shrinks_ == nullptr ? kNever : shrinks_->next_timeout()});
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
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (Rank(rank) != options_.self) leave(Rank(rank));
  }
}

void RankRuntime::set_caller_waits(bool waits) {
  if (std::exchange(caller_waits_, waits) != waits && waits) job_->process().tell_caller_waits();
}

// A rank that has left takes part in nothing more, so this one owes it only its acknowledgements. A
// caller that waits in another communicator cannot leave this one, and the rank that has left may
// be the one that he waits for.
void RankRuntime::answer_departed() {
  if (!any_departed_ || !job_->process().caller_waits_outside(comm_id_)) return;
  if (leaving_ || halted() || !failure_.ok()) return;
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    const Link* link = members_->link(Rank(rank));
    if (link != nullptr && farewells_->ended(Rank(rank))) answer(Rank(rank));
  }
}

// A rank that has left by a notice needs the link for a communicator that may be made here yet.
void RankRuntime::answer(Rank rank) {
  members_->link(rank)->peer_said_goodbye() ? leave(rank) : farewells_->begin(rank, false);
}

void RankRuntime::leave(Rank rank) {
  const Rank peer = members_->peer_of(rank);
  farewells_->begin(rank, !job_->parts().need(peer, *this));
}

bool RankRuntime::goodbye_done() const {
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (Rank(rank) != options_.self && !farewells_->done(Rank(rank))) return false;
  }
  // Others may still say goodbye to each other through this process, as long as its job lives.
  return !last_of_job() || engine_.relays().empty();
}

bool RankRuntime::waived_told() const {
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (Rank(rank) != options_.self && !farewells_->told(Rank(rank))) return false;
  }
  return true;
}

std::vector<Rank> RankRuntime::goodbyes_missing() const {
  std::vector<Rank> missing;
  for (int32_t rank = 0; rank < options_.rank_count; ++rank) {
    if (Rank(rank) == options_.self) continue;
    const bool relayed = last_of_job() && engine_.relays().serves(members_->peer_of(Rank(rank)));
    if (!farewells_->done(Rank(rank)) || relayed) {
      missing.emplace_back(rank);
    }
  }
  return missing;
}

void RankRuntime::on_path_event(const PathEvent& event) {
  observer_.on_path_event(event);
}

void RankRuntime::on_peer_end(Rank rank, PeerEnd end, const std::string& why) {
  const auto index = static_cast<size_t>(rank.value());
  if (farewells_->ended(rank)) end = PeerEnd::goodbye;  // whatever happens to the process later
  if (shrinks_ != nullptr) shrinks_->on_gone(rank, end_of(rank));
  if (views_ != nullptr) views_->on_gone(rank, end == PeerEnd::goodbye);
  query_->on_end(rank, reachability_of(end));
  observer_.on_peer_end(rank, end);
  switch (end) {
    case PeerEnd::goodbye:
      departed_[index] = any_departed_ = true;
      return;
    case PeerEnd::dead:
      return fail_of({rank}, Code::remote, name_of(rank) + " died: " + why);
    case PeerEnd::cut_off:
      return fail_of({rank}, Code::remote, name_of(rank) + " is cut off: " + why);
  }
}

void RankRuntime::on_goodbye(Rank rank) {
  if (views_ != nullptr) views_->on_gone(rank, true);
  if (shrinks_ != nullptr) shrinks_->on_gone(rank, ShrinkOutcome::left);
  if (farewells_->waived(rank) && !halted() && failure_.ok()) answer(rank);
  if (leaving_) return;
  const auto index = static_cast<size_t>(rank.value());
  departed_[index] = any_departed_ = true;
  answer_departed();
}

void RankRuntime::on_contradiction(Rank rank, const std::string& why) {
  fail_of({rank, options_.self}, Code::remote,
          name_of(rank) + " contradicts " + name_of(options_.self) + ": " + why +
              ". No path mends this: the memory of one of the two hosts is at fault, or r2ccl. Run "
              "the job without these hosts, or report a bug");
}

void RankRuntime::on_notice(Rank rank, const NoticeView& notice, std::span<const std::byte> bytes) {
  handle(rank, notice);
  observer_.on_notice(rank, bytes);
}

void RankRuntime::handle(Rank rank, const NoticeView& notice) {
  const auto body = notice.body;
  switch (notice.kind) {
    case NoticeKind::failure:
      return on_failure_notice(rank, decode_failure(body));
    case NoticeKind::job_failure:
      return on_failure_notice(rank, of_members(decode_failure(body)));
    case NoticeKind::ended:
      farewells_->on_ended(rank);
      return on_goodbye(rank);
    case NoticeKind::calls:
      return waits_->on_notice(rank, body);
    case NoticeKind::question:
      return query_->on_question(rank, body);
    case NoticeKind::answer:
      return query_->on_answer(rank, body);
    case NoticeKind::view:
      if (views_ != nullptr) views_->on_message(rank, body);
      return;
    case NoticeKind::shrink:
      make_shrinks().on_message(rank, body);
      return refuse_ghosts();
    case NoticeKind::costs:
      if (cost_meter_ != nullptr) cost_meter_->on_notice(rank, body);
      return;
    case NoticeKind::address:
    case NoticeKind::drained:
    case NoticeKind::silent:
    case NoticeKind::nic_report:
    case NoticeKind::nic_rates:
    case NoticeKind::observation:
    case NoticeKind::excuse:
    case NoticeKind::verdict:
    case NoticeKind::vouch:
    case NoticeKind::losses:
      return;  // the engine's, or the job's
  }
  R2CCL_LOG(info, "a notice of unknown kind %d from rank %d", static_cast<int>(notice.kind),
            rank.value());
}

}  // namespace r2ccl
