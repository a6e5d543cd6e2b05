// The settings that the environment gives, from one table: what a variable is called, what it may
// hold, what it means. docs/configuration.md is printed from the same table.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "protocol/wire/locked_bytes.h"
#include "transport/endpoint.h"

namespace r2ccl {

enum class AlgorithmChoice : uint8_t { automatic, ring, halving_doubling };

// Notes on the variables for a person, beside the settings themselves.
struct ConfigNotes {
  std::vector<std::string> warnings;  // each a sentence
  std::vector<std::string> in_force;  // "R2CCL_ALGO=ring", without confidential values
  friend bool operator==(const ConfigNotes&, const ConfigNotes&) = default;
};

// An empty text means "not set".
struct Config {
  std::string socket_ifname;                          // NCCL's syntax: prefixes, =exact, ^not
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
  bool damping = true;
  std::string host_id;
  std::string fault_file;
  bool status = true;
  std::string runtime_dir;
  // The variables that were set, for errors: each may also be NCCL's of the same meaning.
  std::string socket_ifname_variable = "R2CCL_SOCKET_IFNAME";
  std::string oob_ifname_variable = "R2CCL_OOB_IFNAME";
  std::string debug_file_variable = "R2CCL_DEBUG_FILE";
  std::string comm_id_variable = "R2CCL_COMM_ID";
  ConfigNotes notes;

  friend bool operator==(const Config&, const Config&) = default;
};

// As getenv; a parameter, so that nothing but the C edge reads the process's environment.
using GetEnv = std::function<const char*(const char* name)>;

// Fails at the first variable that makes no sense, naming it, its value and what is allowed. A
// foreign variable (NCCL's) that makes no sense here is ignored, with a warning. An empty variable
// counts as not set.
Result<Config> load_config(const GetEnv& get_env);

// A warning for each entry of `environment` ("NAME=value") that looks like a setting and is none.
std::vector<std::string> unknown_settings(std::span<const char* const> environment);

// The variable is another library's, which may not make this one fail.
inline bool is_foreign(const std::string& variable) {
  return variable.starts_with("NCCL_");
}

// The text from R2CCL_SECRET or the file that R2CCL_SECRET_FILE names; empty when neither is set.
// Refuses a file that another user could read or have written, or that is no regular file.
Result<LockedBytes> load_secret(const Config& config);

// The algorithm's name as R2CCL_ALGO spells it.
const char* to_string(AlgorithmChoice algorithm);

// The table of all variables in Markdown, for docs/configuration.md.
std::string configuration_table();

}  // namespace r2ccl
