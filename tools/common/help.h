// The help of the r2ccl command: its form, the examples, `r2ccl help`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace r2ccl::tools {

// CLI11's help without its names of C++ types: SECONDS and not "FLOAT:FLOAT in [0.5 - 3600]".
// Bounds and defaults follow the description, and no line is longer than 100 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_description(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// Returns the help of `command`, whose words are `name`: "r2ccl lab up".
std::string help_text(const CLI::App& command, const std::string& name);

// Appends its examples to the help of every command. Requires that all commands are registered.
void add_examples(CLI::App* app);

}  // namespace r2ccl::tools
