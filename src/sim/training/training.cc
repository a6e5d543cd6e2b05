#include "sim/training/training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace r2ccl::sim {

Status check_job(const TrainingJob& job) {
  R2CCL_RETURN_IF_ERROR(check_gpu_cluster(job.cluster));
  const auto bad = [](const std::string& what) { return Status{Code::invalid_argument, what}; };
  const ModelShape& model = job.model;
  if (model.parameters <= 0 || model.layers == 0 || model.hidden == 0) {
    return bad("a model has parameters, layers and a hidden size");
  }
  if (model.tensor == 0 || job.cluster.gpus % model.tensor != 0) {
    return bad("groups of " + std::to_string(model.tensor) + " GPUs do not fill a host of " +
               std::to_string(job.cluster.gpus));
  }
  if (model.pipeline == 0 || job.cluster.hosts % model.pipeline != 0) {
    return bad("pipelines of " + std::to_string(model.pipeline) + " hosts do not fill " +
               std::to_string(job.cluster.hosts) + " hosts");
  }
  if (job.sequence == 0) return bad("a micro-batch has at least one token");
  if (job.micro_batches == 0) return bad("an iteration has at least one micro-batch");
  if (job.bucket_bytes == 0) return bad("a bucket has at least one byte");
  return {};
}

double TrainingTimes::forward_s() const {
  const ModelShape& model = job_.model;
  const double attention = static_cast<double>(model.layers) * model.hidden * job_.sequence;
  const double operations = 2 * (model.parameters + attention) * job_.sequence;
  return operations / model.pipeline / model.tensor / job_.cluster.flops();
}

double TrainingTimes::tensor_s() const {
  const double bytes = kElementBytes * job_.sequence * job_.model.hidden;
  const double layers = static_cast<double>(job_.model.layers) / job_.model.pipeline;
  return 2 * layers * intra_all_reduce_s(job_.cluster, job_.model.tensor, bytes);
}

double TrainingTimes::hop_s(uint32_t from_nics, uint32_t to_nics) const {
  const uint32_t nics = std::min(from_nics, to_nics);
  if (nics == 0) return std::numeric_limits<double>::infinity();
  const uint32_t pipelines = job_.cluster.gpus / job_.model.tensor;  // through this host
  const double bytes = kElementBytes * job_.sequence * job_.model.hidden * pipelines;
  return job_.cluster.latency_s + bytes / (job_.cluster.nic_rate * nics);
}

// Returns the time of the slowest pipeline over the same one without messages between hosts.
double TrainingTimes::longest_pipeline_s(const LiveNics& live) const {
  const uint32_t stages = job_.model.pipeline;
  const double slot = 3 * (forward_s() + tensor_s());
  double longest = 0;
  for (uint32_t replica = 0; replica < replicas(); ++replica) {
    double hops = 0;
    double slowest = 0;
    for (uint32_t host = replica * stages; host + 1 < (replica + 1) * stages; ++host) {
      const double hop = hop_s(live[host], live[host + 1]);
      hops += 2 * hop;
      slowest = std::max(slowest, 2 * hop);
    }
    const double late = std::max(slowest - slot, 0.0) * job_.micro_batches;
    longest = std::max(longest, hops + late);
  }
  return longest;
}

uint64_t TrainingTimes::buckets() const {
  const double bytes = kElementBytes * job_.model.parameters / job_.model.pipeline;
  return static_cast<uint64_t>(std::ceil(bytes / static_cast<double>(job_.bucket_bytes)));
}

Result<double> TrainingTimes::bucket_s(const LiveNics& live, uint32_t stage, PlanFor plan_for) {
  LiveNics group;
  for (uint32_t host = stage; host < live.size(); host += job_.model.pipeline) {
    group.push_back(live[host]);
  }
  const double gradients = kElementBytes * job_.model.parameters / job_.model.pipeline;
  const double bytes = gradients / static_cast<double>(buckets());
  const Result<double> between =
      collectives_.all_reduce(static_cast<uint64_t>(bytes), group, plan_for);
  R2CCL_RETURN_IF_ERROR(between.status());
  // GPUs of a host with the same part of the model reduce among themselves first, and share the
  // result afterwards.
  const uint32_t copies = job_.cluster.gpus / job_.model.tensor;
  return between.value() + intra_all_reduce_s(job_.cluster, copies, bytes / job_.model.tensor);
}

double TrainingTimes::exposed_s(double bucket_s, uint32_t stage) const {
  const auto count = static_cast<double>(buckets());
  const double backward = 2 * (forward_s() + tensor_s());
  double end = backward + count * bucket_s;
  if (job_.overlap) {
    end = 0;
    for (double made = 1; made <= count; ++made) {
      end = std::max(end, backward * made / count) + bucket_s;
    }
  }
  return std::max(end - backward * (1 + stage), 0.0);
}

Result<Iteration> TrainingTimes::iteration(const LiveNics& live, PlanFor plan_for) {
  Iteration result;
  const double slots = job_.micro_batches + job_.model.pipeline - 1.0;
  result.compute_s = slots * 3 * forward_s();
  result.tensor_s = slots * 3 * tensor_s();
  result.pipeline_s = longest_pipeline_s(live);
  for (uint32_t stage = 0; stage < job_.model.pipeline; ++stage) {
    const Result<double> bucket = bucket_s(live, stage, plan_for);
    R2CCL_RETURN_IF_ERROR(bucket.status());
    const double whole = bucket.value() * static_cast<double>(buckets());
    result.gradients_s = std::max(result.gradients_s, whole);
    result.exposed_s = std::max(result.exposed_s, exposed_s(bucket.value(), stage));
  }
  result.total_s = result.compute_s + result.tensor_s + result.pipeline_s + result.exposed_s;
  return result;
}

}  // namespace r2ccl::sim
