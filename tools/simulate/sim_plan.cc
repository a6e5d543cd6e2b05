#include "tools/simulate/sim_plan.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/analysis/floor.h"
#include "plan/text/plan_words.h"
#include "tools/common/output_file.h"
#include "tools/common/text_table.h"
#include "tools/simulate/sim_cluster_options.h"
#include "tools/simulate/sim_plan_options.h"
#include "tools/simulate/sim_plan_svg.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

using nlohmann::json;

double percent_over(double time_s, double base_s) {
  return base_s > 0 ? (time_s / base_s - 1) * 100 : 0;
}

// Returns the rates of the NICs, each as fast as it ever is in the run.
std::vector<HostRates> greatest_rates(const SimPlan& plan) {
  std::vector<HostRates> rates = plan.fabric.rates;
  for (const RateChange& change : plan.options.changes) {
    NicRate& nic = rates[change.host][change.nic];
    nic.send = std::max(nic.send, change.rate.send);
    nic.receive = std::max(nic.receive, change.rate.receive);
  }
  return rates;
}

// Returns the least time of the call on this network.
double floor_of(const SimPlan& plan) {
  const std::vector<HostRates> rates = greatest_rates(plan);
  PlanKey key = plan.key;
  key.view = View::of(rates).value();
  FloorOptions options;
  options.nics = plan.fabric.nics;
  options.nic_bytes_per_second = plan.fabric.nic_rate;
  if (plan.fabric.kind == FluidFabricKind::rails) options.fabric = FabricKind::rails;
  if (key.view.empty()) {
    // All hosts have lost the same, which no view says.
    uint64_t send = 0;
    uint64_t receive = 0;
    for (const NicRate& nic : rates.front()) {
      send += nic.send;
      receive += nic.receive;
    }
    options.nic_bytes_per_second *=
        static_cast<double>(std::min(send, receive)) / kWholeNic / plan.fabric.nics;
  }
  return floor_seconds(key, options);
}

class PlanSimulation {
 public:
  explicit PlanSimulation(SimPlanOptions options) : options_(std::move(options)) {}

  int run() {
    for (const auto& [option, path] :
         {std::pair<const char*, const std::string&>("--json", options_.json_path),
          {"--svg", options_.svg_path}}) {
      if (const Status can = check_writable(option, path); !can.ok()) return fail(can);
    }
    Result<SimPlan> plan = sim_plan_of(options_);
    if (!plan.ok()) return fail(plan.status());
    plan_ = std::move(plan.value());
    plan_.key.algorithm = choose_algorithm(plan_.key, plan_.limits);
    if (const Status done = simulate(); !done.ok()) return fail(done);
    if (const Status done = simulate_ring(); !done.ok()) return fail(done);
    floor_s_ = floor_of(plan_);
    if (options_.json_path != "-") print();
    if (options_.json_path.empty()) return 0;
    const Status written = write_text(options_.json_path, to_json().dump(1) + "\n");
    return written.ok() ? 0 : fail(written);
  }

 private:
  static int fail(const Status& status) { return report_error("sim plan", status); }

  // Running out of memory is not an error of --memory.
  static Status explained(const Status& status) {
    return status.code() == Code::invalid_argument ? status.with_context("--memory") : status;
  }

  Status simulate() {
    const Result<FluidPlan> plan = FluidPlan::of(plan_.key, plan_.limits, plan_.memory_max);
    R2CCL_RETURN_IF_ERROR(explained(plan.status()));
    Result<FluidTime> time = fluid_time(plan.value(), plan_.key.hosts, plan_.fabric, plan_.options);
    R2CCL_RETURN_IF_ERROR(time.status());
    time_ = std::move(time.value());
    if (options_.svg_path.empty()) return {};
    // The run is the same again, now that its length is known.
    UsageRecorder usage(time_.host_sent.size(), time_.time_s);
    R2CCL_RETURN_IF_ERROR(
        fluid_time(plan.value(), plan_.key.hosts, plan_.fabric, plan_.options, &usage).status());
    return write_text(options_.svg_path,
                      draw_usage(usage, plan_.fabric.nic_rate * plan_.fabric.nics, title()));
  }

  // The yardstick is the ring on the whole network.
  Status simulate_ring() {
    PlanKey key = plan_.key;
    key.algorithm = Algorithm::ring;
    key.view = {};
    FluidFabric fabric = plan_.fabric;
    fabric.rates.clear();
    FluidOptions options = plan_.options;
    options.changes.clear();
    const Result<FluidPlan> plan = FluidPlan::of(key, plan_.limits, plan_.memory_max);
    R2CCL_RETURN_IF_ERROR(explained(plan.status()).with_context("the fault-free ring"));
    const Result<FluidTime> time = fluid_time(plan.value(), key.hosts, fabric, options);
    R2CCL_RETURN_IF_ERROR(time.status());
    ring_s_ = time.value().time_s;
    return {};
  }

  const char* algorithm() const { return word_of(kAlgorithmWords, plan_.key.algorithm); }

  std::string title() const {
    return options_.collective + " by " + algorithm() + ", " + options_.bytes + " on " +
           std::to_string(options_.hosts) + " hosts: " + in_digits("%.6g ms", time_.time_s * 1e3);
  }

  void print() const {
    const auto ms = [](double seconds) { return in_digits("%.6f", seconds * 1e3); };
    const auto over = [&](double seconds) {
      return in_digits("%.2f", percent_over(seconds, ring_s_));
    };
    std::vector<TextRow> rows = {{"", "ms", "% over the fault-free ring"},
                                 {algorithm(), ms(time_.time_s), over(time_.time_s)}};
    // It counts NICs alone, so one host has none.
    if (floor_s_ > 0) rows.push_back({"floor", ms(floor_s_), over(floor_s_)});
    rows.push_back({"fault-free ring", ms(ring_s_), over(ring_s_)});
    std::printf("%s%llu message%s\n", layout(rows).c_str(),
                static_cast<unsigned long long>(time_.messages), time_.messages == 1 ? "" : "s");
  }

  json to_json() const {
    return {{"collective", options_.collective},
            {"algorithm", algorithm()},
            {"fabric", options_.fabric},
            {"hosts", options_.hosts},
            {"ranks_per_host", options_.ranks_per_host},
            {"nics", options_.nics},
            {"nic_bits_per_s", plan_.fabric.nic_rate * 8},
            {"bytes", plan_.key.count * size_of(plan_.key.type)},
            {"latency_us", options_.latency_us},
            {"messages", time_.messages},
            {"time_s", time_.time_s},
            {"floor_s", floor_s_},
            {"faultfree_ring_s", ring_s_},
            {"overhead_pct", percent_over(time_.time_s, ring_s_)},
            {"floor_overhead_pct", percent_over(floor_s_, ring_s_)}};
  }

  const SimPlanOptions options_;
  SimPlan plan_;
  FluidTime time_;
  double floor_s_ = 0;
  double ring_s_ = 0;
};

void add_call_options(CLI::App* command, SimPlanOptions& o) {
  command
      ->add_option("COLLECTIVE", o.collective,
                   "all_reduce, broadcast, barrier, reduce, all_gather, reduce_scatter, gather, "
                   "scatter or all_to_all")
      ->required();
  command
      ->add_option("-b,--bytes", o.bytes,
                   "Bytes of the vector of a rank; of all its blocks where the collective has "
                   "blocks. The elements are float32")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--root", o.root, "Root")->check(CLI::Range(0, kSimRanksMax - 1));
  command
      ->add_option(
          "--algorithm", o.algorithm,
          "An algorithm as `r2ccl plan show` has them; a collective that lacks it takes another "
          "one")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--healthy-plan", o.healthy_plan,
                    "Take the plan of the whole network, which knows of no loss");
  command->add_option("--segment", o.segment, "The most bytes of a message")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_option("--window", o.window,
                   "Messages that a rank has posted with one peer in one direction (default: "
                   "the library's)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--staging", o.staging,
                   "Messages of a rank that wait to be reduced (default: the library's memory for "
                   "them, in segments)")
      ->check(CLI::Range(1, 1 << 20));
}

void add_network_options(CLI::App* command, SimPlanOptions& o) {
  command->add_option("--hosts", o.hosts, "Hosts")->check(CLI::Range(1, kSimRanksMax))->required();
  command->add_option("--ranks-per-host", o.ranks_per_host, "Ranks on each host")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--nics", o.nics, "NICs of each host")
      ->check(CLI::Range(1, static_cast<int>(kFluidNicsMax)))
      ->capture_default_str();
  command
      ->add_option("--nic-rate", o.nic_rate,
                   "Bits a second that a NIC sends, and as many that it receives; K, M, G and T "
                   "are decimal")
      ->type_name("RATE")
      ->capture_default_str();
  command
      ->add_option("--fabric", o.fabric,
                   "flat: any NIC reaches any other one; rails: only equal rails connect; spine: "
                   "rails, and switches above them for the rest")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--oversubscription", o.oversubscription,
                   "Of a spine: the bandwidth of a rail, over that of its uplinks")
      ->type_name("FACTOR")
      ->capture_default_str();
  command->add_option("--latency-us", o.latency_us, "One way between hosts")
      ->type_name("US")
      ->capture_default_str();
  command
      ->add_option("--message-us", o.message_us,
                   "Time that each message takes its sender's processor")
      ->type_name("US")
      ->capture_default_str();
  command
      ->add_option("--intra-rate", o.intra_rate,
                   "Bits a second of each rank within its host, each way")
      ->type_name("RATE")
      ->capture_default_str();
  command->add_option("--intra-latency-us", o.intra_latency_us, "One way within a host")
      ->type_name("US")
      ->capture_default_str();
}

void add_fault_options(CLI::App* command, SimPlanOptions& o) {
  command
      ->add_option("--loss", o.loss,
                   "Percent of its bandwidth that each of the first hosts has lost. Host h loses "
                   "NIC h first, then the next ones")
      ->type_name("PERCENT,PERCENT...");
  command
      ->add_option("--view", o.view,
                   "The rates of all hosts' NICs in 1/1000, as 2x1000/500,1000:250/6*2x1000; "
                   "docs/plans.md has the form")
      ->type_name("RATES");
  command
      ->add_option("--fail", o.failures,
                   "At this time of the run the NIC fails, or has this rate in 1/1000; may be "
                   "given again")
      ->type_name("MS,HOST,NIC[,RATE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--detection-ms", o.detection_ms,
                   "Time until links have noticed that a NIC failed under their messages")
      ->type_name("MS")
      ->capture_default_str();
}

}  // namespace

void add_sim_plan(CLI::App* sim, Action* action) {
  CLI::App* command = sim->add_subcommand(
      "plan", "The time of a collective on a network with slow hosts, against its least time");
  auto options = std::make_shared<SimPlanOptions>();
  add_call_options(command, *options);
  add_network_options(command, *options);
  add_fault_options(command, *options);
  command->add_option("--memory", options->memory, "Refuse plans that take more memory")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--json", options->json_path, "Write the times into this file; - prints them")
      ->type_name("FILE");
  command
      ->add_option("--svg", options->svg_path,
                   "Draw the bandwidth that each host uses, over time, into this file")
      ->type_name("FILE");
  command->footer(
      "Bytes flow at max-min fair rates. The floor counts bytes: no plan is faster. Both are\n"
      "compared with the ring on a network without losses. docs/simulation.md has the model.\n\n"
      "Exit status: 0; 2 on an error.");
  command->callback(
      [options, action] { *action = [options] { return PlanSimulation(*options).run(); }; });
}

}  // namespace r2ccl::tools
