// `r2ccl demo`: its command line.
#include <memory>

#include "tools/common/command.h"
#include "tools/demo/demo.h"

namespace r2ccl::tools {

void add_demo_command(CLI::App* app, Action* action) {
  auto o = std::make_shared<DemoOptions>();
  CLI::App* sub = app->add_subcommand(
      "demo", "Break NICs under a running all-reduce, in a lab of its own, and draw the run");
  sub->add_option("--hosts", o->hosts, "hosts")->check(CLI::Range(2, 16))->capture_default_str();
  sub->add_option("--nics", o->nics, "NICs per host")
      ->check(CLI::Range(2, 8))
      ->capture_default_str();
  sub->add_option("--rate", o->rate_mbit,
                  "Mbit/s per NIC; by default 250, or less where the processor cannot drive that")
      ->type_name("MBIT")
      ->check(CLI::Range(1.0, 100000.0));
  sub->add_option("--bytes", o->bytes,
                  "size of one operation; by default 4M at 250 Mbit/s, and in proportion else")
      ->type_name("SIZE");
  sub->add_option("--fault-seconds", o->fault_s, "how long each fault lasts")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  sub->add_option("--mend-seconds", o->mend_s, "how long all is well in between")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  sub->add_option("--svg", o->svg_file, "where the picture goes")
      ->type_name("FILE")
      ->capture_default_str();
  sub->add_option("--json", o->json_file, "keep the benchmark's results here")->type_name("FILE");
  sub->add_flag("--loopback", o->loopback,
                "make no lab: NICs are loopback addresses and faults are simulated, as happens by "
                "itself where namespaces may not be made");
  sub->add_option("--name", o->lab_name, "name of the lab")
      ->type_name("NAME")
      ->capture_default_str();
  sub->callback([o, action] {
    *action = [o] {
      Result<int> status = run_demo(*o);
      return status.ok() ? status.value() : report_error("demo", status.status());
    };
  });
}

}  // namespace r2ccl::tools
