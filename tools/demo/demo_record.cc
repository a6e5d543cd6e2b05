#include "tools/demo/demo_record.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "tools/common/svg.h"

namespace r2ccl::tools {
namespace {

constexpr double kWidth = 1200, kHeight = 800, kLeft = 80, kRight = 30;
constexpr std::array<const char*, 8> kNicColours = {"#4e79a7", "#59a14f", "#f28e2b", "#b07aa1",
                                                    "#76b7b2", "#edc948", "#9c755f", "#bab0ac"};
constexpr const char* kBusColour = "#1f4e9c";
constexpr const char* kLeftColour = "#c0392b";
constexpr const char* kOtherColour = "#8a8a8a";
constexpr double kMega = 1e6;
// Captions of verdicts, below the numbers of the axis.
constexpr double kCaptionSize = 12.5, kCaptionLine = 16, kCaptionTop = 42;
constexpr double kKeyTop = 108, kKeyLine = 20;

void shade_faults(Svg* svg, const ChartArea& area, const DemoRecord& record, bool label) {
  for (const DemoFault& fault : record.faults) {
    Point from = area.at(fault.start_s, 0), to = area.at(fault.end_s, 0);
    svg->rect({from.x, area.top()}, to.x - from.x, area.bottom() - area.top(), "#e15759", 0.12);
    svg->line({from.x, area.top()}, {from.x, area.bottom()}, "#e15759", 1, "4 3");
    if (!label) continue;
    TextStyle style;
    style.fill = "#b03a3c";
    style.bold = true;
    style.anchor = Anchor::middle;
    // The NICs stand above the fault's kind, so that the label stays within its band.
    const size_t colon = fault.label.find(": ");
    const double middle = (from.x + to.x) / 2;
    const bool two_lines = colon != std::string::npos;
    if (two_lines) svg->text({middle, area.top() - 24}, fault.label.substr(0, colon), style);
    svg->text({middle, area.top() - 8}, two_lines ? fault.label.substr(colon + 2) : fault.label,
              style);
  }
}

// Returns percent of a line.
double percent(double bytes_per_s, double line_bytes_per_s) {
  return line_bytes_per_s > 0 ? 100 * bytes_per_s / line_bytes_per_s : 0;
}

std::vector<Point> line_of(const ChartArea& area, const DemoCurve& curve, double line_bytes_per_s,
                           double end_s) {
  std::vector<Point> points;
  for (size_t i = 0; i < curve.bytes_per_s.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * DemoCurve::kBinSeconds;
    if (middle >= end_s) continue;
    points.push_back(area.at(middle, percent(curve.bytes_per_s[i], line_bytes_per_s)));
  }
  return points;
}

// Returns the line rate of the working NICs, as steps.
std::vector<Point> what_is_left(const ChartArea& area, const DemoRecord& record) {
  std::vector<Point> points = {area.at(0, 100)};
  for (const DemoFault& fault : record.faults) {
    const double left = 100 - percent(fault.lost_bytes_per_s, record.line_bytes_per_s);
    points.push_back(area.at(fault.start_s, 100));
    points.push_back(area.at(fault.start_s, left));
    points.push_back(area.at(fault.end_s, left));
    points.push_back(area.at(fault.end_s, 100));
  }
  points.push_back({area.right(), points.front().y});
  return points;
}

// Draws a triangle at each verdict's time, and a caption for each fault below the chart, where no
// curve is.
void draw_verdicts(Svg* svg, const ChartArea& area, const DemoRecord& record) {
  TextStyle style;
  style.size = kCaptionSize;
  style.fill = "#7d2527";
  for (const DemoFault& fault : record.faults) {
    const double x = area.at(fault.start_s, 0).x;
    double y = area.bottom() + kCaptionTop;
    double named_s = 0;
    std::vector<std::string> lines;
    for (const DemoMark& mark : record.verdicts) {
      if (mark.t_s < fault.start_s || mark.t_s > fault.end_s) continue;
      const Point at = area.at(mark.t_s, 0);
      svg->polygon({{at.x, at.y - 12}, {at.x - 5, at.y - 1}, {at.x + 5, at.y - 1}}, "#b03a3c");
      named_s = std::max(named_s, mark.t_s - fault.start_s);
      lines.push_back(mark.text);
    }
    if (lines.empty() && fault.expects_verdict) continue;
    char words[64];
    std::snprintf(words, sizeof words, "named after %.0f ms:", named_s * 1000);
    lines.insert(lines.begin(), lines.empty() ? "slow is not broken:" : words);
    if (lines.size() == 1) lines.push_back("no verdict");
    for (const std::string& line : lines) {
      svg->text({x, y}, line, style);
      y += kCaptionLine;
    }
  }
}

void draw_bus(Svg* svg, const ChartArea& area, const DemoRecord& record, double end_s) {
  if (!record.other.bytes_per_s.empty()) {
    std::vector<Point> surface = line_of(area, record.other, record.other_line_bytes_per_s, end_s);
    if (!surface.empty()) {
      surface.insert(surface.begin(), {surface.front().x, area.bottom()});
      surface.push_back({surface.back().x, area.bottom()});
      svg->polygon(surface, kOtherColour, 0.38);
    }
  }
  svg->polyline(what_is_left(area, record), kLeftColour, 1.2);
  std::vector<Point> line = line_of(area, record.bus, record.line_bytes_per_s, end_s);
  if (line.empty()) {
    for (const DemoSample& sample : record.samples) {
      line.push_back(area.at(sample.t_s, percent(sample.bus_bytes_per_s, record.line_bytes_per_s)));
    }
  }
  svg->polyline(line, kBusColour, 2.2);
  draw_verdicts(svg, area, record);
}

// Draws the key to the lines, below the chart: a line of its own for the other library.
void draw_key(Svg* svg, const ChartArea& area, const DemoRecord& record) {
  struct Entry {
    std::string text;
    const char* colour;
    double thickness;
    double width;
  };
  const auto draw = [&](double x, double y, const Entry& entry) {
    svg->line({x, y - 4}, {x + 24, y - 4}, entry.colour, entry.thickness);
    svg->text({x + 31, y}, entry.text);
    return x + entry.width;
  };
  char line[32];
  std::snprintf(line, sizeof line, "%.4g MB/s", record.line_bytes_per_s / kMega);
  const double y = area.bottom() + kKeyTop;
  const double x =
      draw(area.left(), y, {"r2ccl, whose line is " + std::string(line), kBusColour, 3, 260});
  draw(x, y, {"line rate of the NICs that are left", kLeftColour, 1.5, 275});
  if (!record.other.bytes_per_s.empty()) {
    draw(area.left(), y + kKeyLine, {"the same job under " + record.other_name, "#c9c9c9", 12, 0});
  }
  TextStyle style;
  style.anchor = Anchor::end;
  svg->text({area.right(), area.bottom() + kKeyTop}, "▲ r2ccl names the broken NIC", style);
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
    svg->rect({x, area.bottom() + 46}, 14, 14, colour, 0.85);
    svg->text({x + 20, area.bottom() + 58},
              "h" + std::to_string(victim) + " nic" + std::to_string(nic));
  }
}

// Returns the end of the axis of percent.
double highest_share(const DemoRecord& record) {
  double top = 100;
  for (const auto& [curve, line] : {std::pair{&record.bus, record.line_bytes_per_s},
                                    std::pair{&record.other, record.other_line_bytes_per_s}}) {
    for (double rate : curve->bytes_per_s) top = std::max(top, percent(rate, line));
  }
  // A burst must not squeeze the rest of the curve.
  return 1.04 * std::min(top, 125.0);
}

double highest(const DemoRecord& record) {
  double top = record.line_bytes_per_s;
  for (const DemoSample& sample : record.samples) {
    double sum = 0;
    for (const auto& nics : sample.nic_bytes_per_s) {
      sum = 0;
      for (double rate : nics) sum += rate;
      top = std::max(top, sum);
    }
  }
  top = std::min(top, 1.25 * std::max(record.line_bytes_per_s, kMega));
  return std::max(top / kMega * 1.04, 1.0);
}

}  // namespace

void DemoCurve::add(double start_s, double end_s, double bytes) {
  if (!(end_s > start_s) || start_s < 0) return;
  const double rate = bytes / (end_s - start_s);
  for (auto bin = static_cast<size_t>(start_s / kBinSeconds);; ++bin) {
    const double from = static_cast<double>(bin) * kBinSeconds;
    if (from >= end_s) return;
    if (bin >= bytes_per_s.size()) bytes_per_s.resize(bin + 1, 0);
    const double seconds = std::min(end_s, from + kBinSeconds) - std::max(start_s, from);
    if (seconds > 0) bytes_per_s[bin] += rate * seconds / kBinSeconds;
  }
}

double DemoCurve::mean(double start_s, double end_s) const {
  double sum = 0;
  int bins = 0;
  for (size_t i = 0; i < bytes_per_s.size(); ++i) {
    const double from = static_cast<double>(i) * kBinSeconds;
    if (from < start_s || from + kBinSeconds > end_s) continue;
    sum += bytes_per_s[i];
    ++bins;
  }
  return bins > 0 ? sum / bins : 0;
}

double share_without_faults(const DemoRecord& record) {
  constexpr double kSettleS = 1;
  double begin = 0, sum = 0;
  int times = 0;
  for (const DemoFault& fault : record.faults) {
    const double rate = record.bus.mean(begin, fault.start_s);
    begin = fault.end_s + kSettleS;
    if (rate <= 0) continue;
    sum += rate;
    ++times;
  }
  return times > 0 && record.line_bytes_per_s > 0 ? sum / times / record.line_bytes_per_s : 0;
}

std::string draw_demo(const DemoRecord& record) {
  Svg svg(kWidth, kHeight, record.title);
  double end = record.samples.empty() ? 1 : record.samples.back().t_s;
  ChartArea bus({kLeft, 140}, kWidth - kLeft - kRight, 260, {0, end}, {0, highest_share(record)});
  ChartArea nics({kLeft, 555}, kWidth - kLeft - kRight, 165, {0, end}, {0, highest(record)});
  TextStyle heading;
  heading.size = 20;
  heading.bold = true;
  heading.fill = "#111";
  svg.text({kLeft, 42}, record.title, heading);
  TextStyle below;
  below.size = 14;
  svg.text({kLeft, 68}, record.subtitle, below);
  svg.text({kLeft, 90}, record.remark, below);
  shade_faults(&svg, bus, record, true);
  shade_faults(&svg, nics, record, false);
  bus.draw_axes(&svg, "", "bus bandwidth, % of the line");
  nics.draw_axes(&svg, "seconds", "sent by h" + std::to_string(record.victim_host) + ", MB/s");
  draw_bus(&svg, bus, record, end);
  draw_key(&svg, bus, record);
  draw_nics(&svg, nics, record);
  return svg.finish();
}

}  // namespace r2ccl::tools
