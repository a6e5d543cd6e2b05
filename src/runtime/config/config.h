// The settings that the environment gives. One table holds the name, the permitted values and the
// meaning of each variable; docs/configuration.md is printed from that table.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "protocol/wire/locked_bytes.h"
#include "transport/endpoint.h"

namespace r2ccl {

enum class AlgorithmChoice : uint8_t {
  automatic,
  ring,
  halving_doubling,
  recursive_doubling,
  hierarchical,
  direct,
  nested,
  split,
  recursive_split,
  leaf,
  packed
};

// The devices of NCCL's that the plugin has.
enum class NcclDevices : uint8_t { per_nic, one };

// Notes on the variables for a person.
struct ConfigNotes {
  std::vector<std::string> warnings;  // each a sentence
  std::vector<std::string> in_force;  // "R2CCL_ALGO=ring", without confidential values
  friend bool operator==(const ConfigNotes&, const ConfigNotes&) = default;
};

// An empty text means "not set".
struct Config {
  std::string name;           // of the communicator; only its caller sets it
  std::string socket_ifname;  // NCCL's syntax: prefixes, =exact, ^not
  AddressFamily socket_family = AddressFamily::none;  // none: both
  std::string oob_ifname;
  LogLevel debug = LogLevel::none;
  std::string debug_file;
  std::string comm_id;  // host:port
  LockedBytes secret;   // the text
  std::string secret_file;
  bool require_auth = false;
  TimeNs cutoff_ns = 300 * kSecond;
  TimeNs init_timeout_ns = 120 * kSecond;
  bool monitor = true;
  AlgorithmChoice algo = AlgorithmChoice::automatic;
  bool reproducible = false;
  bool damping = true;
  bool views = true;
  std::string host_id;
  bool shm = true;
  bool shm_direct = true;
  NcclDevices nccl_devices = NcclDevices::per_nic;
  std::string fault_file;
  bool status = true;
  std::string runtime_dir;
  // The names of the variables that were set, for errors: r2ccl's or NCCL's of the same meaning.
  std::string socket_ifname_variable = "R2CCL_SOCKET_IFNAME";
  std::string oob_ifname_variable = "R2CCL_OOB_IFNAME";
  std::string debug_file_variable = "R2CCL_DEBUG_FILE";
  std::string comm_id_variable = "R2CCL_COMM_ID";
  ConfigNotes notes;

  friend bool operator==(const Config&, const Config&) = default;
};

// As getenv. A parameter, so that only the C edge reads the process's environment.
using GetEnv = std::function<const char*(const char* name)>;

// Returns the configuration. Fails at the first invalid variable; the error names the variable, its
// value and the permitted values. Ignores an invalid variable of NCCL's with a warning. An empty
// variable counts as not set.
Result<Config> load_config(const GetEnv& get_env);

// Returns a warning for each entry of `environment` ("NAME=value") that looks like a setting and is
// not one.
std::vector<std::string> unknown_settings(std::span<const char* const> environment);

// Returns true when another library owns the variable, so an invalid value must not fail this one.
inline bool is_foreign(const std::string& variable) {
  return variable.starts_with("NCCL_");
}

// Returns the text of R2CCL_SECRET or of the file that R2CCL_SECRET_FILE names; empty when neither
// is set. Refuses a file that is not regular, or that another user can read or could have written.
Result<LockedBytes> load_secret(const Config& config);

// Returns the algorithm's name as R2CCL_ALGO spells it.
const char* to_string(AlgorithmChoice algorithm);
// Reads such a name, in capital or small letters. An error lists all names.
Result<AlgorithmChoice> parse_algorithm(std::string_view name);

// Returns the table of all variables in Markdown, for docs/configuration.md.
std::string configuration_table();

}  // namespace r2ccl
