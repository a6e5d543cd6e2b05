// `r2ccl status --prometheus`: prints the metrics of this host's ranks, or keeps a file of them for
// the textfile collector of Prometheus's node exporter.
#pragma once

#include <cstdint>
#include <string>

namespace r2ccl::tools {

struct MetricsOptions {
  uint32_t pid = 0;        // 0: any
  std::string comm;        // the beginning of its id
  std::string output;      // empty: standard output
  bool repeating = false;  // needs `output`
  double interval_s = 0;
};

// Returns the exit status. A repeating run never returns: it goes on when a job ends, and when the
// file cannot be written for a while.
int run_metrics(const MetricsOptions& options);

}  // namespace r2ccl::tools
