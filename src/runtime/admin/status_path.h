// The directory and the names of the status sockets of running communicators. The library creates
// the sockets and `r2ccl status` looks for them; both check the directory by the same rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"

namespace r2ccl {

// "PID-COMM-RANK.sock". The name lets a client choose a socket without connecting.
struct StatusName {
  uint32_t pid = 0;
  uint64_t comm = 0;  // equal on all ranks of a communicator
  Rank rank;
  friend bool operator==(const StatusName&, const StatusName&) = default;
};
std::string to_string(const StatusName& name);
// Returns none unless to_string() gives exactly this text.
std::optional<StatusName> parse_status_name(std::string_view text);

// Returns a communicator's id as users see it: 16 hexadecimal digits.
std::string comm_text(uint64_t comm);

// Returns the directory of user `uid` in `runtime_dir` (XDG_RUNTIME_DIR), or in /tmp when that is
// no absolute path.
std::string status_directory(const std::string& runtime_dir, uint32_t uid);

// Ok when `directory` is a directory and no link, belongs to `uid` and admits no other user.
// Otherwise any user may have created the files in it.
Status check_status_directory(const std::string& directory, uint32_t uid);

}  // namespace r2ccl
