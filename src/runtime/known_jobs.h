// The jobs that this process is in. A communicator of processes that meet uses the links of one of
// them, if all are in it.
//
// Driving thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/bootstrap/known_job.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/job.h"

namespace r2ccl {

// Keeps a job and all its links.
class HeldJob {
 public:
  explicit HeldJob(std::shared_ptr<Job> job) : job_(std::move(job)) { job_->parts().hold(); }
  ~HeldJob() {
    if (job_ != nullptr) job_->parts().release();
  }
  HeldJob(HeldJob&&) = default;
  HeldJob& operator=(HeldJob&&) = delete;

  const std::shared_ptr<Job>& job() const { return job_; }

 private:
  std::shared_ptr<Job> job_;
};

// The jobs whose links a process would use for a communicator whose members it is about to meet.
class OfferedJobs {
 public:
  OfferedJobs() = default;
  OfferedJobs(OfferedJobs&&) = default;
  OfferedJobs& operator=(OfferedJobs&&) = default;

  void add(std::shared_ptr<Job> job) { held_.emplace_back(std::move(job)); }
  void clear() { held_.clear(); }
  // Tells the others of them, in the meeting with this id.
  void describe(std::span<const std::byte> meeting, RankInfo& info) const;
  // Returns the job that all ranks have in common, and the number there of each; null: none.
  struct Common {
    std::shared_ptr<Job> job;
    std::vector<Rank> peers;
  };
  Common find_common(std::span<const std::byte> meeting,
                     std::span<const RankInfo> rank_table) const;

 private:
  const Job* find(std::span<const std::byte> run) const;

  std::vector<HeldJob> held_;
};

class KnownJobs {
 public:
  void add(const std::shared_ptr<Job>& job);
  // Returns those whose links serve a communicator with these options. The result keeps them.
  OfferedJobs offer(const JobOptions& wanted);

 private:
  std::vector<std::weak_ptr<Job>> jobs_;
};

}  // namespace r2ccl
