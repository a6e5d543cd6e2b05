#include "tools/demo/demo_rate.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "tools/bench/bench_command.h"
#include "tools/common/command.h"
#include "tools/common/rank_group.h"

namespace r2ccl::tools {
namespace {

// Below the last one the frames of r2ccl itself take a part of the line that one sees.
constexpr std::array kRates = {250.0, 200.0, 150.0, 100.0, 75.0, 50.0, 40.0, 30.0, 25.0, 20.0};
// A job whose processor has time to spare reaches 95 % of its line; the rest is headers. At a lower
// rate the processor is known to be busy, and each turn of it delays an operation.
constexpr double kLineShare = 0.85, kLineShareLower = 0.7;
// The rate that a processor drives varies with the other work of the machine, and a byte costs more
// at a lower rate.
constexpr double kHeadroom = 0.45;
constexpr double kProbeSeconds = 2;
constexpr double kProbeLimitS = 60;  // with the start of the ranks
constexpr int kProbesMax = 3;
constexpr int kWaitMs = 100;

std::string plain(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Returns the output of a rank that failed.
std::string whole_file(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a short job on the stage. Returns the share of the line that it reached.
Result<double> measure_share(const DemoOptions& options, const DemoStage& stage,
                             const std::string& folder) {
  BenchOptions bench;
  bench.bytes_min = options.bytes;
  bench.duration_s = kProbeSeconds;
  bench.op_log_file = folder + "/probe";
  R2CCL_RETURN_IF_ERROR(resolve(&bench));
  const std::string output = folder + "/probe.output";
  RankGroup ranks;
  for (int host = 0; host < options.hosts; ++host) {
    R2CCL_RETURN_IF_ERROR(ranks.start("", [&] {
      const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) return kExitError;
      return stage.run_rank(host, [&] { return run_bench_rank(bench); });
    }));
  }
  const SystemClock clock;
  const TimeNs end = clock.now() + static_cast<TimeNs>(kProbeLimitS * 1e9);
  while (ranks.attend_for(kWaitMs)) {
    if (ranks.interrupted()) return Status(Code::aborted, "interrupted");
    if (clock.now() < end) continue;
    ranks.signal_all(SIGKILL);
    return Status(Code::timeout, "the job that measures this machine did not end within " +
                                     plain(kProbeLimitS) + " s:\n" + whole_file(output));
  }
  if (ranks.worst_status() != 0) {
    return Status(Code::remote,
                  "the job that measures this machine failed:\n" + whole_file(output));
  }
  const double line = options.rate_mbit * 1e6 / 8 * options.nics;
  return logged_rate(bench.op_log_file, bus_factor(Collective::all_reduce, options.hosts)) / line;
}

std::string reason_of(double rate_mbit, double first_share) {
  if (rate_mbit == kDemoRateMbit) {
    return "This machine drives NICs of " + plain(kDemoRateMbit) +
           " Mbit/s, so the network is the limit.";
  }
  char share[16];
  std::snprintf(share, sizeof share, "%.0f %%", first_share * 100);
  return "At " + plain(kDemoRateMbit) + " Mbit/s the processor was the limit, with " + share +
         " of the line, so the NICs have " + plain(rate_mbit) + " Mbit/s.";
}

}  // namespace

std::optional<double> lower_demo_rate(double rate_mbit, double share) {
  const double enough = rate_mbit >= kDemoRateMbit ? kLineShare : kLineShareLower;
  if (share >= enough || rate_mbit <= kRates.back()) return std::nullopt;
  const double bound = std::max(rate_mbit * share * kHeadroom, kRates.back());
  for (const double rate : kRates) {
    if (rate <= bound) return rate;
  }
  return kRates.back();
}

std::string demo_bytes(double rate_mbit) {
  constexpr uint64_t kKilobyte = 1024;
  const double exact = kDemoBytes * rate_mbit / kDemoRateMbit;
  uint64_t bytes = kDemoBytes;
  while (bytes > 64 * kKilobyte && static_cast<double>(bytes) > 1.4 * exact) bytes /= 2;
  const bool megabytes = bytes >= kKilobyte * kKilobyte;
  return megabytes ? std::to_string(bytes / kKilobyte / kKilobyte) + "M"
                   : std::to_string(bytes / kKilobyte) + "K";
}

double logged_rate(const std::string& op_log_file, double factor) {
  std::ifstream in(op_log_file);
  std::string line;
  double sum = 0, first = -1, last = 0;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    double operation = 0, bytes = 0, begin = 0, since = 0, micros = 0;
    if (!(words >> operation >> bytes >> begin >> since >> micros)) continue;
    if (first < 0) first = begin;
    last = begin + micros / 1e6;
    sum += bytes * factor;
  }
  return last > first && first >= 0 ? sum / (last - first) : 0;
}

Result<DemoPlace> find_demo_place(const DemoOptions& options, const MakeStage& make,
                                  const std::string& folder) {
  DemoPlace place{options, nullptr, ""};
  const bool chosen_size = !options.bytes.empty();
  if (options.rate_mbit > 0 && !chosen_size) place.options.bytes = demo_bytes(options.rate_mbit);
  if (options.rate_mbit == 0) place.options.rate_mbit = kDemoRateMbit;
  double first_share = 1;
  for (int probe = 0;; ++probe) {
    if (!chosen_size) place.options.bytes = demo_bytes(place.options.rate_mbit);
    place.stage = nullptr;  // the name of the lab is free again
    Result<std::unique_ptr<DemoStage>> stage = make(place.options);
    if (!stage.ok()) return stage.status();
    place.stage = std::move(stage).value();
    if (options.rate_mbit > 0) return place;
    if (probe == kProbesMax) break;
    const Result<double> share = measure_share(place.options, *place.stage, folder);
    if (!share.ok()) return share.status();
    if (probe == 0) first_share = share.value();
    const std::optional<double> lower = lower_demo_rate(place.options.rate_mbit, share.value());
    if (!lower) break;
    place.options.rate_mbit = *lower;
  }
  place.reason = reason_of(place.options.rate_mbit, first_share);
  return place;
}

}  // namespace r2ccl::tools
