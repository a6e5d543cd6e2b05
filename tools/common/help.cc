#include "tools/common/help.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/command.h"

namespace r2ccl::tools {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kDescriptionColumn = 34;

struct Example {
  std::string_view command;  // its words after "r2ccl"
  const char* line;
  const char* meaning;
};

// Examples stand here and not beside each command, so that they have one form.
constexpr std::array kExamples = {
    Example{"", "r2ccl demo", "break NICs under a job and draw the run"},
    Example{"", "r2ccl bench -p 4 -b 16M", "measure AllReduce between four ranks on this machine"},
    Example{"", "r2ccl info", "print which NICs a job would use, and why"},
    Example{"", "r2ccl status", "show the running jobs of this host"},
    Example{"", "r2ccl help lab up", "print the help of one command"},
    Example{"bench", "r2ccl bench -p 4", "four ranks on this machine"},
    Example{"bench", "r2ccl bench -p 2 -b 1K -e 64M -f 4 -n 50",
            "1 KB to 64 MB, 50 operations each"},
    Example{"bench", "r2ccl bench -p 2 --collective sendrecv -c 0", "without checking the values"},
    Example{"bench", "mpirun -np 8 r2ccl bench -b 16M --duration 30", "as ranks of a launched job"},
    Example{"demo", "r2ccl demo", "in network namespaces, which needs root"},
    Example{"demo", "r2ccl demo --loopback --svg run.svg", "without root"},
    Example{"drain", "r2ccl drain h2 eth1", "take eth1 of host h2 out of service"},
    Example{"drain", "r2ccl drain h2 eth1 --undo", "use it again"},
    Example{"help", "r2ccl help bench", "the same as r2ccl bench --help"},
    Example{"info", "r2ccl info", "with R2CCL_SOCKET_IFNAME and the other settings in force"},
    Example{"lab", "r2ccl lab up 4 4 250", "4 hosts with 4 NICs of 250 Mbit/s each"},
    Example{"lab", "r2ccl lab all r2ccl bench -b 16M", "a rank on every host"},
    Example{"lab", "r2ccl lab fault h2 nic1 hole", "nic1 of h2 loses every packet"},
    Example{"lab", "r2ccl lab down", "remove it"},
    Example{"lab up", "r2ccl lab up 4 4 250", "4 hosts with 4 NICs of 250 Mbit/s each"},
    Example{"lab up", "r2ccl lab --name two up 2 1 0 --mtu 9000", "a second lab, not shaped"},
    Example{"lab run", "r2ccl lab run h0 ip address", "look around in host h0"},
    Example{"lab all", "r2ccl lab all --prefix r2ccl bench -b 16M", "a rank on every host"},
    Example{"lab fault", "r2ccl lab fault h2 nic1 slow 10", "nic1 of h2 at 10 Mbit/s"},
    Example{"lab fault", "r2ccl lab fault h2 nic1 lose 5", "5 % of its packets are lost"},
    Example{"lab fix", "r2ccl lab fix h2 nic1", "mend nic1 of h2"},
    Example{"lab pause", "r2ccl lab pause h2 nic1 500", "half a second without packets"},
    Example{"lab stat", "r2ccl lab stat", "of every NIC of the lab"},
    Example{"lab down", "r2ccl lab --name two down", "remove the lab called two"},
    Example{"plan", "r2ccl plan show all_gather -p 4", "every rank's messages, and the proof"},
    Example{"plan show", "r2ccl plan show all_reduce -p 4 -c 1000", "four ranks, 1000 floats"},
    Example{"plan show", "r2ccl plan show broadcast -p 8 -c 9 --hosts 4,4 --rank 0",
            "rank 0 of eight on two hosts"},
    Example{"plan show", "r2ccl plan show all_gather -p 3 -c 5 --text > plan",
            "write the plan into a file"},
    Example{"plan show", "r2ccl plan show all_reduce -p 4 -c 1000000 --loss 50 --svg plan.svg",
            "draw it; host 0 has lost half"},
    Example{"plan explain", "r2ccl plan explain all_reduce -p 8 -c 1000000 --loss 50",
            "one of eight hosts has lost half"},
    Example{"plan check", "r2ccl plan check plan", "prove the plan in this file"},
    Example{"plan check", "r2ccl plan check plan --show --svg plan.svg", "show and draw it too"},
    Example{"secret", "r2ccl secret ~/.r2ccl-secret", "a new file with a new secret"},
    Example{"sim", "r2ccl sim fuzz --seeds 1..1000", "1000 random jobs with random faults"},
    Example{"sim fuzz", "r2ccl sim fuzz --seeds 1..1000", "1000 random jobs with random faults"},
    Example{"sim fuzz", "r2ccl sim fuzz --seeds 7 --twice", "whether seed 7 is the same run again"},
    Example{"sim replay", "r2ccl sim replay 7 --svg run.svg", "draw the run of seed 7"},
    Example{"sim replay", "r2ccl sim replay 7 --toml job.toml", "write its scenario, to change it"},
    Example{"sim run", "r2ccl sim run job.toml", "run a scenario"},
    Example{"sim plan", "r2ccl sim plan all_reduce --hosts 16 --nics 8 --loss 25",
            "one of 16 hosts has lost 2 NICs"},
    Example{"sim plan", "r2ccl sim plan broadcast --hosts 8 --fail 1,2,0 --nics 2",
            "NIC 0 of host 2 fails after 1 ms"},
    Example{"sim training", "r2ccl sim training --model 13b --hosts 16 --failures 1",
            "one of 128 NICs is lost"},
    Example{"sim serving", "r2ccl sim serving --model 70b", "a NIC is lost halfway"},
    Example{"sim losses", "r2ccl sim losses --seeds 1..100", "100 random jobs with lossy NICs"},
    Example{"sim rates", "r2ccl sim rates --mbit 10000", "all networks of 10 Gbit/s"},
    Example{"sim mutants", "r2ccl sim mutants", "names for sim fuzz --mutant"},
    Example{"status", "r2ccl status", "every job of this host, once"},
    Example{"status", "r2ccl status --watch 2 --paths", "every 2 seconds, with all paths"},
    Example{"status", "r2ccl status --json", "for programs"},
    Example{"version", "r2ccl version", "of the command and of the library it loaded"},
};

std::string examples_of(std::string_view command) {
  size_t width = 0;
  for (const Example& each : kExamples) {
    if (each.command == command) width = std::max(width, std::string_view(each.line).size());
  }
  std::string text;
  for (const Example& each : kExamples) {
    if (each.command != command) continue;
    const std::string line = each.line;
    text += "\n  " + line + std::string(width - line.size() + 2, ' ') + each.meaning;
  }
  return text.empty() ? "" : "Examples:" + text;
}

void add_examples(CLI::App* command, const std::string& name) {
  const std::string footer = command->get_footer();
  const std::string examples = examples_of(name);
  if (!examples.empty()) command->footer(footer + (footer.empty() ? "" : "\n\n") + examples);
  for (CLI::App* sub : command->get_subcommands(nullptr)) {
    add_examples(sub, name + (name.empty() ? "" : " ") + sub->get_name());
  }
}

// Returns lines of at most `width` bytes, broken at spaces.
std::string wrapped(const std::string& text, size_t width) {
  std::istringstream words(text);
  std::string out;
  size_t used = 0;
  for (std::string word; words >> word;) {
    const bool fits = used + 1 + word.size() <= width;
    if (!out.empty()) out += fits ? ' ' : '\n';
    used = (fits && !out.empty() ? used + 1 : 0) + word.size();
    out += word;
  }
  return out;
}

// Splits "FLOAT:FLOAT in [0.5 - 3600]" into the type and "0.5 to 3600".
std::pair<std::string, std::string> type_and_bounds(const CLI::Option& option) {
  const std::string whole = option.get_type_name();
  std::string type = whole.substr(0, whole.find(':'));
  if (type == "INT" || type == "UINT") type = "N";
  if (type == "FLOAT") type = "NUMBER";
  std::string bounds;
  const size_t from = whole.find(" in [");
  const size_t to = whole.find(']', from);
  if (from != std::string::npos && to != std::string::npos) {
    bounds = whole.substr(from + 5, to - from - 5);
    if (const size_t dash = bounds.find(" - "); dash != std::string::npos) {
      bounds.replace(dash, 3, " to ");
    }
  }
  return {type, bounds};
}

// Prints the help of the command `words`, as for `r2ccl help lab up`.
int print_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string name = "r2ccl";
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = command->get_subcommands(nullptr);
    const auto found = std::ranges::find(commands, word, &CLI::App::get_name);
    if (found == commands.end()) {
      std::fprintf(stderr, "%s\n", no_such_command(*command, name, word).c_str());
      return kExitError;
    }
    command = *found;
    name += " " + word;
  }
  std::fputs(help_text(*command, name).c_str(), stdout);
  return 0;
}

}  // namespace

HelpFormatter::HelpFormatter() {
  column_width(kDescriptionColumn);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), kColumns) + "\n";
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  std::stringstream out;
  CLI::detail::format_help(out, sub->get_name(),
                           wrapped(sub->get_description(), kColumns - kDescriptionColumn),
                           kDescriptionColumn);
  return out.str();
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (!option->get_option_text().empty()) return " " + option->get_option_text();
  if (option->get_type_size() == 0) return "";
  const std::string name = option->get_name(true, false);
  // A positional in capitals needs no type: its name gives it.
  const bool says_it =
      option->get_positional() && std::isupper(static_cast<unsigned char>(name[0]));
  const bool optional_value = option->get_expected_min() == 0 && !option->get_positional();
  const std::string type = says_it ? "" : type_and_bounds(*option).first;
  if (type.empty()) return "";
  return optional_value ? " [" + type + "]" : " " + type;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string notes = type_and_bounds(*option).second;
  if (!option->get_default_str().empty()) {
    notes += (notes.empty() ? "" : "; ") + ("default " + option->get_default_str());
  }
  return wrapped(option->get_description() + (notes.empty() ? "" : " (" + notes + ")"),
                 kColumns - kDescriptionColumn);
}

std::string help_text(const CLI::App& command, const std::string& name) {
  return command.get_formatter()->make_help(&command, name, CLI::AppFormatMode::Normal);
}

void add_examples(CLI::App* app) {
  add_examples(app, "");
}

void add_help_command(CLI::App* app, Action* action) {
  CLI::App* sub = app->add_subcommand("help", "Print the help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  sub->add_option("COMMAND", *words, "Its words: lab up");
  sub->callback(
      [app, words, action] { *action = [app, words] { return print_help(*app, *words); }; });
}

}  // namespace r2ccl::tools
