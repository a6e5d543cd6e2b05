#include "ll_lines.h"

#include <emmintrin.h>

#include <cstring>

namespace r2ccl::emulated {
namespace {

struct alignas(16) Line {
  uint32_t first;
  uint32_t first_flag;
  uint32_t second;
  uint32_t second_flag;
};

uint32_t flag_of(const Connection& connection) {
  return static_cast<uint32_t>(connection.step() + 1);
}

// Shortly before the flags wrap around, NCCL writes whole steps, so that no old line has a flag
// that will be expected again.
bool cleans(const Connection& sender) {
  constexpr uint64_t kLast = 0x7ffffff8;
  return (sender.step() & kLast) == kLast;
}

// One instruction each, which a compiler could split if it were an intrinsic: data and flags must
// be of one moment.
Line load_line(const Line* line) {
  __m128i value;
  asm volatile("movdqa %1, %0" : "=x"(value) : "m"(*line) : "memory");
  Line result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

void store_line(Line* line, const Line& content) {
  __m128i value;
  std::memcpy(&value, &content, sizeof value);
  asm volatile("movdqa %1, %0" : "=m"(*line) : "x"(value) : "memory");
}

}  // namespace

size_t ll_lines(size_t bytes) {
  return (bytes + kLlDataBytes - 1) / kLlDataBytes;
}

int64_t ll_message_bytes(const Connection& sender, size_t lines) {
  return cleans(sender) ? sender.step_bytes() : static_cast<int64_t>(lines * sizeof(Line));
}

void read_ll(const Connection& receiver, size_t lines, char* data) {
  const auto* buffer = reinterpret_cast<const Line*>(receiver.buffer());
  const uint32_t flag = flag_of(receiver);
  for (size_t i = 0; i < lines; ++i) {
    Waiting waiting = receiver.waiting();
    Line line = load_line(&buffer[i]);
    while (line.first_flag != flag || line.second_flag != flag) {
      waiting.pause();
      line = load_line(&buffer[i]);
    }
    std::memcpy(data + i * kLlDataBytes, &line.first, sizeof line.first);
    std::memcpy(data + i * kLlDataBytes + sizeof line.first, &line.second, sizeof line.second);
  }
}

void write_ll(const Connection& sender, size_t lines, const char* data) {
  auto* buffer = reinterpret_cast<Line*>(sender.buffer());
  const uint32_t flag = flag_of(sender);
  const size_t written = static_cast<size_t>(ll_message_bytes(sender, lines)) / sizeof(Line);
  for (size_t i = 0; i < written; ++i) {
    Line line = {0, flag, 0, flag};
    if (i < lines) {
      std::memcpy(&line.first, data + i * kLlDataBytes, sizeof line.first);
      std::memcpy(&line.second, data + i * kLlDataBytes + sizeof line.first, sizeof line.second);
    }
    store_line(&buffer[i], line);
  }
}

}  // namespace r2ccl::emulated
