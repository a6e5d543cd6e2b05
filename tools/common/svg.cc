#include "tools/common/svg.h"

#include <cmath>
#include <cstdio>

namespace r2ccl::tools {
namespace {

// Two decimals are finer than a pixel and keep the files small.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + escaped(value) + "\"";
}

std::string list(const std::vector<Point>& points) {
  std::string text;
  for (Point point : points) {
    text += (text.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
  }
  return text;
}

}  // namespace

Svg::Svg(double width, double height, const std::string& title) {
  body_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", number(width)) +
          attribute("height", number(height)) +
          attribute("viewBox", "0 0 " + number(width) + " " + number(height)) +
          " font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n<title>" + escaped(title) +
          "</title>\n";
  rect({0, 0}, width, height, "#ffffff");
}

void Svg::rect(Point corner, double width, double height, const std::string& fill, double opacity) {
  body_ += "<rect" + attribute("x", number(corner.x)) + attribute("y", number(corner.y)) +
           attribute("width", number(width)) + attribute("height", number(height)) +
           attribute("fill", fill) + attribute("fill-opacity", number(opacity)) + "/>\n";
}

void Svg::line(Point from, Point to, const std::string& stroke, double width,
               const std::string& dash) {
  body_ += "<line" + attribute("x1", number(from.x)) + attribute("y1", number(from.y)) +
           attribute("x2", number(to.x)) + attribute("y2", number(to.y)) +
           attribute("stroke", stroke) + attribute("stroke-width", number(width)) +
           (dash.empty() ? "" : attribute("stroke-dasharray", dash)) + "/>\n";
}

void Svg::polyline(const std::vector<Point>& points, const std::string& stroke, double width) {
  body_ += "<polyline" + attribute("points", list(points)) + attribute("stroke", stroke) +
           attribute("stroke-width", number(width)) +
           " fill=\"none\" stroke-linejoin=\"round\"/>\n";
}

void Svg::polygon(const std::vector<Point>& points, const std::string& fill, double opacity) {
  body_ += "<polygon" + attribute("points", list(points)) + attribute("fill", fill) +
           attribute("fill-opacity", number(opacity)) + "/>\n";
}

void Svg::text(Point at, const std::string& text, const TextStyle& style) {
  const char* anchor = style.anchor == Anchor::start    ? "start"
                       : style.anchor == Anchor::middle ? "middle"
                                                        : "end";
  body_ += "<text" + attribute("x", number(at.x)) + attribute("y", number(at.y)) +
           attribute("font-size", number(style.size)) + attribute("fill", style.fill) +
           attribute("text-anchor", anchor) + (style.bold ? " font-weight=\"bold\"" : "");
  if (style.rotate_degrees != 0) {
    body_ += attribute("transform", "rotate(" + number(style.rotate_degrees) + " " + number(at.x) +
                                        " " + number(at.y) + ")");
  }
  body_ += ">" + escaped(text) + "</text>\n";
}

std::string Svg::finish() const {
  return body_ + "</svg>\n";
}

Point ChartArea::at(double x, double y) const {
  double fx = (x - x_range_.first) / (x_range_.second - x_range_.first);
  double fy = (y - y_range_.first) / (y_range_.second - y_range_.first);
  return {corner_.x + fx * width_, corner_.y + (1 - fy) * height_};
}

void ChartArea::draw_axes(Svg* svg, const std::string& x_label, const std::string& y_label) const {
  TextStyle small;
  small.size = 12;
  small.fill = "#666";
  auto tick = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return std::string(text);
  };
  double y_step = round_step(y_range_.second - y_range_.first, 6);
  for (double y = y_range_.first; y <= y_range_.second + y_step * 1e-9; y += y_step) {
    Point point = at(x_range_.first, y);
    svg->line(point, {right(), point.y}, "#e4e4e4");
    small.anchor = Anchor::end;
    svg->text({left() - 8, point.y + 4}, tick(y), small);
  }
  double x_step = round_step(x_range_.second - x_range_.first, 12);
  for (double x = x_range_.first; x <= x_range_.second + x_step * 1e-9; x += x_step) {
    Point point = at(x, y_range_.first);
    svg->line(point, {point.x, point.y + 5}, "#999");
    small.anchor = Anchor::middle;
    svg->text({point.x, point.y + 19}, tick(x), small);
  }
  svg->line({left(), bottom()}, {right(), bottom()}, "#999");
  svg->text({(left() + right()) / 2, bottom() + 37}, x_label, small);
  small.rotate_degrees = -90;
  small.anchor = Anchor::middle;
  svg->text({left() - 50, (top() + bottom()) / 2}, y_label, small);
}

double round_step(double range, int pieces) {
  if (!(range > 0)) return 1;
  double raw = range / pieces;
  double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace r2ccl::tools
