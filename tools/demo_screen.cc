#include "demo_screen.h"

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

void DemoScreen::show(const DemoSample& sample, const std::string& status) {
  if (!terminal_) {
    if (sample.t_s < next_plain_line_s_) return;
    next_plain_line_s_ = std::floor(sample.t_s) + 1;
    std::printf("%6.2f s  all-reduce %5.1f MB/s", sample.t_s, sample.bus_bytes_per_s / 1e6);
    for (size_t host = 0; host < sample.nic_bytes_per_s.size(); ++host) {
      std::printf("  h%zu", host);
      for (double rate : sample.nic_bytes_per_s[host]) std::printf(" %2.0f", rate / 1e6);
    }
    std::printf("  %s\n", status.c_str());
    std::fflush(stdout);
    return;
  }
  erase_table();
  std::printf("\n all-reduce %6.1f MB/s bus bandwidth    %s\n", sample.bus_bytes_per_s / 1e6,
              status.c_str());
  table_lines_ = 2;
  for (size_t host = 0; host < sample.nic_bytes_per_s.size(); ++host) {
    std::printf(" h%zu ", host);
    for (double rate : sample.nic_bytes_per_s[host]) {
      std::printf("  %s %4.1f", bar(rate).c_str(), rate / 1e6);
    }
    std::printf("\n");
    ++table_lines_;
  }
  std::fflush(stdout);
}

}  // namespace r2ccl::tools
