#include "tools/simulate/sim_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tools/simulate/sim_serving.h"

namespace r2ccl::tools {
namespace {

std::string error_of(const TrainingOptions& options) {
  const Result<sim::TrainingJob> job = training_job_of(options);
  return job.ok() ? check_failures(options).message() : job.status().message();
}

TEST(SimTraining, TheModelFillsTheHosts) {
  TrainingOptions options;
  EXPECT_EQ(error_of(options), "");
  options.hosts.model = "175b";
  options.hosts.nic_rate = "8G";
  options.hosts.latency_us = 3;
  options.no_overlap = true;
  const sim::TrainingJob job = training_job_of(options).value();
  EXPECT_EQ(job.model.pipeline, 4U);  // the model's is 8
  EXPECT_EQ(job.cluster.nic_rate, 1e9);
  EXPECT_DOUBLE_EQ(job.cluster.latency_s, 3e-6);
  EXPECT_FALSE(job.overlap);
  options.pipeline = 2;
  EXPECT_EQ(training_job_of(options).value().model.pipeline, 2U);
}

TEST(SimTraining, AWrongOptionIsNamed) {
  struct Wrong {
    void (*set)(TrainingOptions&);
    const char* message;
  };
  const Wrong kWrong[] = {
      {[](TrainingOptions& o) { o.hosts.model = "1t"; }, "--model: no model '1t'; there are"},
      {[](TrainingOptions& o) { o.hosts.nic_rate = "fast"; }, "--nic-rate: 'fast' is no rate"},
      {[](TrainingOptions& o) { o.hosts.intra_rate = "0"; }, "--intra-rate: '0' is no rate"},
      {[](TrainingOptions& o) { o.hosts.latency_us = -1; }, "a latency must be 0 or more"},
      {[](TrainingOptions& o) { o.pipeline = 3; }, "pipelines of 3 hosts do not fill 4 hosts"},
      {[](TrainingOptions& o) { o.bucket = "1K"; }, "--bucket: '1K' is no size from 1M"},
      {[](TrainingOptions& o) { o.failures = 33; }, "--failures: the hosts have fewer NICs"},
      {[](TrainingOptions& o) { o.mtbf_hours = -1; }, "--mtbf-hours: write a number of hours"},
      {[](TrainingOptions& o) { o.mtbf_hours = 0.001; }, "--mtbf-hours: a NIC would fail more"},
      {[](TrainingOptions& o) { o.repair_hours = std::nan(""); }, "--repair-hours: write a"},
      {[](TrainingOptions& o) { o.duration_hours = 0; }, "--duration-hours: write a number"},
      {[](TrainingOptions& o) { o.patterns = 0; }, "--patterns: write 1 to 1000000"},
      {[](TrainingOptions& o) { o.pipeline = -1; }, "--pipeline: write the hosts of a pipeline"},
      {[](TrainingOptions& o) { o.costs.rebuild_s = 1e300; }, "--rebuild-s: write a time from 0"},
      {[](TrainingOptions& o) { o.costs.restart_s = std::nan(""); }, "--restart-s: write a time"},
      {[](TrainingOptions& o) { o.checkpoint_minutes = -1; }, "--checkpoint-minutes: write a"},
      {[](TrainingOptions& o) { o.stall_ms = -1; }, "--stall-ms: write a time from 0 to 10^9"}};
  for (const Wrong& wrong : kWrong) {
    TrainingOptions options;
    wrong.set(options);
    EXPECT_TRUE(error_of(options).starts_with(wrong.message)) << error_of(options);
    EXPECT_FALSE(error_of(options).empty()) << wrong.message;
  }
}

TEST(SimServing, AWrongOptionIsNamed) {
  ServingOptions options;
  options.job.duration_s = 40;
  EXPECT_EQ(serving_job_of(options).value().failure_at_s, 20);
  options.fail_at_s = 3;
  EXPECT_EQ(serving_job_of(options).value().failure_at_s, 3);
  options.costs.takeover_s = -1;
  EXPECT_EQ(serving_job_of(options).status().message(),
            "--takeover-s: write a time from 0 to 10^9 seconds");
  options.job.failed = 8;
  EXPECT_EQ(serving_job_of(options).status().message(),
            "a host that serves keeps one NIC at least");
  options.hosts.model = "none";
  EXPECT_EQ(serving_job_of(options).status().message(),
            "--model: no model 'none'; there are 7b, 13b, 70b and 175b");
}

}  // namespace
}  // namespace r2ccl::tools
