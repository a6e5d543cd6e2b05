// Metrics in Prometheus's text exposition format, version 0.0.4. A scraper refuses a text as a
// whole when one series appears twice or one label is not quoted right, so this class lets neither
// happen, whatever the values are.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace r2ccl::tools {

struct MetricFamily {
  const char* name;  // a counter's ends with _total; the others are gauges
  const char* help;
};

using MetricLabels = std::vector<std::pair<const char*, std::string>>;

class MetricsText {
 public:
  // Requires that the families outlive this.
  explicit MetricsText(std::span<const MetricFamily> families);

  // Adds a sample of the family with this name. Leaves it out if its series is there already, or
  // the value is not finite or, of a counter, negative.
  void add(std::string_view family, const MetricLabels& labels, double value);
  // Returns all families that have samples, in the order of the families.
  std::string text() const;

 private:
  std::span<const MetricFamily> families_;
  std::vector<std::string> samples_;  // by family
  std::set<std::string> series_;
};

}  // namespace r2ccl::tools
