#include "api/given_config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "api/call_name.h"
#include "base/printable.h"

namespace r2ccl::api {
namespace {

// No version of the struct is as large. A larger size was never initialised and must not be read.
constexpr size_t kConfigBytesMax = 4096;

// Checks that the part of the struct beyond this version is unset. A newer library would obey a
// field in the tail. This one refuses it, because it must not ignore it.
Status check_tail(const r2cclConfig_t& given) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  const auto* known = bytes + std::min(given.size, sizeof given);
  const auto* set = std::find_if(known, bytes + given.size, [](auto byte) { return byte != 0; });
  if (set == bytes + given.size) return {};
  return {Code::invalid_argument,
          "config: byte " + std::to_string(set - bytes) +
              " belongs to a field that is set and that this version of r2ccl does not know; load "
              "the version of r2ccl that the program was compiled with, or leave the field unset"};
}

Status set_time(const char* field, int given_ms, TimeNs* time) {
  if (given_ms == R2CCL_CONFIG_UNDEF_INT) return {};
  if (given_ms < 1) {
    return {Code::invalid_argument, "config." + std::string(field) + " is " +
                                        std::to_string(given_ms) +
                                        ", it must be 1 or more; R2CCL_CONFIG_INITIALIZER leaves "
                                        "it unset"};
  }
  *time = given_ms * kMillisecond;
  return {};
}

// Bytes of a caller's text that an error shows.
constexpr size_t kShownBytesMax = 64;

Status set_algorithm(const char* given, Config* config) {
  if (given == nullptr) return {};
  const auto algorithm = parse_algorithm(given);
  if (!algorithm.ok()) {
    return algorithm.status().with_context("config.algorithm=" +
                                           printable_text(given, kShownBytesMax));
  }
  config->algo = algorithm.value();
  return {};
}

}  // namespace

Status apply_config(const r2cclConfig_t& given, Config* config) {
  if (given.magic != R2CCL_CONFIG_MAGIC || given.size < offsetof(r2cclConfig_t, blocking) ||
      given.size > kConfigBytesMax) {
    return {Code::invalid_argument,
            "the config struct was not initialised with R2CCL_CONFIG_INITIALIZER"};
  }
  R2CCL_RETURN_IF_ERROR(check_tail(given));
  // A field that an older caller does not have keeps its initial value.
  r2cclConfig_t mine = R2CCL_CONFIG_INITIALIZER;
  std::memcpy(&mine, &given, std::min(given.size, sizeof mine));
  if (mine.blocking != 1) {
    return {Code::invalid_argument,
            "config.blocking is " + std::to_string(mine.blocking) + ", it must be 1"};
  }
  if (mine.ifname != nullptr) {
    config->socket_ifname = mine.ifname;
    config->socket_ifname_variable = "config.ifname";
  }
  if (mine.oob_ifname != nullptr) {
    config->oob_ifname = mine.oob_ifname;
    config->oob_ifname_variable = "config.oob_ifname";
  }
  if (mine.reproducible < -1 || mine.reproducible > 1) {
    return {Code::invalid_argument, "config.reproducible is " + std::to_string(mine.reproducible) +
                                        ", it must be 1 (on), -1 (off) or 0 (unset)"};
  }
  if (mine.trusted_id < 0 || mine.trusted_id > 1) {
    return {Code::invalid_argument, "config.trusted_id is " + std::to_string(mine.trusted_id) +
                                        ", it must be 1 (no stranger knows the id) or 0 (unset)"};
  }
  if (mine.reproducible != 0) config->reproducible = mine.reproducible == 1;
  R2CCL_RETURN_IF_ERROR(set_algorithm(mine.algorithm, config));
  if (mine.name != nullptr) config->name = printable_text(mine.name, kNameBytesMax);
  R2CCL_RETURN_IF_ERROR(
      set_time("init_timeout_ms", mine.init_timeout_ms, &config->init_timeout_ns));
  return set_time("cutoff_ms", mine.cutoff_ms, &config->cutoff_ns);
}

bool trusts_id(const r2cclConfig_t* given) {
  return given != nullptr && given->size >= offsetof(r2cclConfig_t, algorithm) &&
         given->trusted_id == 1;
}

}  // namespace r2ccl::api
