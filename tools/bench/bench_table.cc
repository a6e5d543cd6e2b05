// The table of nccl-tests: same columns, same widths, same comment lines. Rates are in GB/s (10^9
// bytes/s) with more digits than nccl-tests prints, because a network here may be a hundred times
// slower.
#include <algorithm>
#include <cstdio>

#include "tools/bench/bench_result.h"

namespace r2ccl::tools {
namespace {

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char line[256];
  std::snprintf(line, sizeof line, pattern, args...);
  return line;
}

std::string rate_text(double bytes_per_s) {
  double gigabytes = bytes_per_s / 1e9;
  return format(gigabytes < 10 ? "%6.4f" : "%6.2f", gigabytes);
}

std::string time_text(double us) {
  if (us >= 10000) return format("%7.0f", us);
  return format(us >= 100 ? "%7.1f" : "%7.2f", us);
}

}  // namespace

std::string table_header(const BenchOptions& options, int ranks) {
  const uint64_t first = options.sizes.front();
  const std::string step = options.step_bytes.empty() || options.step_factor
                               ? std::to_string(options.step_factor.value_or(2)) + "(factor)"
                               : options.step_bytes + "(bytes)";
  std::string text = format(
      "# r2ccl bench: %s, %d ranks, minBytes %llu maxBytes %llu step: %s warmup iters: %d "
      "iters: %d validation: %d\n",
      options.collective_name.c_str(), ranks, static_cast<unsigned long long>(first),
      static_cast<unsigned long long>(std::max(first, options.bytes_last)), step.c_str(),
      options.warmup, options.iterations, options.check ? 1 : 0);
  for (const uint64_t bytes : options.sizes) {
    const uint64_t whole = whole_bytes(options, bytes, ranks);
    if (whole == bytes) continue;
    text += format("# %llu bytes are rounded up to %llu: whole elements of %s%s\n",
                   static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(whole),
                   options.type_name.c_str(),
                   has_blocks(options.collective) ? ", equal parts for all ranks" : "");
  }
  text += "#\n";
  text +=
      "#                                                              out-of-place               "
      "        in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
      "(us)  (GB/s)  (GB/s)       \n";
  return text;
}

std::string table_row_start(const BenchOptions& options, const BenchRun& run) {
  return format("%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(run.bytes),
                static_cast<unsigned long long>(run.count), options.type_name.c_str(),
                reduces(options.collective) ? options.redop_name.c_str() : "none",
                is_rooted(options.collective) ? options.root : -1);
}

std::string table_row_part(const BenchOptions& options, int ranks, const BenchRun* run) {
  if (run == nullptr) return format("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
  Bandwidth rate = bandwidth(options, ranks, *run);
  std::string wrong = options.check ? std::to_string(run->wrong_elements) : std::string("N/A");
  return "  " + time_text(run->time_us()) + "  " + rate_text(rate.algorithm) + "  " +
         rate_text(rate.bus) + format("  %5s", wrong.c_str());
}

std::string table_footer(const BenchOptions& options, int ranks,
                         const std::vector<BenchRun>& runs) {
  uint64_t wrong = 0;
  double sum = 0;
  for (const BenchRun& run : runs) {
    wrong += run.wrong_elements;
    sum += bandwidth(options, ranks, run).bus / 1e9;
  }
  std::string text = "# Out of bounds values : not checked\n";
  if (options.check) {
    text = format("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong),
                  wrong == 0 ? "OK" : "FAILED");
  }
  text += format("# Avg bus bandwidth    : %g \n#\n",
                 runs.empty() ? 0 : sum / static_cast<double>(runs.size()));
  return text;
}

}  // namespace r2ccl::tools
