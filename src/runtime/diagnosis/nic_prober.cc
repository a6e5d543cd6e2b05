#include "runtime/diagnosis/nic_prober.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace r2ccl {
namespace {

// Each job may have a connection for every pair of NICs.
constexpr size_t kJobsRunningMax = 4;
// As many jobs as one localising rank waits for, and as many of its predecessor.
constexpr size_t kJobsMax = 2 * kQuestionsMax;
constexpr size_t kRoundsMax = 3;
constexpr TimeNs kRoundInterval = 7 * kMillisecond;
// A NIC that does not answer in this time, or in two round trips, is unreachable. If two round
// trips exceed the maximum, a missing answer means nothing: the localising rank does not wait for
// ever.
constexpr TimeNs kProbeTime = 30 * kMillisecond;
constexpr TimeNs kProbeTimeMax = 150 * kMillisecond;

}  // namespace

void NicProber::start(Rank requester, uint32_t number, uint32_t host, std::vector<Target> targets) {
  // The localising rank has waited longest for the oldest job, and needs an answer to stop waiting.
  if (jobs_.size() >= kJobsMax) answer(jobs_.begin() + kJobsRunningMax);
  Job& job = jobs_.emplace_back();
  job.requester = requester;
  job.answer.number = number;
  job.answer.host = host;
  if (targets.size() > kProbesMax) targets.resize(kProbesMax);
  for (Target& target : targets) job.attempts.push_back({std::move(target), {}});
  job.next_round = clock_.now();
}

void NicProber::dial_rest(Job& job, TimeNs now) {
  // The time starts here and not at the request: this process may not have run since.
  if (job.rounds == 0) {
    TimeNs longest = kProbeTime;
    for (const Attempt& a : job.attempts) longest = std::max(longest, 2 * a.target.round_trip);
    job.deadline = now + std::min(longest, kProbeTimeMax);
  }
  ++job.rounds;
  job.next_round = job.rounds < kRoundsMax ? now + kRoundInterval : kNever;
  for (Attempt& attempt : job.attempts) {
    if (attempt.target.reach.reached) continue;
    PathDialer::Owner& owner = *this;
    attempt.dialers.push_back(
        std::make_unique<PathDialer>(owner, engine_.reactor(), engine_.transport(), engine_.run()));
    attempt.dialers.back()->start(attempt.target.request, {}, now);
  }
}

bool NicProber::all_reached(const Job& job) {
  return std::ranges::all_of(job.attempts,
                             [](const Attempt& attempt) { return attempt.target.reach.reached; });
}

size_t NicProber::running() const {
  return std::min(jobs_.size(), kJobsRunningMax);
}

void NicProber::progress() {
  if (jobs_.empty()) return;
  // Later answers have not been read, so use the time of the poll.
  const TimeNs now = engine_.polled_at();
  for (size_t i = 0; i < running(); ++i) {
    Job& job = jobs_[i];
    if (now >= job.next_round && now < job.deadline) dial_rest(job, clock_.now());
  }
  for (size_t i = 0; i < running();) {
    if (now < jobs_[i].deadline && !all_reached(jobs_[i])) {
      ++i;
    } else {
      answer(jobs_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

void NicProber::answer(const std::deque<Job>::iterator& job) {
  for (const Attempt& attempt : job->attempts) {
    const Target& target = attempt.target;
    const bool tried = !attempt.dialers.empty() && !attempt.unable;
    const bool in_time = 2 * target.round_trip <= kProbeTimeMax;
    if (target.reach.reached || (tried && in_time)) job->answer.tried.push_back(target.reach);
  }
  const Rank requester = job->requester;
  const ProbeAnswer answer = std::move(job->answer);
  jobs_.erase(job);
  done_(requester, answer);
}

TimeNs NicProber::next_timeout() const {
  TimeNs next = kNever;
  for (size_t i = 0; i < running(); ++i) {
    next = std::min({next, jobs_[i].deadline, jobs_[i].next_round});
    if (all_reached(jobs_[i])) next = 0;
  }
  return next;
}

NicProber::Attempt* NicProber::attempt_of(const PathDialer& dialer) {
  for (Job& job : jobs_) {
    for (Attempt& attempt : job.attempts) {
      const bool of_this = std::ranges::any_of(
          attempt.dialers, [&](const auto& each) { return each.get() == &dialer; });
      if (of_this) return &attempt;
    }
  }
  return nullptr;
}

void NicProber::on_dialed(PathDialer& dialer, DialedPath) {
  if (Attempt* attempt = attempt_of(dialer)) attempt->target.reach.reached = true;
}

void NicProber::on_dial_failed(PathDialer& dialer, const DialFailure& failure) {
  Attempt* attempt = attempt_of(dialer);
  if (attempt == nullptr) return;
  if (failure.error == ECONNREFUSED) attempt->target.reach.reached = true;
  if (failure.error == EMFILE) attempt->unable = true;
}

}  // namespace r2ccl
