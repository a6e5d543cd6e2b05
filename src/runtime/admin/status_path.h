// Where the status sockets of running communicators lie and what their names tell. The library
// makes them, `r2ccl status` looks for them, and both judge the directory alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"

namespace r2ccl {

// "PID-COMM-RANK.sock", so that one may be chosen without asking any.
struct StatusName {
  uint32_t pid = 0;
  uint64_t comm = 0;  // the same on all ranks of a communicator
  Rank rank;
  friend bool operator==(const StatusName&, const StatusName&) = default;
};
std::string to_string(const StatusName& name);
// None unless to_string() makes just this.
std::optional<StatusName> parse_status_name(std::string_view text);

// A communicator's id as people see it: 16 hexadecimal digits.
std::string comm_text(uint64_t comm);

// The directory of user `uid` in `runtime_dir` (XDG_RUNTIME_DIR), or in /tmp when that is no
// absolute path.
std::string status_directory(const std::string& runtime_dir, uint32_t uid);

// Ok when `directory` is one, no link to one, belongs to `uid` and lets nobody else in: otherwise
// what lies there may be anybody's.
Status check_status_directory(const std::string& directory, uint32_t uid);

}  // namespace r2ccl
