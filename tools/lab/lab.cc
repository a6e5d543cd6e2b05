#include "tools/lab/lab.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "tools/common/parse.h"
#include "tools/common/process.h"
#include "tools/lab/lab_folder.h"
#include "tools/lab/lab_host.h"
#include "tools/lab/lab_script.h"

namespace r2ccl::tools {
namespace {

namespace fs = std::filesystem;

std::string netns_path(const std::string& name) {
  return "/run/netns/" + name;
}

// Runs `ip -batch` and similar programs; an empty script costs nothing.
Status run_batch(const char* program, const std::string& netns, const std::string& script) {
  if (script.empty()) return Status::ok_status();
  Command command;
  command.argv = {program};
  command.argv.insert(command.argv.end(),
                      {std::string_view(program) == "nft" ? "-f" : "-batch", "-"});
  command.input = script;
  if (!netns.empty()) command.netns_path = netns_path(netns);
  Result<std::string> outcome = run_checked(command);
  return outcome.ok() ? Status::ok_status() : outcome.status();
}

std::string hosts_file_text(const LabSpec& spec) {
  std::string text = "127.0.0.1 localhost\n::1 localhost\n";
  for (int host = 0; host < spec.host_count(); ++host) {
    text += address_of(spec, {host, LabPort::kMgmt}) + " h" + std::to_string(host) + "\n";
  }
  return text;
}

// Returns the lab's existing namespaces, even if the state file disagrees.
std::vector<std::string> existing_namespaces(const std::string& name) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/run/netns", error)) {
    std::string file = entry.path().filename();
    if (file.rfind(name + "-", 0) != 0) continue;
    std::string suffix = file.substr(name.size() + 1);
    if (suffix == "fab" || (suffix[0] == 'h' && parse_int(suffix.substr(1)))) found.push_back(file);
  }
  return found;
}

// Sends SIGTERM first. A process that survived would keep its namespace's devices alive, and a
// later lab of the same name would find them.
void end_processes(const std::vector<std::string>& namespaces) {
  constexpr int kRounds = 50;
  constexpr useconds_t kRoundUs = 10'000;
  for (int round = 0; round <= kRounds; ++round) {
    bool any = false;
    for (const std::string& netns : namespaces) {
      for (pid_t pid : processes_in(netns_path(netns))) {
        if (pid == getpid()) continue;
        any = true;
        if (round == 0) kill(pid, SIGTERM);
        if (round == kRounds) kill(pid, SIGKILL);
        waitpid(pid, nullptr, WNOHANG);  // this process's own child if it made the lab
      }
    }
    if (!any) return;
    usleep(kRoundUs);
  }
}

// Returns whether every veth end in the namespace is ready to carry packets.
Result<bool> is_operational(const std::string& netns) {
  Result<std::string> links =
      run_checked({{"ip", "-j", "link", "show", "type", "veth"}, "", netns_path(netns)});
  if (!links.ok()) return links.status();
  auto list = nlohmann::json::parse(links.value(), nullptr, false);
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const auto& link) {
           return link.value("operstate", "") == "UP";
         });
}

// The kernel brings carriers up with a delay, once a second if there are many. A lab whose ports do
// not forward yet would present a fault to its first program.
Status wait_until_operational(const LabSpec& spec) {
  constexpr int kRounds = 500;
  constexpr useconds_t kRoundUs = 10'000;
  std::vector<std::string> waiting = {fabric_namespace(spec)};
  for (int host = 0; host < spec.host_count(); ++host) {
    waiting.push_back(host_namespace(spec, host));
  }
  for (int round = 0; round < kRounds; ++round) {
    while (!waiting.empty()) {
      Result<bool> ready = is_operational(waiting.back());
      if (!ready.ok()) return ready.status();
      if (!ready.value()) break;
      waiting.pop_back();
    }
    if (waiting.empty()) return Status::ok_status();
    usleep(kRoundUs);
  }
  return {Code::timeout, "the links of " + waiting.back() + " did not come up within 5 s"};
}

}  // namespace

Status Lab::available() {
  R2CCL_RETURN_IF_ERROR(may_make_namespaces());
  for (const char* program : {"ip", "tc", "nft"}) {
    Result<Outcome> outcome = run_program({{program, "-V"}, "", ""});
    if (!outcome.ok()) return outcome.status();
  }
  return Status::ok_status();
}

Result<Lab> Lab::up(const LabSpec& spec) {
  R2CCL_RETURN_IF_ERROR(available());
  R2CCL_RETURN_IF_ERROR(down(spec.name));
  Result<Lab> lab = build(spec);
  if (!lab.ok()) (void)down(spec.name);  // the first error is the one to report
  return lab;
}

Result<Lab> Lab::build(const LabSpec& spec) {
  R2CCL_RETURN_IF_ERROR(allow_congestion(spec.congestion));
  Result<LabFolder> folder = LabFolder::of(spec.name);
  if (!folder.ok()) return folder.status();
  R2CCL_RETURN_IF_ERROR(folder.value().make());
  R2CCL_RETURN_IF_ERROR(folder.value().write(LabFolder::kHostsFile, hosts_file_text(spec)));

  std::string make = "netns add " + fabric_namespace(spec) + "\n";
  for (int host = 0; host < spec.host_count(); ++host) {
    make += "netns add " + host_namespace(spec, host) + "\n";
  }
  R2CCL_RETURN_IF_ERROR(run_batch("ip", "", make));
  R2CCL_RETURN_IF_ERROR(silence_fabric(netns_path(fabric_namespace(spec))));
  // The holders set the namespaces' switches, so they come before the interfaces.
  std::vector<pid_t> holders;
  for (int host = 0; host < spec.host_count(); ++host) {
    Result<pid_t> holder =
        start_lab_host({netns_path(host_namespace(spec, host)), "h" + std::to_string(host),
                        folder.value().path(LabFolder::kHostsFile), spec.congestion, spec.ipv6});
    if (!holder.ok()) return holder.status();
    holders.push_back(holder.value());
  }
  LabScripts scripts = up_scripts(spec);
  R2CCL_RETURN_IF_ERROR(run_batch("ip", "", scripts.root_ip));
  R2CCL_RETURN_IF_ERROR(run_batch("ip", fabric_namespace(spec), scripts.fabric_ip));
  R2CCL_RETURN_IF_ERROR(run_batch("tc", fabric_namespace(spec), scripts.fabric_tc));
  for (int host = 0; host < spec.host_count(); ++host) {
    std::string netns = host_namespace(spec, host);
    R2CCL_RETURN_IF_ERROR(run_batch("ip", netns, host_ip_script(spec, host)));
    R2CCL_RETURN_IF_ERROR(run_batch("tc", netns, host_tc_script(spec, host)));
  }
  R2CCL_RETURN_IF_ERROR(wait_until_operational(spec));
  nlohmann::json state = nlohmann::json::parse(to_json(spec));
  state["holders"] = holders;
  R2CCL_RETURN_IF_ERROR(folder.value().write(LabFolder::kSpecFile, state.dump(1) + "\n"));
  return Lab(spec, std::move(holders));
}

Result<Lab> Lab::open(const std::string& name) {
  Result<LabFolder> folder = LabFolder::of(name);
  if (!folder.ok()) return folder.status();
  std::ifstream in(folder.value().path(LabFolder::kSpecFile));
  if (!in) {
    return Status(Code::invalid_usage,
                  "there is no lab '" + name + "': make one with `r2ccl lab up 4 4 250`");
  }
  std::stringstream text;
  text << in.rdbuf();
  Result<LabSpec> spec = lab_spec_from_json(text.str());
  if (!spec.ok()) return spec.status();
  if (spec.value().name != name) {
    return Status(Code::invalid_usage, "the state of the lab '" + name +
                                           "' is another lab's: remove it with `r2ccl lab down`");
  }
  auto state = nlohmann::json::parse(text.str(), nullptr, false);
  std::vector<pid_t> holders = state.value("holders", std::vector<pid_t>());
  for (int host = 0; host < spec.value().host_count(); ++host) {
    auto index = static_cast<size_t>(host);
    if (index >= holders.size() ||
        !is_in_namespace(holders[index], netns_path(host_namespace(spec.value(), host)))) {
      return Status(Code::invalid_usage, "the lab '" + name + "' is damaged (host h" +
                                             std::to_string(host) +
                                             " is gone): remove it with `r2ccl lab down`");
    }
  }
  return Lab(std::move(spec.value()), std::move(holders));
}

Status Lab::down(const std::string& name) {
  Result<LabFolder> folder = LabFolder::of(name);
  if (!folder.ok()) return folder.status();
  std::vector<std::string> namespaces = existing_namespaces(name);
  if (!namespaces.empty()) {
    R2CCL_RETURN_IF_ERROR(may_make_namespaces());
    end_processes(namespaces);
    std::string script;
    for (const std::string& netns : namespaces) script += "netns del " + netns + "\n";
    Result<Outcome> outcome = run_program({{"ip", "-force", "-batch", "-"}, script, ""});
    if (!outcome.ok()) return outcome.status();
    if (!existing_namespaces(name).empty()) {
      return {Code::system, "cannot remove the lab '" + name + "': " + outcome.value().err};
    }
  }
  return folder.value().remove();
}

Status Lab::run_port_scripts(const LabTarget& target,
                             const std::vector<PortScripts>& scripts) const {
  PortScripts fabric;
  std::map<int, PortScripts> hosts;
  for (size_t i = 0; i < scripts.size(); ++i) {
    fabric.fabric_ip += scripts[i].fabric_ip;
    fabric.fabric_tc += scripts[i].fabric_tc;
    fabric.fabric_nft += scripts[i].fabric_nft;
    hosts[target.ports[i].host].host_ip += scripts[i].host_ip;
    hosts[target.ports[i].host].host_tc += scripts[i].host_tc;
  }
  R2CCL_RETURN_IF_ERROR(run_batch("nft", fabric_namespace(spec_), fabric.fabric_nft));
  R2CCL_RETURN_IF_ERROR(run_batch("ip", fabric_namespace(spec_), fabric.fabric_ip));
  R2CCL_RETURN_IF_ERROR(run_batch("tc", fabric_namespace(spec_), fabric.fabric_tc));
  for (const auto& [host, script] : hosts) {
    std::string netns = host_namespace(spec_, host);
    R2CCL_RETURN_IF_ERROR(run_batch("ip", netns, script.host_ip));
    R2CCL_RETURN_IF_ERROR(run_batch("tc", netns, script.host_tc));
  }
  return Status::ok_status();
}

Status Lab::fault(const LabTarget& target, const LabFault& fault) {
  std::vector<PortScripts> scripts;
  for (LabPort port : target.ports) {
    if (fault.relative && nic_of(spec_, port).rate_bps == 0) {
      return {Code::invalid_argument, target.text + " is not shaped: give slow a rate in Mbit/s"};
    }
    scripts.push_back(fault_scripts(spec_, port, fault, target.whole_rail));
  }
  return run_port_scripts(target, scripts).with_context(target.text + ": " + describe(fault));
}

Status Lab::fix(const LabTarget& target) {
  std::vector<PortScripts> scripts;
  for (LabPort port : target.ports) scripts.push_back(fix_scripts(spec_, port));
  return run_port_scripts(target, scripts).with_context("fix " + target.text);
}

Status Lab::unhole(const LabTarget& target) {
  std::vector<PortScripts> scripts;
  for (LabPort port : target.ports) scripts.push_back(unhole_scripts(port));
  return run_port_scripts(target, scripts).with_context("fix " + target.text);
}

Status Lab::fix_all() {
  LabTarget everything{{}, true, "everything"};
  for (int host = 0; host < spec_.host_count(); ++host) {
    int nics = static_cast<int>(spec_.hosts[static_cast<size_t>(host)].size());
    for (int nic = LabPort::kMgmt; nic < nics; ++nic) everything.ports.push_back({host, nic});
  }
  return fix(everything);
}

Status Lab::enter(int host) const {
  return enter_lab_host(holders_[static_cast<size_t>(host)])
      .with_context("h" + std::to_string(host));
}

Result<std::vector<NicBytes>> Lab::bytes(int host) const {
  // /proc/PID/net shows the namespace of that process, so the caller need not enter it.
  std::ifstream in("/proc/" + std::to_string(holders_[static_cast<size_t>(host)]) + "/net/dev");
  if (!in) return Status(Code::system, "h" + std::to_string(host) + " is gone");
  std::map<std::string, NicBytes> found;
  std::string line;
  while (std::getline(in, line)) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    size_t start = line.find_first_not_of(' ');
    NicBytes nic{line.substr(start, colon - start), 0, 0};
    std::istringstream numbers(line.substr(colon + 1));
    std::string skipped;
    numbers >> nic.rx;
    for (int column = 0; column < 7; ++column) numbers >> skipped;
    numbers >> nic.tx;
    found[nic.device] = nic;
  }
  std::vector<NicBytes> ordered;
  int nics = static_cast<int>(spec_.hosts[static_cast<size_t>(host)].size());
  for (int nic = 0; nic < nics; ++nic) ordered.push_back(found[device_name({host, nic})]);
  ordered.push_back(found["mgmt"]);
  return ordered;
}

}  // namespace r2ccl::tools
