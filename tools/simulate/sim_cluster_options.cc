#include "tools/simulate/sim_cluster_options.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "sim/fluid/fluid_network.h"
#include "tools/common/parse.h"
#include "tools/common/svg.h"

namespace r2ccl::tools {

using namespace sim;

void add_cluster_options(CLI::App* command, ClusterOptions& o) {
  command->add_option("--model", o.model, "7b, 13b, 70b or 175b")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--hosts", o.cluster.hosts, "Hosts")->capture_default_str();
  command->add_option("--gpus", o.cluster.gpus, "GPUs of each host")->capture_default_str();
  command->add_option("--nics", o.cluster.nics, "NICs of each host")->capture_default_str();
  command->add_option("--nic-rate", o.nic_rate, "Bits a second of a NIC, each way")
      ->type_name("RATE")
      ->capture_default_str();
  command->add_option("--latency-us", o.latency_us, "One way between hosts")
      ->type_name("US")
      ->capture_default_str();
  command->add_option("--intra-rate", o.intra_rate, "Bits a second of a GPU in its host, each way")
      ->type_name("RATE")
      ->capture_default_str();
  command->add_option("--teraflops", o.teraflops, "Peak rate of a GPU, 10^12 operations a second")
      ->capture_default_str();
  command->add_option("--efficiency", o.cluster.efficiency, "The part of it that a model gets")
      ->capture_default_str();
  command->add_option("--json", o.json_path, "Write the result into this file; - prints it")
      ->type_name("FILE");
}

Status check_costs(const std::vector<std::pair<const char*, double>>& costs) {
  constexpr double kSecondsMax = 1e9;
  for (const auto& [option, seconds] : costs) {
    if (seconds >= 0 && seconds <= kSecondsMax) continue;
    return {Code::invalid_argument, std::string(option) + ": write a time from 0 to 10^9 seconds"};
  }
  return {};
}

Result<GpuCluster> cluster_of(const ClusterOptions& options) {
  GpuCluster cluster = options.cluster;
  for (const auto& [name, text, rate] :
       {std::tuple<const char*, const std::string&, double*>("--nic-rate", options.nic_rate,
                                                             &cluster.nic_rate),
        {"--intra-rate", options.intra_rate, &cluster.intra_rate}}) {
    const std::optional<double> bits = parse_bit_rate(text);
    if (!bits || *bits <= 0) {
      return Status{Code::invalid_argument,
                    std::string(name) + ": '" + text + "' is no rate, as 400G"};
    }
    *rate = *bits / 8;
  }
  cluster.latency_s = options.latency_us / 1e6;
  cluster.gpu_flops = options.teraflops * 1e12;
  R2CCL_RETURN_IF_ERROR(check_gpu_cluster(cluster));
  return cluster;
}

nlohmann::json cluster_json(const ModelShape& model, const GpuCluster& cluster) {
  return {{"model", model.name},
          {"parameters", model.parameters},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"hosts", cluster.hosts},
          {"gpus", cluster.gpus},
          {"nics", cluster.nics},
          {"nic_bits_per_s", cluster.nic_rate * 8},
          {"latency_us", cluster.latency_s * 1e6},
          {"intra_bits_per_s", cluster.intra_rate * 8},
          {"intra_latency_us", cluster.intra_latency_s * 1e6},
          {"gpu_flops", cluster.gpu_flops},
          {"efficiency", cluster.efficiency}};
}

std::string cluster_text(const ModelShape& model, const GpuCluster& cluster) {
  char text[300];
  std::snprintf(text, sizeof text,
                "%s: %g parameters, %u layers of %u\n"
                "%u hosts x %u GPUs of %g Tflop/s at %g %%, %u NICs of %g Gbit/s, %g us; within a "
                "host %g Gbit/s, %g us\n",
                std::string(model.name).c_str(), model.parameters, model.layers, model.hidden,
                cluster.hosts, cluster.gpus, cluster.gpu_flops / 1e12, cluster.efficiency * 100,
                cluster.nics, cluster.nic_rate * 8 / 1e9, cluster.latency_s * 1e6,
                cluster.intra_rate * 8 / 1e9, cluster.intra_latency_s * 1e6);
  return text;
}

std::string in_digits(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string draw_bars(const std::string& title, const std::vector<Bar>& bars) {
  Svg svg(580, 60 + 30.0 * static_cast<double>(bars.size()), title);
  svg.text({20, 28}, title, {.size = 15, .bold = true});
  double top = 48;
  for (const Bar& bar : bars) {
    svg.text({150, top + 15}, bar.name, {.anchor = Anchor::end});
    svg.rect({160, top}, 300, 20, "#eeeeee");
    svg.rect({160, top}, 300 * bar.length, 20, "#0c3c78");
    svg.text({466, top + 15}, bar.value);
    top += 30;
  }
  return svg.finish();
}

}  // namespace r2ccl::tools
