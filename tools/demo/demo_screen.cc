#include "tools/demo/demo_screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace r2ccl::tools {

void DemoScreen::erase_table() {
  if (table_lines_ > 0) std::printf("\x1b[%dA\x1b[J", table_lines_);
  table_lines_ = 0;
}

void DemoScreen::news(double t_s, const std::string& text, bool bad) {
  erase_table();
  const char* colour = !terminal_ ? "" : bad ? "\x1b[1;31m" : "\x1b[1;32m";
  std::printf("%6.2f s  %s%s%s\n", t_s, colour, text.c_str(), terminal_ ? "\x1b[0m" : "");
  std::fflush(stdout);
}

std::string DemoScreen::bar(double bytes_per_s) const {
  constexpr int kCells = 12;
  double share = nic_bytes_per_s_ > 0 ? bytes_per_s / nic_bytes_per_s_ : 0;
  int filled = std::clamp(static_cast<int>(std::lround(share * kCells)), 0, kCells);
  std::string text;
  for (int i = 0; i < kCells; ++i) text += i < filled ? "█" : "░";
  return text;
}

// Returns one NIC's cell: a bar of its rate, or the reason in words why there is none. All cells
// have the same width.
std::string DemoScreen::cell(double bytes_per_s, const std::string& fault) const {
  constexpr double kIdleShare = 0.005;
  char text[96];
  if (!fault.empty()) {
    std::snprintf(text, sizeof text, "\x1b[1;31m%-17.17s\x1b[0m", fault.c_str());
  } else if (bytes_per_s < kIdleShare * nic_bytes_per_s_) {
    std::snprintf(text, sizeof text, "\x1b[2m%-17s\x1b[0m", "no work");
  } else {
    std::snprintf(text, sizeof text, "%s %4.1f", bar(bytes_per_s).c_str(), bytes_per_s / 1e6);
  }
  return text;
}

// A line has at most 100 columns with four hosts of four NICs.
void DemoScreen::show_plainly(const DemoSample& sample, const std::string& status) {
  if (sample.t_s < next_plain_line_s_) return;
  next_plain_line_s_ = std::floor(sample.t_s) + 1;
  std::printf("%6.2f s %5.1f MB/s ", sample.t_s, sample.bus_bytes_per_s / 1e6);
  for (size_t host = 0; host < sample.nic_bytes_per_s.size(); ++host) {
    std::printf(" h%zu", host);
    for (double rate : sample.nic_bytes_per_s[host]) std::printf(" %.0f", rate / 1e6);
  }
  std::printf(" %s\n", status.c_str());
  std::fflush(stdout);
}

void DemoScreen::show(const DemoSample& sample, const std::vector<BrokenNic>& broken,
                      const std::string& status) {
  if (!terminal_) return show_plainly(sample, status);
  erase_table();
  std::printf("\n all-reduce %6.1f MB/s bus bandwidth    %s\n", sample.bus_bytes_per_s / 1e6,
              status.c_str());
  table_lines_ = 2;
  for (size_t host = 0; host < sample.nic_bytes_per_s.size(); ++host) {
    std::printf(" h%zu ", host);
    for (size_t nic = 0; nic < sample.nic_bytes_per_s[host].size(); ++nic) {
      const auto found = std::ranges::find_if(broken, [&](const BrokenNic& each) {
        return static_cast<size_t>(each.host) == host && static_cast<size_t>(each.nic) == nic;
      });
      const std::string fault = found == broken.end() ? "" : found->fault;
      std::printf("  %s", cell(sample.nic_bytes_per_s[host][nic], fault).c_str());
    }
    std::printf("\n");
    ++table_lines_;
  }
  std::fflush(stdout);
}

}  // namespace r2ccl::tools
