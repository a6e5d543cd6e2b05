#include "tools/common/metrics_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace r2ccl::tools {
namespace {

std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text + '"';
}

bool is_counter(const MetricFamily& family) {
  return std::string_view(family.name).ends_with("_total");
}

std::string sample_text(double value) {
  char digits[40];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  return {digits, end};
}

}  // namespace

MetricsText::MetricsText(std::span<const MetricFamily> families)
    : families_(families), samples_(families.size()) {}

void MetricsText::add(std::string_view family, const MetricLabels& labels, double value) {
  const auto found = std::ranges::find(families_, family, &MetricFamily::name);
  R2CCL_CHECK(found != families_.end());
  if (!std::isfinite(value) || (is_counter(*found) && value < 0)) return;
  std::string series(family);
  for (size_t i = 0; i < labels.size(); ++i) {
    series += (i == 0 ? "{" : ",") + std::string(labels[i].first) + "=" + quoted(labels[i].second);
  }
  if (!labels.empty()) series += "}";
  if (!series_.insert(series).second) return;
  samples_[static_cast<size_t>(found - families_.begin())] +=
      series + " " + sample_text(value) + "\n";
}

std::string MetricsText::text() const {
  std::string text;
  for (size_t i = 0; i < families_.size(); ++i) {
    if (samples_[i].empty()) continue;
    const std::string name = families_[i].name;
    text += "# HELP " + name + " " + families_[i].help + "\n";
    text += "# TYPE " + name + (is_counter(families_[i]) ? " counter\n" : " gauge\n");
    text += samples_[i];
  }
  return text;
}

}  // namespace r2ccl::tools
