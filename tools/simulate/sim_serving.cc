#include "tools/simulate/sim_serving.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tools/common/output_file.h"
#include "tools/common/text_table.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

constexpr const char* kServingNames[] = {"no failure", "r2ccl", "balanced", "restart", "replicate"};

class ServingSimulation {
 public:
  ServingSimulation(const ServingJob& job, const ServingCosts& costs)
      : costs_(costs), times_(job) {}

  Status run() {
    for (const ServingStrategy strategy : kServingStrategies) {
      const Result<ServingOutcome> outcome = times_.run(strategy, costs_);
      R2CCL_RETURN_IF_ERROR(outcome.status());
      outcomes_.push_back(outcome.value());
    }
    return time_passes();
  }

  void print() const {
    const ServingJob& job = times_.job();
    std::printf(
        "%s%u tokens of prompt, %u of output, batches of %u; %g requests/s for %g s, seed %llu\n"
        "host 0 loses %u NICs at %g s: r2ccl and balanced stall for %g ms; restart takes %g s; "
        "replicate takes %g s and replays %u tokens a request\n\n",
        cluster_text(job.model, job.cluster).c_str(), job.prompt, job.output, job.batch,
        job.requests_per_s, job.duration_s, static_cast<unsigned long long>(job.seed), job.failed,
        job.failure_at_s, costs_.stall_s * 1e3, costs_.restart_s, costs_.takeover_s,
        costs_.replayed_tokens);
    std::vector<TextRow> text = {{"strategy", "token p50 ms", "p99 ms", "most ms",
                                  "first token p99 ms", "mean token ms", "overhead %"}};
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      const ServingOutcome& each = outcomes_[i];
      const auto ms = [](double seconds) { return in_digits("%.3f", seconds * 1e3); };
      text.push_back({kServingNames[i], ms(each.token_p50_s), ms(each.token_p99_s),
                      ms(each.token_max_s), ms(each.first_p99_s), ms(each.mean_token_s),
                      in_digits("%.3f", overhead_pct(each))});
    }
    std::printf("%s\n", layout(text).c_str());
    for (const Pass& pass : passes_) {
      std::printf("%-28s %.4f ms, with the NICs lost %.4f (%+.2f %%)\n", pass.name,
                  pass.whole_s * 1e3, pass.hurt_s * 1e3, (pass.hurt_s / pass.whole_s - 1) * 100);
    }
  }

  json to_json() const {
    const ServingJob& job = times_.job();
    json document = cluster_json(job.model, job.cluster);
    document.update({{"memory_bytes_per_s", job.cluster.memory_rate},
                     {"prompt", job.prompt},
                     {"output", job.output},
                     {"batch", job.batch},
                     {"requests_per_s", job.requests_per_s},
                     {"duration_s", job.duration_s},
                     {"failure_at_s", job.failure_at_s},
                     {"failures", job.failed},
                     {"seed", job.seed},
                     {"stall_s", costs_.stall_s},
                     {"restart_s", costs_.restart_s},
                     {"takeover_s", costs_.takeover_s},
                     {"replayed_tokens", costs_.replayed_tokens},
                     {"tokens", outcomes_[0].tokens}});
    json strategies = json::object();
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      const ServingOutcome& each = outcomes_[i];
      strategies[kServingNames[i]] = {
          {"token_p50_s", each.token_p50_s},   {"token_p99_s", each.token_p99_s},
          {"token_max_s", each.token_max_s},   {"first_p99_s", each.first_p99_s},
          {"mean_token_s", each.mean_token_s}, {"overhead_pct", overhead_pct(each)}};
    }
    document["strategies"] = std::move(strategies);
    json passes = json::object();
    for (const Pass& pass : passes_) {
      passes[pass.name] = {{"healthy_s", pass.whole_s}, {"failed_s", pass.hurt_s}};
    }
    document["passes"] = std::move(passes);
    return document;
  }

  std::string draw() const {
    double most = 0;
    for (const ServingOutcome& each : outcomes_) most = std::max(most, each.mean_token_s);
    std::vector<Bar> bars;
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      const double mean = outcomes_[i].mean_token_s;
      bars.push_back({kServingNames[i], mean / most, in_digits("%.3f ms", mean * 1e3)});
    }
    return draw_bars("Mean time of a token, from arrival to end", bars);
  }

 private:
  struct Pass {
    const char* name = "";
    double whole_s = 0;
    double hurt_s = 0;
  };

  // Times the two kinds of passes alone.
  Status time_passes() {
    const ServingJob& job = times_.job();
    LiveNics live(job.cluster.hosts, job.cluster.nics);
    LiveNics hurt = live;
    hurt[0] -= job.failed;
    for (const auto& [name, tokens] : {std::pair<const char*, uint32_t>("prefill", job.prompt),
                                       {"decode of a full batch", job.batch},
                                       {"decode of one request", 1}}) {
      const Result<double> whole = times_.pass(tokens, live, PlanFor::healthy);
      R2CCL_RETURN_IF_ERROR(whole.status());
      const Result<double> slow = times_.pass(tokens, hurt, PlanFor::view);
      R2CCL_RETURN_IF_ERROR(slow.status());
      passes_.push_back({name, whole.value(), slow.value()});
    }
    return {};
  }

  double overhead_pct(const ServingOutcome& outcome) const {
    const double base = outcomes_[0].mean_token_s;
    return base > 0 ? (outcome.mean_token_s / base - 1) * 100 : 0;
  }

  const ServingCosts costs_;
  ServingTimes times_;
  std::vector<ServingOutcome> outcomes_;
  std::vector<Pass> passes_;
};

int run(const ServingOptions& options) {
  const auto failed = [](const Status& status) { return report_error("sim serving", status); };
  const std::string& json_path = options.hosts.json_path;
  for (const auto& [option, path] :
       {std::pair<const char*, const std::string&>("--json", json_path),
        {"--svg", options.svg_path}}) {
    if (const Status can = check_writable(option, path); !can.ok()) return failed(can);
  }
  const Result<ServingJob> job = serving_job_of(options);
  if (!job.ok()) return failed(job.status());
  ServingCosts costs = options.costs;
  costs.stall_s = options.stall_ms / 1e3;
  ServingSimulation simulation(job.value(), costs);
  if (const Status done = simulation.run(); !done.ok()) return failed(done);
  if (json_path != "-") simulation.print();
  Status written;
  if (!json_path.empty()) written = write_text(json_path, simulation.to_json().dump(1) + "\n");
  if (written.ok() && !options.svg_path.empty()) {
    written = write_text(options.svg_path, simulation.draw());
  }
  return written.ok() ? 0 : failed(written);
}

void add_serving_options(CLI::App* command, ServingOptions& o) {
  const auto add = [command](const char* name, auto& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str();
  };
  add("--prompt", o.job.prompt, "Tokens of each request");
  add("--output", o.job.output, "Tokens of each answer");
  add("--batch", o.job.batch, "Requests at a time");
  add("--requests", o.job.requests_per_s, "Requests that arrive in a second, in the mean");
  add("--duration-s", o.job.duration_s, "Time in which they arrive");
  command->add_option("--seed", o.job.seed, "Seed of their times")
      ->check(CLI::Range(int64_t{0}, INT64_MAX))
      ->capture_default_str();
  add("--failures", o.job.failed, "NICs that host 0 loses");
  command->add_option("--fail-at-s", o.fail_at_s, "at this time (default: half of the duration)")
      ->check(CLI::Range(0.0, 1e9));
  add("--stall-ms", o.stall_ms, "A failure's cost to r2ccl and balanced");
  add("--restart-s", o.costs.restart_s, "To start again on spare hosts");
  add("--takeover-s", o.costs.takeover_s, "Until spare hosts have the replicas, as with DejaVu");
  add("--replayed-tokens", o.costs.replayed_tokens, "Tokens of each request that they make anew");
}

}  // namespace

Result<ServingJob> serving_job_of(const ServingOptions& options) {
  const Result<ModelShape> model = model_named(options.hosts.model);
  R2CCL_RETURN_IF_ERROR(model.status().with_context("--model"));
  const Result<GpuCluster> cluster = cluster_of(options.hosts);
  R2CCL_RETURN_IF_ERROR(cluster.status());
  ServingJob job = options.job;
  job.model = model.value();
  job.cluster = cluster.value();
  job.failure_at_s = options.fail_at_s < 0 ? job.duration_s / 2 : options.fail_at_s;
  R2CCL_RETURN_IF_ERROR(check_job(job));
  R2CCL_RETURN_IF_ERROR(check_costs({{"--stall-ms", options.stall_ms / 1e3},
                                     {"--restart-s", options.costs.restart_s},
                                     {"--takeover-s", options.costs.takeover_s}}));
  return job;
}

void add_sim_serving(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand(
      "serving", "The latency of a language model's tokens when NICs fail, by several strategies");
  auto options = std::make_shared<ServingOptions>();
  add_cluster_options(command, options->hosts);
  add_serving_options(command, *options);
  command->add_option("--svg", options->svg_path, "Draw the mean times into this file")
      ->type_name("FILE");
  command->footer(
      "Tensor parallel over all GPUs. The latency of a token is the time since the previous one "
      "of\n"
      "its request; `mean token` is the time from arrival to end, for each token.\n"
      "docs/simulation.md has the model.\n\n"
      "Exit status: 0; 2 on an error.");
  command->callback([options, action] { *action = [options] { return run(*options); }; });
}

}  // namespace r2ccl::tools
