#include "demo_record.h"

#include <algorithm>
#include <array>

#include "svg.h"

namespace r2ccl::tools {
namespace {

constexpr double kWidth = 1200, kHeight = 760, kLeft = 90, kRight = 40;
constexpr std::array<const char*, 8> kNicColours = {"#4e79a7", "#59a14f", "#f28e2b", "#b07aa1",
                                                    "#76b7b2", "#edc948", "#9c755f", "#bab0ac"};
constexpr double kMega = 1e6;

void shade_faults(Svg* svg, const ChartArea& area, const DemoRecord& record, bool label) {
  for (const DemoFault& fault : record.faults) {
    Point from = area.at(fault.start_s, 0), to = area.at(fault.end_s, 0);
    svg->rect({from.x, area.top()}, to.x - from.x, area.bottom() - area.top(), "#e15759", 0.13);
    svg->line({from.x, area.top()}, {from.x, area.bottom()}, "#e15759", 1, "4 3");
    if (!label) continue;
    TextStyle style;
    style.fill = "#b03a3c";
    style.bold = true;
    style.anchor = Anchor::middle;
    svg->text({(from.x + to.x) / 2, area.top() - 8}, fault.label, style);
  }
}

void draw_bus(Svg* svg, const ChartArea& area, const DemoRecord& record) {
  std::vector<Point> line;
  for (const DemoSample& sample : record.samples) {
    line.push_back(area.at(sample.t_s, sample.bus_bytes_per_s / kMega));
  }
  Point left = area.at(0, record.line_bytes_per_s / kMega);
  svg->line(left, {area.right(), left.y}, "#888", 1, "6 4");
  TextStyle style;
  style.size = 11;
  style.fill = "#888";
  style.anchor = Anchor::end;
  svg->text({area.right() - 4, left.y - 5}, "line rate of all NICs of a host", style);
  svg->polyline(line, "#2f4b7c", 2);
  for (const DemoMark& mark : record.verdicts) {
    Point at = area.at(mark.t_s, 0);
    svg->polygon({{at.x, at.y - 12}, {at.x - 5, at.y - 1}, {at.x + 5, at.y - 1}}, "#b03a3c");
  }
}

void draw_nics(Svg* svg, const ChartArea& area, const DemoRecord& record) {
  auto victim = static_cast<size_t>(record.victim_host);
  if (record.samples.empty()) return;
  size_t nics = record.samples.front().nic_bytes_per_s[victim].size();
  std::vector<double> base(record.samples.size(), 0);
  for (size_t nic = 0; nic < nics; ++nic) {
    std::vector<Point> upper, lower;
    for (size_t i = 0; i < record.samples.size(); ++i) {
      const DemoSample& sample = record.samples[i];
      lower.push_back(area.at(sample.t_s, base[i] / kMega));
      base[i] += sample.nic_bytes_per_s[victim][nic];
      upper.push_back(area.at(sample.t_s, base[i] / kMega));
    }
    upper.insert(upper.end(), lower.rbegin(), lower.rend());
    const char* colour = kNicColours[nic % kNicColours.size()];
    svg->polygon(upper, colour, 0.85);
    double x = area.left() + 110.0 * static_cast<double>(nic);
    svg->rect({x, area.bottom() + 48}, 14, 14, colour, 0.85);
    svg->text({x + 20, area.bottom() + 60},
              "h" + std::to_string(victim) + " nic" + std::to_string(nic));
  }
}

double highest(const DemoRecord& record) {
  double top = record.line_bytes_per_s;
  for (const DemoSample& sample : record.samples) {
    top = std::max(top, sample.bus_bytes_per_s);
    for (const auto& nics : sample.nic_bytes_per_s) {
      double sum = 0;
      for (double rate : nics) sum += rate;
      top = std::max(top, sum);
    }
  }
  return std::max(top / kMega * 1.08, 1.0);
}

}  // namespace

std::string draw_demo(const DemoRecord& record) {
  Svg svg(kWidth, kHeight, record.title);
  double end = record.samples.empty() ? 1 : record.samples.back().t_s;
  double top = highest(record);
  ChartArea bus({kLeft, 110}, kWidth - kLeft - kRight, 230, {0, end}, {0, top});
  ChartArea nics({kLeft, 425}, kWidth - kLeft - kRight, 230, {0, end}, {0, top});
  TextStyle heading;
  heading.size = 20;
  heading.bold = true;
  svg.text({kLeft, 38}, record.title, heading);
  svg.text({kLeft, 62}, record.summary);
  shade_faults(&svg, bus, record, true);
  shade_faults(&svg, nics, record, false);
  bus.draw_axes(&svg, "", "bus bandwidth, MB/s");
  nics.draw_axes(&svg, "seconds", "sent by h" + std::to_string(record.victim_host) + ", MB/s");
  draw_bus(&svg, bus, record);
  draw_nics(&svg, nics, record);
  TextStyle legend;
  legend.fill = "#b03a3c";
  legend.anchor = Anchor::end;
  svg.text({kWidth - kRight, nics.bottom() + 60}, "▲ verdict of the library", legend);
  return svg.finish();
}

}  // namespace r2ccl::tools
