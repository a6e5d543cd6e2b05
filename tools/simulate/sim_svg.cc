#include "tools/simulate/sim_svg.h"

#include <algorithm>

#include "tools/common/svg.h"

namespace r2ccl::tools {

using namespace sim;
namespace {

constexpr double kWidth = 1100;
constexpr double kLeft = 90;
constexpr double kTop = 60;
constexpr double kRow = 22;
constexpr double kRightMargin = 20;
constexpr double kLegend = 40;
constexpr double kShortest = 1.5;  // pixels: a shorter span would be invisible

const char* colour_of(TrialSpan::What what) {
  switch (what) {
    case TrialSpan::What::operation:
      return "#9ab8d8";
    case TrialSpan::What::fault:
      return "#d9534f";
    case TrialSpan::What::suspect:
      return "#f0ad4e";
    case TrialSpan::What::down:
      return "#777777";
  }
  return "#000000";
}

const char* name_of(TrialSpan::What what) {
  switch (what) {
    case TrialSpan::What::operation:
      return "operation";
    case TrialSpan::What::fault:
      return "fault";
    case TrialSpan::What::suspect:
      return "some path suspect";
    case TrialSpan::What::down:
      return "some path down or being proved";
  }
  return "";
}

class Picture {
 public:
  Picture(const Scenario& scenario, const TrialResult& result, const std::string& title)
      : scenario_(scenario),
        result_(result),
        rows_(scenario.hosts * (scenario.nics + 1)),
        svg_(kWidth, kTop + rows_ * kRow + kLegend + 30, title) {
    for (const TrialSpan& span : result.spans) end_ = std::max(end_, span.to);
  }

  std::string draw(const std::string& title) {
    svg_.text({kLeft, 24}, title, {.size = 15, .bold = true});
    svg_.text({kLeft, 42}, describe(scenario_), {.size = 11});
    draw_rows();
    // Later shapes hide earlier ones: a fault hides the failed paths, not the reverse.
    for (const auto what : {TrialSpan::What::operation, TrialSpan::What::down,
                            TrialSpan::What::suspect, TrialSpan::What::fault}) {
      for (const TrialSpan& span : result_.spans) {
        if (span.what == what) draw_span(span);
      }
    }
    draw_legend();
    return svg_.finish();
  }

 private:
  double x(TimeNs at) const {
    const double width = kWidth - kLeft - kRightMargin;
    return kLeft + width * static_cast<double>(at) / static_cast<double>(std::max<TimeNs>(end_, 1));
  }
  double y(int host, int nic) const {
    return kTop + kRow * (host * (scenario_.nics + 1) + nic + 1);
  }

  void draw_rows() {
    for (int host = 0; host < scenario_.hosts; ++host) {
      for (int nic = -1; nic < scenario_.nics; ++nic) {
        const double top = y(host, nic);
        const std::string label =
            "h" + std::to_string(host) + (nic < 0 ? std::string() : " nic" + std::to_string(nic));
        svg_.text({kLeft - 8, top + kRow - 7}, label,
                  {.size = 11, .anchor = Anchor::end, .bold = nic < 0});
        svg_.line({kLeft, top + kRow}, {kWidth - kRightMargin, top + kRow}, "#eeeeee");
      }
    }
    const double bottom = kTop + rows_ * kRow;
    const double seconds = static_cast<double>(end_) / 1e9;
    const double step = round_step(std::max(seconds, 1e-6), 10);
    for (double at = 0; at <= seconds; at += step) {
      const double here = x(static_cast<TimeNs>(at * 1e9));
      char text[32];
      std::snprintf(text, sizeof(text), "%g s", at);
      svg_.line({here, kTop}, {here, bottom}, "#dddddd");
      svg_.text({here, bottom + 14}, text, {.size = 10, .anchor = Anchor::middle});
    }
  }

  void draw_span(const TrialSpan& span) {
    const double left = x(span.from);
    const double width = std::max(x(span.to) - left, kShortest);
    const bool fault = span.what == TrialSpan::What::fault;
    const double top = y(span.host, span.nic) + (fault ? 2 : 6);
    svg_.rect({left, top}, width, fault ? 6 : kRow - 9, colour_of(span.what), 0.8);
  }

  void draw_legend() {
    double left = kLeft;
    const double top = kTop + rows_ * kRow + kLegend;
    for (const auto what : {TrialSpan::What::operation, TrialSpan::What::fault,
                            TrialSpan::What::suspect, TrialSpan::What::down}) {
      svg_.rect({left, top - 10}, 14, 10, colour_of(what), 0.8);
      svg_.text({left + 20, top}, name_of(what), {.size = 11});
      left += 200;
    }
  }

  const Scenario& scenario_;
  const TrialResult& result_;
  const int rows_;
  TimeNs end_ = 0;
  Svg svg_;
};

}  // namespace

std::string draw_trial(const Scenario& scenario, const TrialResult& result,
                       const std::string& title) {
  return Picture(scenario, result, title).draw(title);
}

}  // namespace r2ccl::tools
