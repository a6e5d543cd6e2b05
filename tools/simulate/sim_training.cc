#include "tools/simulate/sim_training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tools/common/output_file.h"
#include "tools/common/parse.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

constexpr const char* kStrategyNames[] = {"r2ccl", "balanced", "checkpoint-restart", "drop"};
constexpr uint32_t kPatternsMax = 1'000'000;
constexpr double kFailuresOfNicMax = 1000;
constexpr uint64_t kBucketBytesMin = uint64_t{1} << 20;

// The outcomes of one strategy over all patterns.
struct StrategyRow {
  const char* name = "";
  double goodput = 0;      // mean
  double iteration_s = 0;  // mean
  std::vector<double> overheads_pct;

  double mean_overhead() const {
    double sum = 0;
    for (const double each : overheads_pct) sum += each;
    return sum / static_cast<double>(overheads_pct.size());
  }
  double most_overhead() const { return *std::ranges::max_element(overheads_pct); }
};

class TrainingSimulation {
 public:
  TrainingSimulation(const TrainingOptions& options, const TrainingJob& job)
      : options_(options), times_(job) {}

  Status run() {
    Result<Iteration> healthy = times_.iteration(times_.healthy(), PlanFor::healthy);
    R2CCL_RETURN_IF_ERROR(healthy.status());
    healthy_ = healthy.value();
    for (const Strategy strategy : kStrategies) {
      rows_.emplace_back();
      rows_.back().name = kStrategyNames[static_cast<size_t>(strategy)];
    }
    for (uint32_t pattern = 0; pattern < options_.patterns; ++pattern) {
      R2CCL_RETURN_IF_ERROR(run_pattern(trace_of(options_.seed + pattern)));
    }
    return {};
  }

  void print() const {
    const TrainingJob& job = times_.job();
    std::printf("%s%s", cluster_text(job.model, job.cluster).c_str(), parameters_text().c_str());
    std::printf(
        "\nhealthy iteration %.6g s: compute %.6g, tensor parallel %.6g, pipeline %.6g, "
        "gradients %.6g of which %.6g exposed\n\n",
        healthy_.total_s, healthy_.compute_s, healthy_.tensor_s, healthy_.pipeline_s,
        healthy_.gradients_s, healthy_.exposed_s);
    std::vector<TextRow> text = {{"strategy", "iteration s", "overhead %", "most %", "goodput"}};
    for (const StrategyRow& row : rows_) {
      text.push_back({row.name, in_digits("%.6g", row.iteration_s),
                      in_digits("%.4f", row.mean_overhead()),
                      in_digits("%.4f", row.most_overhead()), in_digits("%.6f", row.goodput)});
    }
    std::printf("%s%u patterns with %.1f failures in the mean; %zu collectives simulated\n",
                layout(text).c_str(), options_.patterns, failures(), times_.simulated());
  }

  json to_json() const {
    const TrainingJob& job = times_.job();
    json document = cluster_json(job.model, job.cluster);
    document.update({{"tensor", job.model.tensor},
                     {"pipeline", job.model.pipeline},
                     {"data", times_.replicas() * (job.cluster.gpus / job.model.tensor)},
                     {"sequence", job.sequence},
                     {"micro_batches", job.micro_batches},
                     {"bucket_bytes", job.bucket_bytes},
                     {"overlap", job.overlap},
                     {"duration_s", options_.duration_hours * 3600},
                     {"mtbf_hours", options_.mtbf_hours},
                     {"repair_hours", options_.repair_hours},
                     {"patterns", options_.patterns},
                     {"seed", options_.seed},
                     {"stall_s", options_.costs.stall_s},
                     {"checkpoint_interval_s", options_.costs.checkpoint_interval_s},
                     {"restart_s", options_.costs.restart_s},
                     {"rebuild_s", options_.costs.rebuild_s},
                     {"failures", failures()},
                     {"compute_s", healthy_.compute_s},
                     {"tensor_s", healthy_.tensor_s},
                     {"pipeline_s", healthy_.pipeline_s},
                     {"gradients_s", healthy_.gradients_s},
                     {"exposed_s", healthy_.exposed_s},
                     {"iteration_s", healthy_.total_s}});
    json strategies = json::object();
    for (const StrategyRow& row : rows_) {
      strategies[row.name] = {{"iteration_s", row.iteration_s},
                              {"overhead_pct", row.mean_overhead()},
                              {"most_overhead_pct", row.most_overhead()},
                              {"goodput", row.goodput}};
    }
    document["strategies"] = std::move(strategies);
    return document;
  }

  std::string draw() const {
    const TrainingJob& job = times_.job();
    const std::string title = "Goodput of " + std::string(job.model.name) + " on " +
                              std::to_string(job.cluster.hosts) + " hosts";
    std::vector<Bar> bars;
    for (const StrategyRow& row : rows_) {
      bars.push_back({row.name, row.goodput, in_digits("%.2f %%", row.goodput * 100)});
    }
    return draw_bars(title, bars);
  }

 private:
  FailureTrace trace_of(uint64_t seed) const {
    const GpuCluster& cluster = times_.job().cluster;
    const double duration_s = options_.duration_hours * 3600;
    if (options_.mtbf_hours <= 0) {
      return fixed_failures(cluster, options_.failures, duration_s, seed);
    }
    return random_failures(cluster, options_.mtbf_hours * 3600, options_.repair_hours * 3600,
                           duration_s, seed);
  }

  Status run_pattern(const FailureTrace& trace) {
    const double part = 1.0 / options_.patterns;
    for (const NicEvent& event : trace.events) failed_ += event.fails ? 1 : 0;
    for (const Strategy strategy : kStrategies) {
      const Result<TraceOutcome> outcome = run_trace(times_, trace, strategy, options_.costs);
      R2CCL_RETURN_IF_ERROR(outcome.status());
      StrategyRow& row = rows_[static_cast<size_t>(strategy)];
      row.goodput += part * outcome.value().goodput;
      row.iteration_s += part * outcome.value().iteration_s;
      row.overheads_pct.push_back(outcome.value().overhead_pct);
    }
    return {};
  }

  double failures() const { return static_cast<double>(failed_) / options_.patterns; }

  std::string parameters_text() const {
    const TrainingJob& job = times_.job();
    char text[500];
    std::snprintf(
        text, sizeof text,
        "tensor %u x pipeline %u x data %u; %u micro-batches of %u tokens; buckets of %s, "
        "%s the backward pass\n%g h; a failure costs r2ccl and balanced %g ms, "
        "checkpoint-restart %g min and %g s, drop %g s",
        job.model.tensor, job.model.pipeline,
        times_.replicas() * (job.cluster.gpus / job.model.tensor), job.micro_batches, job.sequence,
        options_.bucket.c_str(), job.overlap ? "during" : "after", options_.duration_hours,
        options_.costs.stall_s * 1e3, options_.costs.checkpoint_interval_s / 120,
        options_.costs.restart_s, options_.costs.rebuild_s);
    std::string all = text;
    if (options_.mtbf_hours > 0) {
      all += "; a NIC fails after " + in_digits("%g", options_.mtbf_hours) +
             " h in the mean, for " + in_digits("%g", options_.repair_hours) + " h";
    }
    return all;
  }

  const TrainingOptions options_;
  TrainingTimes times_;
  Iteration healthy_;
  std::vector<StrategyRow> rows_;
  uint64_t failed_ = 0;
};

int run(TrainingOptions options) {
  const auto failed = [](const Status& status) { return report_error("sim training", status); };
  for (const auto& [option, path] :
       {std::pair<const char*, const std::string&>("--json", options.hosts.json_path),
        {"--svg", options.svg_path}}) {
    if (const Status can = check_writable(option, path); !can.ok()) return failed(can);
  }
  options.costs.stall_s = options.stall_ms / 1e3;
  options.costs.checkpoint_interval_s = options.checkpoint_minutes * 60;
  const Result<TrainingJob> job = training_job_of(options);
  if (!job.ok()) return failed(job.status());
  if (const Status good = check_failures(options); !good.ok()) return failed(good);
  TrainingSimulation simulation(options, job.value());
  if (const Status done = simulation.run(); !done.ok()) return failed(done);
  const std::string& json_path = options.hosts.json_path;
  if (json_path != "-") simulation.print();
  Status written;
  if (!json_path.empty()) written = write_text(json_path, simulation.to_json().dump(1) + "\n");
  if (written.ok() && !options.svg_path.empty()) {
    written = write_text(options.svg_path, simulation.draw());
  }
  return written.ok() ? 0 : failed(written);
}

void add_job_options(CLI::App* command, TrainingOptions& o) {
  command->add_option("--pipeline", o.pipeline,
                      "Hosts of a pipeline (default: 1; 70b 2, 175b 8, and at most all)");
  command->add_option("--sequence", o.job.sequence, "Tokens of a micro-batch")
      ->capture_default_str();
  command->add_option("--micro-batches", o.job.micro_batches, "Of an iteration, per pipeline")
      ->capture_default_str();
  command->add_option("--bucket", o.bucket, "Gradients of a host in an AllReduce, at most")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_flag("--no-overlap", o.no_overlap, "Gradients wait for the whole backward pass");
}

void add_failure_options(CLI::App* command, TrainingOptions& o) {
  CLI::Option* const failures =
      command->add_option("--failures", o.failures, "NICs that fail at the begin, for good")
          ->capture_default_str();
  CLI::Option* const mtbf =
      command
          ->add_option("--mtbf-hours", o.mtbf_hours,
                       "Instead, each NIC fails at random after so many hours in the mean")
          ->check(CLI::Range(0.001, 1e9))
          ->excludes(failures);
  command->add_option("--repair-hours", o.repair_hours, "and is repaired after these")
      ->capture_default_str()
      ->needs(mtbf);
  command->add_option("--duration-hours", o.duration_hours, "Length of the job")
      ->capture_default_str();
  command->add_option("--patterns", o.patterns, "Random patterns of failures")
      ->capture_default_str();
  command->add_option("--seed", o.seed, "Seed of the first one")
      ->check(CLI::Range(int64_t{0}, INT64_MAX))
      ->capture_default_str();
  command->add_option("--stall-ms", o.stall_ms, "A failure's cost to r2ccl and balanced")
      ->capture_default_str();
  command
      ->add_option("--checkpoint-minutes", o.checkpoint_minutes,
                   "Between checkpoints; a restart loses half of it")
      ->capture_default_str();
  command->add_option("--restart-s", o.costs.restart_s, "A restart from a checkpoint")
      ->capture_default_str();
  command
      ->add_option("--rebuild-s", o.costs.rebuild_s,
                   "To drop a host's replicas, and to take them back")
      ->capture_default_str();
}

}  // namespace

Result<TrainingJob> training_job_of(const TrainingOptions& options) {
  const Result<ModelShape> model = model_named(options.hosts.model);
  R2CCL_RETURN_IF_ERROR(model.status().with_context("--model"));
  const Result<GpuCluster> cluster = cluster_of(options.hosts);
  R2CCL_RETURN_IF_ERROR(cluster.status());
  TrainingJob job = options.job;
  job.model = model.value();
  job.cluster = cluster.value();
  job.overlap = !options.no_overlap;
  job.model.pipeline = std::min(job.model.pipeline, job.cluster.hosts);
  if (options.pipeline < 0) {
    return Status{Code::invalid_argument, "--pipeline: write the hosts of a pipeline, 1 or more"};
  }
  if (options.pipeline != 0) job.model.pipeline = static_cast<uint32_t>(options.pipeline);
  const std::optional<uint64_t> bucket = parse_bytes(options.bucket);
  if (!bucket || *bucket < kBucketBytesMin) {
    return Status{Code::invalid_argument,
                  "--bucket: '" + options.bucket + "' is no size from 1M, as 256M"};
  }
  job.bucket_bytes = *bucket;
  R2CCL_RETURN_IF_ERROR(check_job(job));
  return job;
}

Status check_failures(const TrainingOptions& options) {
  const auto bad = [](const char* what) { return Status{Code::invalid_argument, what}; };
  const auto is_time = [](double value) { return std::isfinite(value) && value >= 0; };
  const sim::GpuCluster& cluster = options.hosts.cluster;
  if (options.failures > uint64_t{cluster.hosts} * cluster.nics) {
    return bad("--failures: the hosts have fewer NICs");
  }
  if (!is_time(options.mtbf_hours)) return bad("--mtbf-hours: write a number of hours");
  if (!is_time(options.repair_hours)) return bad("--repair-hours: write a number of hours");
  if (!is_time(options.duration_hours) || options.duration_hours <= 0) {
    return bad("--duration-hours: write a number of hours above 0");
  }
  if (options.mtbf_hours > 0 && options.duration_hours / options.mtbf_hours > kFailuresOfNicMax) {
    return bad("--mtbf-hours: a NIC would fail more than 1000 times");
  }
  if (options.patterns == 0 || options.patterns > kPatternsMax) {
    return bad("--patterns: write 1 to 1000000");
  }
  return check_costs({{"--stall-ms", options.stall_ms / 1e3},
                      {"--checkpoint-minutes", options.checkpoint_minutes * 60},
                      {"--restart-s", options.costs.restart_s},
                      {"--rebuild-s", options.costs.rebuild_s}});
}

void add_sim_training(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand(
      "training", "The goodput of a training job whose NICs fail, by several strategies");
  auto options = std::make_shared<TrainingOptions>();
  add_cluster_options(command, options->hosts);
  add_job_options(command, *options);
  add_failure_options(command, *options);
  command->add_option("--svg", options->svg_path, "Draw the goodputs into this file")
      ->type_name("FILE");
  command->footer(
      "Simulates the AllReduces of gradients by `sim plan`, and computes the rest.\n"
      "docs/simulation.md has the model.\n\n"
      "Exit status: 0; 2 on an error.");
  command->callback([options, action] { *action = [options] { return run(*options); }; });
}

}  // namespace r2ccl::tools
