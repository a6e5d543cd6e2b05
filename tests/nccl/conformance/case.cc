#include "conformance/case.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

namespace conformance {
namespace {

// Reads exactly so many bytes. Returns false when the other process has ended.
bool read_all(int channel, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = recv(channel, at, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

void write_all(int channel, const void* data, size_t bytes) {
  if (send(channel, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    throw Failure("the other process has ended");
  }
}

}  // namespace

void check(bool holds, const char* text, const char* file, int line) {
  if (holds) return;
  throw Failure(std::filesystem::path(file).filename().string() + ":" + std::to_string(line) +
                ": " + text + " does not hold");
}

void succeed(Outcome outcome, const char* call) {
  if (outcome == r2ccl::nccl::kSuccess) return;
  std::string text = std::string(call) + " fails with " + std::to_string(outcome);
  for (const std::string& line : take_warnings()) text += "\n  " + line;
  throw Failure(text);
}

std::vector<std::byte> Side::exchange(std::span<const std::byte> mine) {
  const auto count = static_cast<uint32_t>(mine.size());
  write_all(channel_, &count, sizeof count);
  if (count > 0) write_all(channel_, mine.data(), count);
  uint32_t theirs = 0;
  if (!read_all(channel_, &theirs, sizeof theirs)) throw Failure("the other process has ended");
  std::vector<std::byte> bytes(theirs);
  if (!read_all(channel_, bytes.data(), theirs)) throw Failure("the other process has ended");
  return bytes;
}

pid_t Side::other() {
  const pid_t own = getpid();
  const auto theirs = exchange(std::as_bytes(std::span(&own, 1)));
  pid_t other = 0;
  CONFORMANCE_CHECK(theirs.size() == sizeof other);
  std::memcpy(&other, theirs.data(), sizeof other);
  return other;
}

void Side::meet() {
  (void)exchange({});
}

void Side::expect_end() {
  char byte = 0;
  if (read_all(channel_, &byte, 1)) throw Failure("the other process has not ended");
}

void Side::vanish() {
  _exit(0);
}

}  // namespace conformance
