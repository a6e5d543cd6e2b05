#include "runtime/admin/status_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>

namespace r2ccl {
namespace {

constexpr std::string_view kSuffix = ".sock";

// Takes the number at the start of `text`, and the character after it.
template <typename T>
bool take(std::string_view& text, T& value, int base, char after) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  const auto length = static_cast<size_t>(end - text.data());
  if (error != std::errc() || length == text.size() || text[length] != after) return false;
  text.remove_prefix(length + 1);
  return true;
}

}  // namespace

std::string comm_text(uint64_t comm) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(comm));
  return digits;
}

std::string to_string(const StatusName& name) {
  return std::to_string(name.pid) + "-" + comm_text(name.comm) + "-" +
         std::to_string(name.rank.value()) + std::string(kSuffix);
}

std::optional<StatusName> parse_status_name(std::string_view text) {
  StatusName name;
  int32_t rank = 0;
  std::string_view rest = text;
  if (!take(rest, name.pid, 10, '-') || !take(rest, name.comm, 16, '-') ||
      !take(rest, rank, 10, kSuffix.front())) {
    return std::nullopt;
  }
  name.rank = Rank(rank);
  return to_string(name) == text ? std::optional(name) : std::nullopt;
}

std::string status_directory(const std::string& runtime_dir, uint32_t uid) {
  const bool absolute = !runtime_dir.empty() && runtime_dir.front() == '/';
  return (absolute ? runtime_dir : "/tmp") + "/r2ccl-" + std::to_string(uid);
}

Status check_status_directory(const std::string& directory, uint32_t uid) {
  struct stat found {};
  if (lstat(directory.c_str(), &found) != 0) return system_error(directory, errno);
  if (!S_ISDIR(found.st_mode)) {
    return {Code::system, directory + " is not a directory: remove it"};
  }
  if (found.st_uid != uid) {
    return {Code::system, directory + " belongs to uid " + std::to_string(found.st_uid) +
                              " and not to " + std::to_string(uid) + ": remove it"};
  }
  if ((found.st_mode & 0777) != 0700) {
    return {Code::system, directory + " is open to others: chmod 700 it"};
  }
  return {};
}

}  // namespace r2ccl
