#include "tools/simulate/sim_plan_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/common/svg.h"

namespace r2ccl::tools {
namespace {

constexpr size_t kHostsShown = 64;
constexpr double kPartWidth = 5;
constexpr double kLeftEdge = 90;
constexpr double kTopEdge = 60;
constexpr double kRowHeight = 9;
constexpr double kLeastShown = 0.005;

// Returns white for nothing and dark blue for everything.
std::string shade(double share) {
  const auto channel = [share](double full) {
    return static_cast<int>(std::lround(255 - share * (255 - full)));
  };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", channel(12), channel(60), channel(120));
  return text;
}

void draw_row(Svg& svg, const UsageRecorder::Parts& bytes, double most, double top) {
  for (size_t part = 0; part < bytes.size();) {
    // Neighbours of the same shade are one shape.
    const std::string fill = shade(std::clamp(bytes[part] / most, 0.0, 1.0));
    size_t end = part + 1;
    while (end < bytes.size() && shade(std::clamp(bytes[end] / most, 0.0, 1.0)) == fill) ++end;
    if (bytes[part] / most > kLeastShown) {
      svg.rect({kLeftEdge + kPartWidth * static_cast<double>(part), top},
               kPartWidth * static_cast<double>(end - part), kRowHeight - 1, fill);
    }
    part = end;
  }
}

}  // namespace

UsageRecorder::UsageRecorder(size_t hosts, double time_s)
    : time_s_(time_s), sent_(hosts, Parts(kParts)), received_(hosts, Parts(kParts)) {}

void UsageRecorder::carried(uint32_t from_host, uint32_t to_host, double begin_s, double end_s,
                            double bytes) {
  const double width = time_s_ / kParts;
  auto part = static_cast<size_t>(begin_s / width);
  for (; part < kParts && static_cast<double>(part) * width < end_s; ++part) {
    const double from = std::max(begin_s, static_cast<double>(part) * width);
    const double until = std::min(end_s, static_cast<double>(part + 1) * width);
    const double share = bytes * std::max(until - from, 0.0) / (end_s - begin_s);
    sent_[from_host][part] += share;
    received_[to_host][part] += share;
  }
}

std::string draw_usage(const UsageRecorder& usage, double host_rate, const std::string& title) {
  const size_t hosts = std::min(usage.sent().size(), kHostsShown);
  const double bottom = kTopEdge + static_cast<double>(hosts) * 2 * (kRowHeight + 1);
  const double right = kLeftEdge + kPartWidth * static_cast<double>(UsageRecorder::kParts);
  Svg svg(right + 20, bottom + 40, title);
  svg.text({kLeftEdge, 24}, title, {.size = 15, .bold = true});
  std::string legend = "bandwidth in use: white none, dark all of a whole host; ";
  legend += "upper row sending, lower row receiving";
  if (hosts < usage.sent().size()) legend += "; the first " + std::to_string(hosts) + " hosts";
  svg.text({kLeftEdge, 42}, legend, {.size = 11});
  const double most = host_rate * usage.time_s() / static_cast<double>(UsageRecorder::kParts);
  for (size_t host = 0; host < hosts; ++host) {
    const double top = kTopEdge + static_cast<double>(host) * 2 * (kRowHeight + 1);
    svg.text({kLeftEdge - 8, top + kRowHeight + 3}, "host " + std::to_string(host),
             {.size = 10, .anchor = Anchor::end});
    draw_row(svg, usage.sent()[host], most, top);
    draw_row(svg, usage.received()[host], most, top + kRowHeight);
    svg.line({kLeftEdge, top + 2 * kRowHeight + 1}, {right, top + 2 * kRowHeight + 1}, "#eeeeee");
  }
  const double step = round_step(std::max(usage.time_s() * 1e3, 1e-9), 10);
  for (double at = 0; at <= usage.time_s() * 1e3 * (1 + 1e-9); at += step) {
    const double x = kLeftEdge + (right - kLeftEdge) * at / (usage.time_s() * 1e3);
    char text[32];
    std::snprintf(text, sizeof text, "%g ms", at);
    svg.line({x, kTopEdge}, {x, bottom}, "#dddddd");
    svg.text({x, bottom + 14}, text, {.size = 10, .anchor = Anchor::middle});
  }
  return svg.finish();
}

}  // namespace r2ccl::tools
