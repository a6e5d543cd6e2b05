// The time of a training iteration: data, tensor and pipeline parallel.
//
// Host h is stage h % pipeline of replica h / pipeline. Tensor-parallel groups lie within a host.
//   compute    (micro-batches + pipeline - 1) slots of a micro-batch on a stage, as 1F1B has them.
//              A token costs 6 parameters + 6 layers hidden sequence operations, a third of them
//              forward
//   tensor     in each slot four AllReduces of the activations a layer, within the host, exposed
//   pipeline   activations go to the next host and gradients to the previous one. They are hidden
//              behind the slots, but for the first and the last micro-batch's
//   gradients  an AllReduce among the hosts of a stage, in buckets. A bucket begins when the last
//              micro-batch's backward pass has made it and the previous bucket is done. Later
//              stages end their backward pass earlier
#pragma once

#include <cstdint>

#include "base/status.h"
#include "sim/training/collective_times.h"
#include "sim/training/job_shape.h"

namespace r2ccl::sim {

struct TrainingJob {
  GpuCluster cluster;
  ModelShape model;
  uint32_t sequence = 4096;                     // tokens of a micro-batch
  uint32_t micro_batches = 4;                   // of an iteration, for each pipeline
  uint64_t bucket_bytes = uint64_t{256} << 20;  // at most; of a host
  bool overlap = true;  // false: the buckets begin when the backward pass is over
};

// Returns an error that names the value which no job has.
Status check_job(const TrainingJob& job);

struct Iteration {
  double compute_s = 0;
  double tensor_s = 0;
  double pipeline_s = 0;
  double gradients_s = 0;  // of the slowest stage, hidden or not
  double exposed_s = 0;    // the part of it that follows the backward pass
  double total_s = 0;
};

class TrainingTimes {
 public:
  // Requires check_job().
  explicit TrainingTimes(const TrainingJob& job) : job_(job), collectives_(job.cluster) {}

  const TrainingJob& job() const { return job_; }
  uint32_t replicas() const { return job_.cluster.hosts / job_.model.pipeline; }
  size_t simulated() const { return collectives_.simulated(); }
  LiveNics healthy() const { return LiveNics(job_.cluster.hosts, job_.cluster.nics); }
  // Infinite times where a host has no NIC but needs one.
  Result<Iteration> iteration(const LiveNics& live, PlanFor plan_for);

 private:
  double forward_s() const;  // of a micro-batch on a stage, without tensor_s()
  double tensor_s() const;   // the same for its AllReduces, forward
  double hop_s(uint32_t from_nics, uint32_t to_nics) const;
  double longest_pipeline_s(const LiveNics& live) const;
  uint64_t buckets() const;
  Result<double> bucket_s(const LiveNics& live, uint32_t stage, PlanFor plan_for);
  double exposed_s(double bucket_s, uint32_t stage) const;

  const TrainingJob job_;
  CollectiveTimes collectives_;
};

}  // namespace r2ccl::sim
