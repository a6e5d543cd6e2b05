#include "tools/demo/demo_schedule.h"

namespace r2ccl::tools {

DemoSchedule make_demo_schedule(int hosts, int nics, double fault_s, double mend_s) {
  DemoSchedule schedule;
  schedule.victim_host = hosts > 2 ? 2 : hosts - 1;
  int host = schedule.victim_host;
  double now = mend_s;
  auto name = [](const std::vector<LabTarget>& targets) {
    std::string text;
    for (const LabTarget& target : targets) text += (text.empty() ? "" : " and ") + target.text;
    return text;
  };
  auto add = [&](const std::string& label, const std::vector<LabTarget>& targets, LabFault fault,
                 const std::string& remark = "") {
    schedule.steps.push_back({now, name(targets) + ": " + label, remark, label, targets, fault});
    now += fault_s;
    schedule.steps.push_back({now, name(targets) + ": mended", "", "", targets, {}});
    now += mend_s;
  };
  auto nic = [&](int index) { return target_of({host, index % nics}); };
  add("link down", {nic(1)}, {FaultKind::down, 0, false});
  add("silent black hole", {nic(2)}, {FaultKind::hole, 0, false});
  add("slowed to 10 %", {nic(3)}, {FaultKind::slow, 10, true},
      "(slow is not broken: it stays in use and gets less to do)");
  // With fewer than three NICs this would cut the host off, which is a different fault.
  if (nics >= 3) add("two NICs gone", {nic(0), nic(1)}, {FaultKind::pull, 0, false});
  schedule.end_s = now;
  return schedule;
}

}  // namespace r2ccl::tools
