#include "tools/plan/plan_transfers.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "tools/common/svg.h"

namespace r2ccl::tools {

std::vector<Transfer> transfers_of(const WholePlan& plan, const PlanTimes& times) {
  std::vector<Transfer> transfers;
  std::map<std::pair<size_t, size_t>, std::vector<size_t>> sends;  // by from, to
  for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
    const std::vector<Step>& steps = plan.plans[rank].steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind != StepKind::send) continue;
      const auto peer = static_cast<size_t>(steps[i].peer.value());
      sends[{rank, peer}].push_back(transfers.size());
      transfers.push_back({rank, peer, steps[i].source, {}, false, times.steps[rank][i], {}});
    }
  }
  std::map<std::pair<size_t, size_t>, size_t> met;
  for (size_t rank = 0; rank < plan.plans.size(); ++rank) {
    const std::vector<Step>& steps = plan.plans[rank].steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool reduces = steps[i].kind == StepKind::receive_reduce;
      if (!reduces && steps[i].kind != StepKind::receive) continue;
      const std::pair from_to{static_cast<size_t>(steps[i].peer.value()), rank};
      Transfer& transfer = transfers[sends.at(from_to).at(met[from_to]++)];
      transfer.target = steps[i].target;
      transfer.reduces = reduces;
      transfer.received = times.steps[rank][i];
    }
  }
  std::ranges::stable_sort(transfers, {}, [](const Transfer& each) { return each.sent.start_ns; });
  return transfers;
}

namespace transfer_picture {
namespace {

// More would be neither legible nor a small file.
constexpr size_t kTransfersDrawnMax = 1000;
constexpr double kWidth = 1200;
constexpr double kLeft = 64;
constexpr double kRight = kWidth - 24;
constexpr double kTop = 76;
constexpr double kBelow = 52;
// The colours of transfers that are added to something, and of the others.
constexpr const char* kReduceLeaves = "#c8551b";
constexpr const char* kReduceArrives = "#dd9470";
constexpr const char* kOtherLeaves = "#2468a8";
constexpr const char* kOtherArrives = "#7aa6d0";

std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

class TransferPicture {
 public:
  TransferPicture(size_t ranks, double end_ns, const std::string& title)
      : ranks_(static_cast<double>(ranks)),
        row_(std::clamp(720 / ranks_, 10.0, 48.0)),
        end_us_(std::max(end_ns / 1000, 1e-3)),
        svg_(kWidth, kTop + ranks_ * row_ + kBelow, title) {
    TextStyle style;
    style.bold = true;
    style.size = 16;
    svg_.text({kLeft, 24}, title, style);
    legend();
    rows(ranks);
    axis();
  }

  void subtitle(const std::string& text) {
    TextStyle style;
    style.anchor = Anchor::end;
    svg_.text({kRight, 50}, text, style);
  }

  // Lines first, so that no line hides a bar.
  void line(const Transfer& transfer) {
    svg_.line({x(transfer.sent.start_ns), send_y(transfer.from) + bar() / 2},
              {x(transfer.received.end_ns), receive_y(transfer.to) + bar() / 2},
              transfer.reduces ? kReduceArrives : kOtherArrives, 0.8);
  }
  void bars(const Transfer& transfer) {
    bar_of(transfer.sent, send_y(transfer.from), transfer.reduces ? kReduceLeaves : kOtherLeaves,
           "to " + std::to_string(transfer.to));
    bar_of(transfer.received, receive_y(transfer.to),
           transfer.reduces ? kReduceArrives : kOtherArrives,
           "from " + std::to_string(transfer.from));
  }

  std::string finish() const { return svg_.finish(); }

 private:
  double x(double ns) const { return kLeft + (kRight - kLeft) * ns / 1000 / end_us_; }
  double y(size_t rank) const { return kTop + static_cast<double>(rank) * row_; }
  // A row has a gap, a bar of what leaves, one of what arrives, and a gap.
  double bar() const { return row_ * 0.4; }
  double send_y(size_t rank) const { return y(rank) + row_ * 0.08; }
  double receive_y(size_t rank) const { return y(rank) + row_ * 0.52; }

  // A gap shows where the next bar begins.
  void bar_of(const StepTime& time, double top, const char* colour, const std::string& label) {
    const double width = std::max(x(time.moved_ns) - x(time.start_ns) - 1, 0.6);
    svg_.rect({x(time.start_ns), top}, width, bar(), colour);
    TextStyle style;
    style.size = 10;
    style.fill = "#ffffff";
    const double needed = static_cast<double>(label.size()) * 5.5 + 4;
    if (width >= needed && bar() >= 10) {
      svg_.text({x(time.start_ns) + 3, top + bar() / 2 + 3.5}, label, style);
    }
  }

  void legend() {
    double at = kLeft;
    for (const auto& [colour, label] :
         {std::pair(kReduceLeaves, "data to be added leave"), std::pair(kReduceArrives, "arrive"),
          std::pair(kOtherLeaves, "other data leave"), std::pair(kOtherArrives, "arrive")}) {
      svg_.rect({at, 40}, 14, 11, colour);
      svg_.text({at + 19, 50}, label);
      at += 38 + 7 * static_cast<double>(std::string(label).size());
    }
  }

  void rows(size_t ranks) {
    TextStyle style;
    style.anchor = Anchor::end;
    style.size = std::min(row_ * 0.8, 13.0);
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (rank % 2 == 0) svg_.rect({kLeft, y(rank)}, kRight - kLeft, row_, "#f2f2f2");
      svg_.text({kLeft - 8, y(rank) + row_ / 2 + style.size * 0.35}, "rank " + std::to_string(rank),
                style);
    }
  }

  void axis() {
    const double bottom = kTop + ranks_ * row_;
    TextStyle style;
    style.anchor = Anchor::middle;
    style.fill = "#666";
    const double step = round_step(end_us_, 10);
    for (double us = 0; us <= end_us_ * (1 + 1e-9); us += step) {
      svg_.line({x(us * 1000), kTop}, {x(us * 1000), bottom + 5}, "#dcdcdc");
      svg_.text({x(us * 1000), bottom + 19}, text_of(us), style);
    }
    svg_.text({(kLeft + kRight) / 2, bottom + 38}, "us", style);
  }

  double ranks_;
  double row_;
  double end_us_;
  Svg svg_;
};

}  // namespace
}  // namespace transfer_picture

std::string transfers_svg(const WholePlan& plan, const std::vector<Transfer>& transfers,
                          const std::string& title) {
  using namespace transfer_picture;
  const size_t drawn = std::min(transfers.size(), kTransfersDrawnMax);
  double end = 0;
  for (size_t i = 0; i < drawn; ++i) {
    end = std::max({end, transfers[i].sent.moved_ns, transfers[i].received.end_ns});
  }
  TransferPicture picture(plan.plans.size(), end, title);
  picture.subtitle(drawn < transfers.size() ? "the first " + std::to_string(drawn) + " of " +
                                                  std::to_string(transfers.size()) + " transfers"
                                            : std::to_string(drawn) + " transfers");
  for (size_t i = 0; i < drawn; ++i) picture.line(transfers[i]);
  for (size_t i = 0; i < drawn; ++i) picture.bars(transfers[i]);
  return picture.finish();
}

}  // namespace r2ccl::tools
