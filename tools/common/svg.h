// Pictures as SVG text: just the shapes that a chart needs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace r2ccl::tools {

struct Point {
  double x = 0;
  double y = 0;
};

// The position of a text relative to its point.
enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 13;
  std::string fill = "#333";
  Anchor anchor = Anchor::start;
  bool bold = false;
  double rotate_degrees = 0;
};

class Svg {
 public:
  Svg(double width, double height, const std::string& title);

  void rect(Point corner, double width, double height, const std::string& fill, double opacity = 1);
  void line(Point from, Point to, const std::string& stroke, double width = 1,
            const std::string& dash = "");
  void polyline(const std::vector<Point>& points, const std::string& stroke, double width);
  void polygon(const std::vector<Point>& points, const std::string& fill, double opacity = 1);
  void text(Point at, const std::string& text, const TextStyle& style = {});

  std::string finish() const;

 private:
  std::string body_;
};

// Maps data to the picture: one chart's area with its two axes.
class ChartArea {
 public:
  ChartArea(Point corner, double width, double height, std::pair<double, double> x_range,
            std::pair<double, double> y_range)
      : corner_(corner), width_(width), height_(height), x_range_(x_range), y_range_(y_range) {}

  Point at(double x, double y) const;
  double left() const { return corner_.x; }
  double right() const { return corner_.x + width_; }
  double top() const { return corner_.y; }
  double bottom() const { return corner_.y + height_; }
  // Draws grid lines and numbers at round values.
  void draw_axes(Svg* svg, const std::string& x_label, const std::string& y_label) const;

 private:
  Point corner_;
  double width_, height_;
  std::pair<double, double> x_range_, y_range_;
};

// Returns a step of 1, 2 or 5 times a power of ten that cuts `range` into at most `pieces`.
double round_step(double range, int pieces);

}  // namespace r2ccl::tools
