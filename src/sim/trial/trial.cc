#include "sim/trial/trial.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "sim/cluster/cluster.h"
#include "sim/cluster/fault_script.h"
#include "sim/cluster/mixed_job.h"
#include "sim/trial/coverage.h"
#include "sim/trial/end_check.h"
#include "sim/trial/fault_oracle.h"
#include "sim/trial/regroup.h"

namespace r2ccl::sim {
namespace {

// Longer than any timer that the job may wait for once all faults are over.
constexpr TimeNs kProgressBound = 20 * kSecond;
// Time until every path is up again: a penalty of 30 s at most, and then a probe.
constexpr TimeNs kReturnBound = 45 * kSecond;
constexpr TimeNs kEndBound = 10 * kSecond;
constexpr TimeNs kDeathBound = 45 * kSecond;  // refusals alone prove a death after 30 s
// A heartbeat waits for the next second, and its pong takes a round trip.
constexpr TimeNs kCheckMargin = 1500 * kMillisecond;

ClusterOptions cluster_options(const Scenario& s) {
  ClusterOptions options;
  options.seed = s.seed;
  options.hosts = s.hosts;
  options.nics = s.nics;
  options.rate_bytes_per_s = s.rate_bytes_per_s;
  options.management = s.management;
  options.communicators = s.communicators;
  options.checked = true;
  options.plan_hosts = s.plan_hosts();
  options.plan_costs = s.plan_costs();
  options.data_at_start = s.data_at_start;
  options.link.damping = s.damping;
  options.link.cutoff = s.cutoff;
  options.world.wakeup_jitter_ns = s.wakeup_jitter;
  options.world.network.latency_ns = s.latency;
  options.world.network.nics_write = s.nics_write;
  StreamLimits& stream = options.world.network.stream;
  stream.segment_bytes = s.segment_bytes;
  stream.send_buffer_bytes = s.socket_bytes;
  stream.receive_buffer_bytes = s.socket_bytes;
  stream.initial_window_bytes = s.initial_window_bytes;
  return options;
}

class Trial {
 public:
  Trial(const Scenario& scenario, bool with_notes)
      : scenario_(scenario),
        with_notes_(with_notes),
        cluster_(cluster_options(scenario)),
        faults_(
            cluster_, scenario, [this](const std::string& text) { note(-1, text); },
            [this] { job_->expect_failure(); }),
        oracle_(scenario_, faults_) {}

  // Unfinished operations end here, and the job expects that.
  ~Trial() {
    if (job_ != nullptr) job_->expect_failure();
    for (int rank = 0; rank < cluster_.size(); ++rank) cluster_.leave(rank);
  }

  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  TrialResult run() {
    if (cluster_.connect()) {
      began_ = cluster_.now();
      job_ = std::make_unique<MixedJob>(cluster_, scenario_);
      run_job();
      if (ok()) end_together();
      if (ok()) go_on();
      if (ok()) hear_answers();
      if (ok() && !scenario_.leave_early) {
        come_back();
        if (ok()) agree();
        if (ok()) stay_idle();
        if (ok()) part();
      }
      check_events();
      if (const std::string differ = differing_plans(cluster_); !differ.empty()) violated(differ);
      if (cluster_.fabric().unnoticed() > 0) violated("a tampered frame was accepted");
      for (int rank = 0; rank < scenario_.hosts; ++rank) check_verdicts(rank);
      job_->inspect_buffers();
    } else {
      violated("the paths do not come up, though nothing is wrong");
    }
    return result();
  }

 private:
  bool ok() { return cluster_.check().violations().empty(); }
  void violated(const std::string& what) { cluster_.check().violated(what); }
  void note(int rank, const std::string& text) {
    if (with_notes_) out_.notes.push_back({cluster_.now() - began_, rank, text});
  }
  bool alive(int rank) const { return !faults_.killed(rank); }
  bool any_killed() const {
    int living = 0;
    for (int rank = 0; rank < scenario_.hosts; ++rank) living += alive(rank) ? 1 : 0;
    return living < scenario_.hosts;
  }

  void run_job() {
    job_->start();
    faults_.start();
    const auto done = [&] {
      see_failures();
      if (scenario_.leave_early) return all_left();
      return job_->finished() && faults_.over();
    };
    while (!cluster_.world().run_until(done, cluster_.now() + kSecond)) {
      const TimeNs bound = any_killed() ? kDeathBound : kProgressBound;
      if (faults_.over() && cluster_.now() - faults_.ended_at() > bound) return stuck();
      if (!ok()) return;
    }
  }

  void stuck() {
    std::string who;
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      if (has_left(rank)) continue;
      cluster_.node(rank).for_each([&](RankRuntime& each) {
        for (const Rank peer : each.operations().waits_on()) {
          who += " " + std::to_string(rank) + " for " + std::to_string(peer.value());
        }
      });
    }
    violated("the job does not get on after the last fault; these wait:" + who +
             "; these have not parted:" + not_parted());
  }

  // A rank that has failed takes no further part.
  void see_failures() {
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      if (!alive(rank)) {
        job_->leave_out(rank);
        continue;
      }
      SimRank& node = cluster_.node(rank);
      if (!node.failed() || failed_[rank]) continue;
      failed_[rank] = true;
      const Status why = node.failure();
      note(rank, "fails: " + why.message());
      if (!may_fail(rank, why)) {
        violated("rank " + std::to_string(rank) + " fails without a reason: " + why.message());
      }
      for (const auto& [peer, end] : node.ends) {
        if (end == PeerEnd::goodbye || !alive(peer.value()) || relays_have_left()) continue;
        violated("rank " + std::to_string(rank) + " gives up rank " + std::to_string(peer.value()) +
                 ", which lives");
      }
      job_->leave_out(rank);
      node.abort("its caller gave up after a failure");
    }
  }

  // The last two ranks have none that relays between them, so faults may keep them from parting.
  bool relays_have_left() {
    int left = 0;
    for (int rank = 0; rank < scenario_.hosts; ++rank) left += has_left(rank) ? 1 : 0;
    return left > 0 && left >= scenario_.hosts - 2;
  }

  // The cause that the rank states is one that there was.
  bool may_fail(int rank, const Status& why) {
    const auto says = [&](const char* words) {
      return why.message().find(words) != std::string::npos;
    };
    if (faults_.aborted(rank) && why.code() == Code::aborted) return true;
    if (job_fails() && why.code() == Code::remote && says(" aborted: ")) return true;
    if (job_->calls_differ() && why.code() == Code::invalid_usage && says(" not match"))
      return true;
    if (relays_have_left() && says(" is cut off: ")) return true;
    return any_killed() && why.code() == Code::remote && (says(" died: ") || says(" is cut off: "));
  }
  bool job_fails() const { return any_killed() || faults_.any_aborted() || job_->calls_differ(); }

  // When one rank ends the job, every other one is told in bounded time.
  void end_together() {
    if (!job_fails() || scenario_.leave_early) return;
    const auto all_failed = [this] {
      see_failures();
      for (int rank = 0; rank < scenario_.hosts; ++rank) {
        if (alive(rank) && !failed_[rank]) return false;
      }
      return true;
    };
    const TimeNs from = std::max(cluster_.now(), faults_.ended_at());
    if (cluster_.world().run_until(all_failed, from + kProgressBound)) return;
    violated("the job has failed, and not all ranks are told");
  }

  // The ranks that live go on without the dead.
  void go_on() {
    if (!job_fails() || scenario_.leave_early) return;
    const auto is_alive = [this](int rank) { return alive(rank); };
    const auto kill = [this](int rank) { faults_.kill(rank); };
    const std::string wrong = regroup(cluster_, is_alive, kill, scenario_.seed, scenario_.cutoff);
    wrong.empty() ? void(out_.covered.insert("a job goes on without its dead")) : violated(wrong);
  }

  // The operators have been answered.
  void hear_answers() {
    const auto heard = [this] { return faults_.unanswered() == 0; };
    if (cluster_.world().run_until(heard, cluster_.now() + kEndBound)) return;
    violated("an operator's question is not answered");
  }

  // Healed NICs come back.
  void come_back() {
    const auto all_up = [this] {
      for (int rank = 0; rank < scenario_.hosts; ++rank) {
        if (alive(rank) && !paths_up(rank)) return false;
      }
      return true;
    };
    const TimeNs deadline = std::max(cluster_.now(), faults_.ended_at() + kReturnBound);
    // Checked rarely, because the check visits every path.
    while (!all_up()) {
      if (cluster_.now() >= deadline) {
        return violated("not all paths come back: " +
                        paths_not_up(cluster_, [this](int rank) { return alive(rank); }));
      }
      cluster_.world().run_for(10 * kMillisecond);
    }
  }

  bool paths_up(int rank) {
    for (int peer = 0; peer < scenario_.hosts; ++peer) {
      const Link* link = cluster_.node(rank).engine().link(Rank(peer));
      if (link == nullptr || !alive(peer)) continue;
      for (const auto& path : link->paths()) {
        if (!path->spec.relay && path->state.phase() != PathPhase::up) return false;
      }
    }
    return true;
  }

  // Every rank holds the others' latest notices: the same verdicts, and the addresses of their
  // NICs.
  void agree() {
    if (job_fails()) return;
    const TimeNs deadline = cluster_.now() + kEndBound;
    while (!all_told()) {
      if (cluster_.now() >= deadline) return violated("notices do not arrive");
      cluster_.world().run_for(kMillisecond);
    }
    if (!cluster_.world().run_until([&] { return views_whole(cluster_); },
                                    cluster_.now() + kReturnBound)) {
      violated("all NICs are back, and the plans do not follow");
    }
    for (const std::string& text : differing_verdicts(cluster_)) violated(text);
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      for (int peer = 0; peer < scenario_.hosts; ++peer) {
        if (rank != peer) check_addresses(rank, peer);
      }
    }
  }

  // The job is idle and whole: each link still checks each of its paths in the promised time, which
  // is the same for all links.
  void stay_idle() {
    if (job_fails()) return;
    const TimeNs bound = cluster_.node(0).engine().link(Rank(1))->check_period() + kCheckMargin;
    // No link gives up its control stream on the management network. After an outage TCP's timer
    // may run for as long again (RFC 6298, section 5.5).
    cluster_.world().run_for(scenario_.longest(FaultKind::control) + bound);
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      for (int peer = rank + 1; peer < scenario_.hosts; ++peer) {
        for (const Path* path : cluster_.node(rank).engine().link(Rank(peer))->paths()) {
          if (path->spec.relay || cluster_.now() - path->health.pong_at <= bound) continue;
          violated("rank " + std::to_string(rank) + " does not check its path by " +
                   path->spec.local_name + " to " + std::to_string(peer) + " while it is idle");
        }
      }
    }
  }

  bool all_told() {
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      if (cluster_.node(rank).fault_reporter().busy()) return false;
      for (int peer = 0; peer < scenario_.hosts; ++peer) {
        const Link* link = cluster_.node(rank).engine().link(Rank(peer));
        if (link != nullptr && !link->notices_delivered()) return false;
      }
    }
    return true;
  }

  void check_addresses(int rank, int of) {
    ProgressEngine& owner = cluster_.node(of).engine();
    const RankInfo& known = cluster_.node(rank).engine().job().ranks()[static_cast<size_t>(of)];
    for (size_t i = 0; i < owner.nics().all().size(); ++i) {
      const NicInfo current = make_nic_info(owner.nics().all()[i], known.nics[i].port);
      if (current.addresses == known.nics[i].addresses) continue;
      violated("rank " + std::to_string(rank) + " does not know the address of nic" +
               std::to_string(i) + " of rank " + std::to_string(of));
    }
  }

  // Checks that no path without a fault went down.
  void check_events() {
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      for (const PathEvent& event : cluster_.node(rank).events) {
        if (event.at < began_) continue;
        out_.covered.insert(std::string(to_string(event.from)) + " -> " + to_string(event.to) +
                            (event.to == PathPhase::down
                                 ? std::string(": ") + to_string(event.cause)
                                 : std::string()));
        if (with_notes_) {
          out_.notes.push_back({event.at - began_, rank, describe(rank, event)});
        }
        if (event.to == PathPhase::up) check_return(rank, event);
        const bool was_up = event.from == PathPhase::up || event.from == PathPhase::suspect;
        if (event.to != PathPhase::down || !was_up || oracle_.guilty(rank, event)) continue;
        violated("nothing is wrong with " + describe(rank, event));
      }
    }
  }

  // Checks that every verdict of the rank names a component that was faulty then.
  void check_verdicts(int rank) {
    if (has_left(rank) || !alive(rank)) return;
    for (const Verdict& verdict : cluster_.node(rank).fault_reporter().verdicts()) {
      const TimeNs at = verdict.wall - (cluster_.world().clock().wall() - cluster_.now());
      if (at < began_) continue;
      out_.covered.insert(std::string("verdict ") + to_string(verdict.scope));
      note_verdict(at, sim::describe(verdict));
      if (!oracle_.deserved(verdict, at))
        violated(sim::describe(verdict) + " is accused, and innocent");
    }
  }

  // Notes the verdict once, though every rank holds it.
  void note_verdict(TimeNs at, const std::string& text) {
    const auto same = [&](const TrialNote& n) { return n.at == at - began_ && n.text == text; };
    if (with_notes_ && std::ranges::none_of(out_.notes, same))
      out_.notes.push_back({at - began_, -1, text});
  }

  // A path that only small packets pass must not be taken for whole.
  void check_return(int rank, const PathEvent& event) {
    if (!oracle_.returned_too_soon(rank, event)) return;
    violated("full-size frames do not pass, and yet " + describe(rank, event));
  }

  static std::string describe(int rank, const PathEvent& event) {
    std::string text = "rank " + std::to_string(rank) + " to " +
                       std::to_string(event.peer.value()) + " by nic" +
                       std::to_string(event.local_nic.value()) + ": " + to_string(event.from) +
                       " -> " + to_string(event.to);
    return event.why.empty() ? text : text + ": " + event.why;
  }

  bool has_left(int rank) { return cluster_.node(rank).left(); }

  // Lets each rank leave as soon as it may. Returns true when all have left.
  bool all_left() {
    bool all = true;
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      if (has_left(rank)) continue;
      all = false;
      SimRank& node = cluster_.node(rank);
      if (node.failed() && alive(rank)) {
        if (node.failure_known()) cluster_.leave(rank);
        continue;
      }
      if (!job_->finished(rank)) continue;
      if (!node.runtime->leaving()) node.begin_goodbye();
      if (!node.goodbye_done()) continue;
      check_verdicts(rank);
      cluster_.leave(rank);
    }
    return all;
  }

  // Ends the job in order, all ranks at once.
  void part() {
    if (job_fails()) return;
    for (int rank = 0; rank < scenario_.hosts; ++rank) cluster_.node(rank).begin_goodbye();
    const TimeNs deadline = cluster_.now() + kEndBound;
    while (!all_left()) {
      if (cluster_.now() >= deadline) {
        return violated("the ranks do not part in order: " + not_parted());
      }
      cluster_.world().run_for(kMillisecond);
    }
  }

  std::string not_parted() {
    std::string all;
    for (int rank = 0; rank < scenario_.hosts; ++rank) {
      if (has_left(rank)) continue;
      for (int peer = 0; peer < scenario_.hosts; ++peer) {
        const Link* link = cluster_.node(rank).engine().link(Rank(peer));
        if (link == nullptr || link->goodbye_done()) continue;
        all += " " + std::to_string(rank) + " from " + std::to_string(peer);
        if (!link->peer_said_goodbye()) all += " (has heard nothing)";
      }
    }
    return all;
  }

  void note_spans() {
    if (job_ != nullptr) {
      for (const MixedJob::Span& span : job_->spans()) {
        add_span(TrialSpan::What::operation, span.rank, -1, span.from, span.to,
                 sim::describe(scenario_.operations[span.operation]));
      }
    }
    for (const FaultScript::Span& span : faults_.spans()) {
      if (span.from == kNever) continue;
      const bool whole = !of_a_nic(span.spec.kind);
      add_span(TrialSpan::What::fault, span.spec.host, whole ? -1 : span.spec.nic, span.from,
               span.to == kNever ? cluster_.now() : span.to, sim::describe(span.spec));
    }
    for (int rank = 0; rank < scenario_.hosts; ++rank) note_path_spans(rank);
  }

  // Notes the spans from each event that takes a path out of use to the path's next event.
  void note_path_spans(int rank) {
    std::map<std::pair<Rank, PathId>, PathEvent> last;
    for (const PathEvent& event : cluster_.node(rank).events) {
      if (event.at < began_) continue;
      const auto key = std::pair(event.peer, event.path);
      if (const auto before = last.find(key); before != last.end()) {
        add_path_span(rank, before->second, event.at);
      }
      last[key] = event;
    }
    for (const auto& [key, event] : last) add_path_span(rank, event, cluster_.now());
  }
  void add_path_span(int rank, const PathEvent& event, TimeNs to) {
    if (event.to == PathPhase::up || event.local_nic == kNoNic) return;
    const bool suspect = event.to == PathPhase::suspect;
    add_span(suspect ? TrialSpan::What::suspect : TrialSpan::What::down, rank,
             event.local_nic.value(), event.at, to, describe(rank, event));
  }
  void add_span(TrialSpan::What what, int host, int nic, TimeNs from, TimeNs to, std::string text) {
    out_.spans.push_back({what, host, nic, from - began_, to - began_, std::move(text)});
  }

  TrialResult result() {
    for (const FaultSpec& fault : scenario_.faults) {
      out_.covered.insert(std::string("fault ") + to_string(fault.kind));
    }
    out_.seen = cluster_.check().seen();
    if (out_.seen.resent > 0) out_.covered.insert("chunk sent again");
    if (out_.seen.duplicates > 0) out_.covered.insert("duplicate after acceptance");
    if (out_.seen.late > 0) out_.covered.insert("copy after its message's end");
    if (out_.seen.early > 0) out_.covered.insert("chunk before its receive");
    out_.violations = cluster_.check().violations();
    out_.trace_hash = cluster_.world().trace_hash();
    out_.simulated = cluster_.now();
    if (job_ != nullptr) {
      out_.elements = job_->checked();
      out_.operations = job_->ended();
      cover(scenario_, job_->spans(), faults_.spans(), out_.covered);
    }
    std::ranges::stable_sort(out_.notes, {}, &TrialNote::at);
    if (with_notes_) note_spans();
    return std::move(out_);
  }

  const Scenario scenario_;
  const bool with_notes_;
  Cluster cluster_;
  FaultScript faults_;
  const FaultOracle oracle_;
  std::unique_ptr<MixedJob> job_;
  std::map<int, bool> failed_;
  TimeNs began_ = 0;
  TrialResult out_;
};

}  // namespace

TrialResult run_trial(const Scenario& scenario, bool with_notes) {
  return Trial(scenario, with_notes).run();
}

}  // namespace r2ccl::sim
