#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "runtime/config/config.h"
#include "runtime/config/launch.h"
#include "testing/fuzz.h"
#include "testing/fuzz_text.h"

namespace r2ccl {
namespace {

using Variables = std::map<std::string, std::string>;

GetEnv lookup(const Variables& variables) {
  return [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// Checks that the settings in force, set as they are listed, give the same settings. Ignored
// variables of NCCL's leave a warning and are not in the list.
void check_again(const Variables& variables, Config config) {
  Variables in_force;
  for (const std::string& entry : config.notes.in_force) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, entry.find_first_of("= "));
    in_force[name] = equals == std::string::npos ? variables.at(name) : entry.substr(equals + 1);
  }
  const auto again = load_config(lookup(in_force));
  R2CCL_CHECK(again.ok() && again.value().notes.warnings.empty());
  config.notes.warnings.clear();
  R2CCL_CHECK(again.value() == config);
}

// Checks that the plain variables with the values of `launch` give the same values.
void check_launch(const Launch& launch) {
  R2CCL_CHECK(launch.rank.value() >= 0 && launch.rank.value() < launch.rank_count);
  R2CCL_CHECK(launch.rendezvous || launch.rank_count == 1);
  Variables plain = {{"RANK", std::to_string(launch.rank.value())},
                     {"WORLD_SIZE", std::to_string(launch.rank_count)}};
  if (launch.local_rank) plain["LOCAL_RANK"] = std::to_string(*launch.local_rank);
  if (launch.rendezvous) {
    R2CCL_CHECK(!launch.rendezvous->host.empty() && launch.rendezvous->port != 0);
    plain["MASTER_ADDR"] = launch.rendezvous->host;
    plain["MASTER_PORT"] = std::to_string(launch.rendezvous->port);
  }
  const auto again = detect_launch(lookup(plain), "");
  R2CCL_CHECK(again.ok() && again.value().rank == launch.rank);
  R2CCL_CHECK(again.value().rank_count == launch.rank_count);
  R2CCL_CHECK(again.value().local_rank == launch.local_rank);
  R2CCL_CHECK(again.value().rendezvous == launch.rendezvous);
}

void check_host_port(const std::string& text) {
  const auto where = parse_host_port(text);
  R2CCL_CHECK(where.ok());
  const auto again = parse_host_port(to_string(where.value()));
  R2CCL_CHECK(again.ok() && again.value() == where.value());
}

void check_unknown(const std::vector<std::string>& lines) {
  std::vector<const char*> entries;
  for (const std::string& line : lines) entries.push_back(line.c_str());
  for (const std::string& warning : unknown_settings(entries)) {
    R2CCL_CHECK(warning.starts_with("R2CCL_") && warning.find(" is not a setting") != 0);
  }
}

}  // namespace

bool fuzz_environment(std::span<const std::byte> input) {
  std::vector<std::string> lines;
  Variables variables;
  std::istringstream text(fuzz_text(input));
  for (std::string line; std::getline(text, line); lines.push_back(line)) {
    const size_t equals = line.find('=');
    // A variable's value ends at its NUL.
    if (equals != std::string::npos) {
      const std::string value = line.substr(equals + 1);
      variables[line.substr(0, equals)] = value.substr(0, value.find('\0'));
    }
  }
  check_unknown(lines);
  const auto config = load_config(lookup(variables));
  R2CCL_CHECK(config.ok() == config.status().message().empty());
  if (config.ok()) {
    check_again(variables, config.value());
    if (!config.value().comm_id.empty()) check_host_port(config.value().comm_id);
  } else {
    R2CCL_CHECK(config.status().code() == Code::invalid_argument);
  }
  const std::string comm_id = config.ok() ? config.value().comm_id : "";
  const auto launch = detect_launch(lookup(variables), comm_id);
  R2CCL_CHECK(launch.ok() == launch.status().message().empty());
  if (launch.ok()) check_launch(launch.value());
  return config.ok() && launch.ok();
}

}  // namespace r2ccl
