#include "edge/settings.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <string_view>

#include "transport/nic_choice.h"
#include "transport/tcp/netlink.h"

namespace r2ccl {
namespace {

void warn_once(const std::string& warning) {
  static std::mutex mutex;  // guards told
  // Never destroyed: another thread may still warn while the process ends.
  static auto* const told = new std::set<std::string>;
  if (!log_enabled(LogLevel::warn)) return;
  std::lock_guard lock(mutex);
  if (told->insert(warning).second) R2CCL_LOG(warn, "%s", warning.c_str());
}

// Opens the log. A log file that was set for another library is no reason to fail.
Status open_log(const Config& config) {
  const Status opened = log_configure(config.debug, config.debug_file);
  if (opened.ok()) return {};
  const Status why = opened.with_context(config.debug_file_variable + "=" + config.debug_file);
  if (!is_foreign(config.debug_file_variable)) return why;
  R2CCL_RETURN_IF_ERROR(log_configure(config.debug, ""));
  warn_once(why.message() + ": it is ignored");
  return {};
}

// Ignores another library's choice of interfaces if it selects no usable one, because it may name
// interfaces that only that library uses.
void check_foreign_names(const std::string& variable, std::string& names) {
  if (names.empty() || !is_foreign(variable)) return;
  const auto all = read_nics();
  if (!all.ok()) return;
  const auto chosen = choose_nics(all.value(), {.text = names, .variable = variable});
  const bool usable = chosen.ok() && std::ranges::any_of(chosen.value(), &Nic::usable);
  if (usable) return;
  warn_once((chosen.ok() ? variable + "=" + names + " selects no usable interface"
                         : chosen.status().message()) +
            ": it is ignored");
  names.clear();
}

// A program that has more rights than its caller, by setuid or by capabilities of its file, takes
// no names of files from the caller's environment: it would read, or write, what the caller cannot.
const char* environment_of(const char* name) {
  const std::string_view text(name);
  const bool names_file = text.ends_with("_FILE") || text.ends_with("_DIR");
  return names_file && getauxval(AT_SECURE) != 0 ? nullptr : std::getenv(name);
}

}  // namespace

Result<Config> load_settings() {
  auto loaded = load_config(environment_of);
  if (!loaded.ok()) return loaded.status();
  Config config = std::move(loaded).value();
  R2CCL_RETURN_IF_ERROR(open_log(config));
  size_t entries = 0;
  while (environ != nullptr && environ[entries] != nullptr) ++entries;
  for (const std::string& warning : unknown_settings(std::span(environ, entries))) {
    warn_once(warning);
  }
  for (const std::string& warning : config.notes.warnings) warn_once(warning);
  check_foreign_names(config.socket_ifname_variable, config.socket_ifname);
  check_foreign_names(config.oob_ifname_variable, config.oob_ifname);
  return config;
}

}  // namespace r2ccl
