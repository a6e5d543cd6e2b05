// `r2ccl lab ...`: the command line of the lab.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "tools/common/command.h"
#include "tools/common/parse.h"
#include "tools/lab/lab.h"
#include "tools/lab/lab_run.h"

namespace r2ccl::tools {
namespace {

constexpr const char* kTargetHelp =
    "h2 nic1 | h2 mgmt | rail1 (the switch) | mgmt (the whole management network)";

int report(const Status& status) {
  return status.ok() ? 0 : report_error("lab", status);
}

struct LabOptions {
  LabShape shape;
  LabJob job;
  std::string host;
  std::vector<std::string> words;
};

// Runs `work` on the open lab. For `run` and `all` the words are a program and its options.
template <typename Work>
int with_lab(const LabOptions& options, Work work) {
  Result<Lab> lab = Lab::open(options.shape.name);
  if (!lab.ok()) {
    const bool misplaced =
        std::find(options.words.begin(), options.words.end(), "--name") != options.words.end();
    const std::string advice =
        misplaced ? "; an option after the program's name is the program's: put --name before it"
                  : "";
    return report({lab.status().code(), lab.status().message() + advice});
  }
  return work(&lab.value());
}

// Prints the time too, so that faults can be matched with operation logs, which use the same clock.
void print_event(const LabTarget& target, const std::string& what) {
  double seconds = static_cast<double>(SystemClock().now()) / 1e9;
  std::printf("%s %s, at %.6f s of the monotonic clock\n", target.text.c_str(), what.c_str(),
              seconds);
  std::fflush(stdout);
}

int up(const LabOptions& options) {
  Result<LabSpec> spec = make_lab_spec(options.shape);
  if (!spec.ok()) return report(spec.status());
  Result<Lab> lab = Lab::up(spec.value());
  if (!lab.ok()) return report(lab.status());
  std::printf("lab '%s' is up: hosts h0 to h%d, rails rail0 to rail%d, and mgmt\n",
              spec.value().name.c_str(), spec.value().host_count() - 1,
              spec.value().rail_count() - 1);
  return 0;
}

int run(const LabOptions& options) {
  return with_lab(options, [&](Lab* lab) {
    std::optional<int> host = parse_host(lab->spec(), options.host);
    if (!host) {
      return report({Code::invalid_argument, "'" + options.host +
                                                 "': the lab has the hosts h0 to h" +
                                                 std::to_string(lab->spec().host_count() - 1)});
    }
    return report(run_on_host(*lab, *host, options.words));
  });
}

int all(const LabOptions& options) {
  return with_lab(options, [&](Lab* lab) {
    LabJob job = options.job;
    job.argv = options.words;
    Result<int> worst = run_on_all(*lab, job);
    return worst.ok() ? worst.value() : report(worst.status());
  });
}

int fault(const LabOptions& options) {
  return with_lab(options, [&](Lab* lab) {
    std::vector<std::string> words = options.words;
    Result<LabTarget> target = parse_target(lab->spec(), &words);
    if (!target.ok()) return report(target.status());
    Result<LabFault> kind = parse_fault(words);
    if (!kind.ok()) return report(kind.status());
    Status status = lab->fault(target.value(), kind.value());
    if (status.ok()) print_event(target.value(), effect_of(kind.value()));
    return report(status);
  });
}

int fix(const LabOptions& options) {
  return with_lab(options, [&](Lab* lab) {
    if (options.words.empty()) {
      Status status = lab->fix_all();
      if (status.ok()) print_event({{}, true, "everything"}, "works again");
      return report(status);
    }
    std::vector<std::string> words = options.words;
    Result<LabTarget> target = parse_target(lab->spec(), &words);
    if (!target.ok()) return report(target.status());
    if (!words.empty()) return report({Code::invalid_argument, "'" + words[0] + "' is too much"});
    Status status = lab->fix(target.value());
    if (status.ok()) print_event(target.value(), "works again");
    return report(status);
  });
}

int pause(const LabOptions& options) {
  return with_lab(options, [&](Lab* lab) {
    std::vector<std::string> words = options.words;
    Result<LabTarget> target = parse_target(lab->spec(), &words);
    if (!target.ok()) return report(target.status());
    std::optional<int> ms;
    if (words.size() == 1) ms = parse_int(words[0]);
    if (!ms || *ms <= 0) return report({Code::invalid_argument, "pause needs a time in ms"});
    Status status = lab->fault(target.value(), {FaultKind::hole, 0, false});
    if (!status.ok()) return report(status);
    print_event(target.value(),
                effect_of({FaultKind::hole, 0, false}) + ", for " + std::to_string(*ms) + " ms");
    pause_for(*ms / 1e3);
    status = lab->unhole(target.value());
    if (status.ok()) print_event(target.value(), "works again");
    return report(status);
  });
}

int stat(const LabOptions& options) {
  return with_lab(options, [&](Lab* lab) {
    for (int host = 0; host < lab->spec().host_count(); ++host) {
      Result<std::vector<NicBytes>> nics = lab->bytes(host);
      if (!nics.ok()) return report(nics.status());
      std::printf("h%d", host);
      for (const NicBytes& nic : nics.value()) {
        std::printf("  %s %llu/%llu", nic.device.c_str(), static_cast<unsigned long long>(nic.tx),
                    static_cast<unsigned long long>(nic.rx));
      }
      std::printf("\n");
    }
    return 0;
  });
}

void add_up(CLI::App* lab, const std::shared_ptr<LabOptions>& o, Action* action) {
  CLI::App* sub = lab->add_subcommand(
      "up", "Make a lab: HOSTS hosts with NICS NICs of RATE Mbit/s each; replaces one that is up");
  LabShape& shape = o->shape;
  sub->add_option("hosts", shape.hosts, "number of hosts")->required();
  sub->add_option("nics", shape.nics, "NICs per host")->required();
  sub->add_option("rate", shape.rate_mbit, "Mbit/s per NIC and direction; 0: unshaped")
      ->type_name("MBIT")
      ->required();
  sub->add_option("--mtu", shape.mtu, "MTU of every interface")->capture_default_str();
  sub->add_flag("--ipv6", shape.ipv6, "IPv6 addresses in place of IPv4");
  sub->add_option("--cc", shape.congestion, "TCP congestion control in the hosts")
      ->type_name("NAME")
      ->capture_default_str();
  sub->add_option("--mgmt", shape.mgmt_mbit, "Mbit/s of the management network; 0: unshaped")
      ->type_name("MBIT")
      ->capture_default_str();
  sub->add_option("--nics", shape.nics_per_host, "NICs host by host: 4,4,2,1")
      ->type_name("N,...")
      ->delimiter(',');
  sub->add_option("--rates", shape.rates,
                  "Mbit/s NIC by NIC, or of one NIC of one host: 250,250,100,h1:nic2=25")
      ->type_name("MBIT,...")
      ->delimiter(',');
  sub->add_option("--mtus", shape.mtus, "MTUs, in the same form")
      ->type_name("N,...")
      ->delimiter(',');
  sub->add_option("--burst", shape.burst_bytes,
                  "shaper bucket in bytes; 0: 4 ms of the rate, at least 66,000")
      ->type_name("BYTES")
      ->capture_default_str();
  sub->add_option("--queue-ms", shape.queue_ms, "longest wait in a shaper's queue")
      ->type_name("MS")
      ->capture_default_str();
  sub->add_flag("--single-packets", shape.single_packets,
                "no segmentation offload: `lose` then takes packets, and not up to 64 KB at once");
  sub->callback([o, action] { *action = [o] { return up(*o); }; });
}

// Takes the rest of the line, from the first word that is no option of the lab, as a program to
// run.
void take_command(CLI::App* sub, const std::shared_ptr<LabOptions>& o, Action* action,
                  int (*work)(const LabOptions&)) {
  sub->prefix_command();
  sub->fallthrough(false);
  sub->footer("Options go before the program; words after its name belong to the program.");
  sub->add_option("--name", o->shape.name, "which lab (also R2CCL_LAB)")
      ->type_name("NAME")
      ->capture_default_str();
  sub->callback([o, sub, action, work] {
    o->words = sub->remaining();
    if (o->words.empty()) throw CLI::RequiredError("a program to run");
    *action = [o, work] { return work(*o); };
  });
}

void add_run(CLI::App* lab, const std::shared_ptr<LabOptions>& o, Action* action) {
  CLI::App* run_sub =
      lab->add_subcommand("run", "Run a program inside one host: run [--name LAB] h0 PROGRAM ...");
  run_sub->add_option("host", o->host, "h0, h1, ...")->type_name("HOST")->required();
  take_command(run_sub, o, action, &run);

  CLI::App* all_sub = lab->add_subcommand(
      "all",
      "Run a program on every host at once, as the ranks of one job; returns the worst status");
  all_sub->add_option("--procs", o->job.procs_per_host, "ranks per host")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  all_sub->add_option("--port", o->job.master_port, "MASTER_PORT")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  all_sub->add_flag("--prefix", o->job.prefix_lines, "put the host before every line of output");
  take_command(all_sub, o, action, &all);
}

}  // namespace

void add_lab_command(CLI::App* app, Action* action) {
  auto o = std::make_shared<LabOptions>();
  if (const char* name = std::getenv("R2CCL_LAB"); name != nullptr) o->shape.name = name;
  CLI::App* lab = app->add_subcommand(
      "lab", "A cluster inside this machine whose NICs, switches and cables can be broken");
  lab->require_subcommand(1);
  lab->fallthrough();
  lab->add_option("--name", o->shape.name, "which lab (also R2CCL_LAB)")
      ->type_name("NAME")
      ->capture_default_str();
  add_up(lab, o, action);
  add_run(lab, o, action);
  auto add = [&](const char* name, const char* help, const char* words_help,
                 int (*work)(const LabOptions&)) {
    CLI::App* sub = lab->add_subcommand(name, help);
    if (words_help != nullptr) sub->add_option("what", o->words, words_help)->type_name("WORDS");
    sub->callback([o, action, work] { *action = [o, work] { return work(*o); }; });
  };
  static const std::string fault_help =
      std::string(kTargetHelp) +
      ", then down | pull | hole | hole-tx | hole-rx | slow MBIT | lose PERCENT";
  add("fault", "Break something: fault h2 nic1 hole", fault_help.c_str(), &fault);
  add("fix", "Undo every fault of something, or of everything", kTargetHelp, &fix);
  add("pause", "A hole for some milliseconds: pause h2 nic1 500", kTargetHelp, &pause);
  add("stat", "Bytes per NIC (sent/received)", nullptr, &stat);
  CLI::App* sub = lab->add_subcommand("down", "Remove the lab and everything that runs in it");
  sub->callback([o, action] { *action = [o] { return report(Lab::down(o->shape.name)); }; });
}

}  // namespace r2ccl::tools
