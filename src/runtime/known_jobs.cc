#include "runtime/known_jobs.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"

namespace r2ccl {
namespace {

// Links have these settings for all communicators that use them.
bool same_links(const EngineOptions& a, const EngineOptions& b) {
  return a.link.monitor == b.link.monitor && a.link.damping == b.link.damping &&
         a.link.cutoff == b.link.cutoff && a.listen.oob_ifname == b.listen.oob_ifname &&
         a.listen.shm == b.listen.shm;
}

// A job that is still starting may fail, and one without a key has no other process.
bool serves(const Job& job, const JobOptions& wanted) {
  return job.costs() && !job.engine().halted() && !job.engine().run().key.empty() &&
         (job.options().authenticated || !wanted.authenticated) &&
         same_links(job.options().engine, wanted.engine) && job.has_room() &&
         job.parted().size() <= kKnownJobPartedMax;
}

}  // namespace

void OfferedJobs::describe(std::span<const std::byte> meeting, RankInfo& info) const {
  for (const HeldJob& held : held_) {
    const Job& job = *held.job();
    KnownJob known{job.engine().run().id, job.self(), job.parted(), {}};
    prove(known, job.engine().run(), meeting, info.rank);
    info.known_jobs.push_back(std::move(known));
  }
}

const Job* OfferedJobs::find(std::span<const std::byte> run) const {
  for (const HeldJob& held : held_) {
    if (std::ranges::equal(held.job()->engine().run().id, run)) return held.job().get();
  }
  return nullptr;
}

OfferedJobs::Common OfferedJobs::find_common(std::span<const std::byte> meeting,
                                             std::span<const RankInfo> rank_table) const {
  auto common = find_common_job(rank_table, meeting, [&](std::span<const std::byte> run) {
    const Job* job = find(run);
    return job == nullptr ? nullptr : &job->engine().run();
  });
  if (!common) return {};
  R2CCL_CHECK(common->peers.size() == rank_table.size());
  for (const HeldJob& held : held_) {
    const Job& job = *held.job();
    if (job.engine().run().id != common->run) continue;
    // A process that has the key may still say any number.
    const bool sound =
        std::ranges::all_of(common->peers, [&](Rank peer) { return job.engine().job().has(peer); });
    return sound ? Common{held.job(), std::move(common->peers)} : Common();
  }
  return {};
}

void KnownJobs::add(const std::shared_ptr<Job>& job) {
  std::erase_if(jobs_, [](const auto& each) { return each.expired(); });
  jobs_.push_back(job);
}

OfferedJobs KnownJobs::offer(const JobOptions& wanted) {
  std::vector<std::shared_ptr<Job>> serving;
  std::set<std::array<std::byte, kJobIdBytes>> once;
  std::set<std::array<std::byte, kJobIdBytes>> twice;
  for (const auto& each : jobs_) {
    auto job = each.lock();
    if (job == nullptr || !serves(*job, wanted)) continue;
    const auto& run = job->engine().run().id;
    (once.insert(run).second ? once : twice).insert(run);
    serving.push_back(std::move(job));
  }
  OfferedJobs offered;
  size_t count = 0;
  // A process that has several ranks of one job does not know which of them the caller is.
  for (auto& job : serving) {
    if (twice.contains(job->engine().run().id) || count++ >= kKnownJobsMax) continue;
    offered.add(std::move(job));
  }
  return offered;
}

}  // namespace r2ccl
