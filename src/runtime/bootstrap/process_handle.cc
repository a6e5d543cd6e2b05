#include "runtime/bootstrap/process_handle.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "base/printable.h"
#include "runtime/bootstrap/host_identity.h"

namespace r2ccl {
namespace {

constexpr std::string_view kPrefix = "r2ccl1:";
constexpr size_t kHexDigits = 2 * crypto::kPublicKeyBytes;
constexpr size_t kHostPartMax = 64;    // as Linux has it
constexpr size_t kShownBytesMax = 60;  // a text that is no handle is cut there

struct OwnKey {
  std::mutex mutex;  // guards key; held across fork
  std::unique_ptr<const crypto::ProcessKey> key;
};

// Never destroyed: at exit another thread may still ask.
OwnKey& own() {
  static auto* const instance = new OwnKey;
  return *instance;
}

void unlock_in_child() {
  // Never freed here: only async-signal-safe calls are allowed.
  (void)own().key.release();
  own().mutex.unlock();
}

bool is_of_host_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '?';
}

std::string host_part() {
  std::string host = host_name().substr(0, kHostPartMax);
  std::ranges::replace_if(
      host, [](char c) { return !is_of_host_name(c); }, '-');
  return host;
}

std::string shown(std::string_view text) {
  return '"' + printable_text(text, kShownBytesMax) + '"';
}

}  // namespace

const crypto::ProcessKey& process_key() {
  [[maybe_unused]] static const bool registered = [] {
    at_fork([] { own().mutex.lock(); }, [] { own().mutex.unlock(); }, unlock_in_child);
    return true;
  }();
  std::lock_guard lock(own().mutex);
  if (own().key == nullptr) own().key = std::make_unique<const crypto::ProcessKey>();
  return *own().key;
}

std::string process_handle() {
  const crypto::PublicKey& key = process_key().public_key();
  std::string digits(kHexDigits + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), reinterpret_cast<const unsigned char*>(key.data()),
                 key.size());
  digits.pop_back();
  return std::string(kPrefix) + host_part() + ':' + std::to_string(getpid()) + ':' + digits;
}

std::optional<crypto::PublicKey> key_of_handle(std::string_view handle) {
  if (handle.size() > kProcessHandleMax || !handle.starts_with(kPrefix)) return std::nullopt;
  handle.remove_prefix(kPrefix.size());
  const size_t host_end = handle.find(':');
  if (host_end == std::string_view::npos || host_end == 0) return std::nullopt;
  if (!std::ranges::all_of(handle.substr(0, host_end), is_of_host_name)) return std::nullopt;
  handle.remove_prefix(host_end + 1);
  const size_t pid_end = handle.find(':');
  if (pid_end == std::string_view::npos) return std::nullopt;
  int pid = 0;
  const auto parsed = std::from_chars(handle.data(), handle.data() + pid_end, pid);
  if (parsed.ec != std::errc() || parsed.ptr != handle.data() + pid_end || pid <= 0) {
    return std::nullopt;
  }
  const std::string_view digits = handle.substr(pid_end + 1);
  crypto::PublicKey key;
  size_t length = 0;
  if (digits.size() != kHexDigits ||
      sodium_hex2bin(reinterpret_cast<unsigned char*>(key.data()), key.size(), digits.data(),
                     digits.size(), nullptr, &length, nullptr) != 0 ||
      length != key.size()) {
    return std::nullopt;
  }
  return key;
}

Result<int> find_own_handle(std::span<const std::string_view> handles) {
  std::vector<crypto::PublicKey> keys;
  for (const std::string_view handle : handles) {
    const auto key = key_of_handle(handle);
    if (!key) {
      return Status(Code::invalid_argument, shown(handle) + " is no handle of a process of r2ccl");
    }
    keys.push_back(*key);
  }
  std::vector<crypto::PublicKey> sorted = keys;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) {
    return Status(
        Code::invalid_argument,
        "two handles of one process: " +
            std::string(
                handles[static_cast<size_t>(std::ranges::find(keys, *twice) - keys.begin())]));
  }
  const auto found = std::ranges::find(keys, process_key().public_key());
  if (found == keys.end()) {
    return Status(Code::invalid_argument, "the handle of this process, " + process_handle() +
                                              ", is not in the list of " +
                                              std::to_string(handles.size()) +
                                              ": a process that is left out does not call");
  }
  return static_cast<int>(found - keys.begin());
}

}  // namespace r2ccl
