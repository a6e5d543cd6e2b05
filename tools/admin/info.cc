#include "tools/admin/info.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/common/command.h"
#include "tools/common/text_table.h"
#include "transport/tcp/netlink.h"

namespace r2ccl::tools {
namespace {

std::string describe_state(const Nic& nic) {
  if (!nic.up) return "down";
  return nic.carrier ? "up" : "no carrier";
}

std::string describe_speed(uint64_t speed_mbps) {
  return speed_mbps == 0 ? "-" : std::to_string(speed_mbps) + " Mb/s";
}

std::string describe_addresses(const Nic& nic) {
  std::string out;
  for (const Address& address : nic.addresses) {
    out +=
        (out.empty() ? "" : " ") + to_string(address) + "/" + std::to_string(address.prefix_bits);
  }
  return out.empty() ? "-" : out;
}

int run_info() {
  const InterfaceSettings settings = interface_settings(
      [](const char* name) { return static_cast<const char*>(std::getenv(name)); });
  const Result<std::vector<Nic>> all = read_nics();
  if (!all.ok()) return report_error("info", all.status());
  const Result<std::vector<Nic>> chosen =
      choose_nics(all.value(), settings.data, routed_nics(all.value()));
  if (!chosen.ok()) return report_error("info", chosen.status());
  std::fputs(describe_interfaces(chosen.value(), settings).c_str(), stdout);
  return 0;
}

}  // namespace

InterfaceSettings interface_settings(const char* (*get)(const char* name)) {
  InterfaceSettings out;
  for (const char* variable : {"R2CCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const char* text = get(variable);
    if (text == nullptr || *text == '\0') continue;
    out.data = {.text = text, .variable = variable};
    break;
  }
  const char* control = get("R2CCL_OOB_IFNAME");
  if (control != nullptr) out.control = control;
  return out;
}

std::string describe_interfaces(const std::vector<Nic>& nics, const InterfaceSettings& settings) {
  std::vector<TextRow> rows = {{"interface", "kind", "state", "MTU", "speed", "data", "addresses"}};
  for (const Nic& nic : nics) {
    rows.push_back({nic.name, to_string(nic.kind), describe_state(nic), std::to_string(nic.mtu),
                    describe_speed(nic.speed_mbps), nic.reason, describe_addresses(nic)});
  }
  std::string out = layout(rows) + "\n";
  const auto count =
      std::count_if(nics.begin(), nics.end(), [](const Nic& nic) { return nic.usable; });
  out += "data NICs: " + std::to_string(count);
  out += settings.data.text.empty()
             ? " (R2CCL_SOCKET_IFNAME is not set: found by kind, carrier and address)\n"
             : " (by " + settings.data.variable + "=" + settings.data.text + ")\n";
  out += "control:   ";
  out += settings.control.empty()
             ? "the data NICs and the interface that reaches the rendezvous (R2CCL_OOB_IFNAME is "
               "not set)\n"
             : "by R2CCL_OOB_IFNAME=" + settings.control + "\n";
  return out;
}

void add_info_command(CLI::App* app, Action* action) {
  CLI::App* command =
      app->add_subcommand("info", "Print the network interfaces, which are used and why");
  command->footer(
      "R2CCL_SOCKET_IFNAME selects data NICs as NCCL_SOCKET_IFNAME does: nic,eth (prefixes),\n"
      "=nic0 (exact), ^docker (all but these), lo@127.0.1.1 (an address as a NIC of its own).");
  command->callback([action] { *action = run_info; });
}

}  // namespace r2ccl::tools
