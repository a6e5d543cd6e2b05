// The demo's output. A terminal gets a table that renews itself with the news above it; any other
// output gets one plain line a second.
#pragma once

#include <string>
#include <vector>

#include "tools/demo/demo_record.h"

namespace r2ccl::tools {

struct BrokenNic {
  int host = 0;
  int nic = 0;
  std::string fault;
};

class DemoScreen {
 public:
  DemoScreen(bool terminal, double nic_bytes_per_s)
      : terminal_(terminal), nic_bytes_per_s_(nic_bytes_per_s) {}

  // Prints a line that stays: a fault, a repair, a verdict.
  void news(double t_s, const std::string& text, bool bad);
  // Shows broken NICs in red, with their fault. A working NIC without traffic has no work.
  void show(const DemoSample& sample, const std::vector<BrokenNic>& broken,
            const std::string& status);

 private:
  void erase_table();
  void show_plainly(const DemoSample& sample, const std::string& status);
  std::string bar(double bytes_per_s) const;
  std::string cell(double bytes_per_s, const std::string& fault) const;

  bool terminal_;
  double nic_bytes_per_s_;
  int table_lines_ = 0;
  double next_plain_line_s_ = 0;
};

}  // namespace r2ccl::tools
