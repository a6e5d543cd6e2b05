// Test support: finds given bytes anywhere in this process's memory.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace r2ccl {

struct MemoryHit {
  uintptr_t at = 0;
  bool in_core_dumps = false;  // whether its mapping is in core dumps
};

// `inverted` holds the wanted bytes with all bits flipped, so that it does not match itself.
class MemoryScan {
 public:
  explicit MemoryScan(std::vector<std::byte> inverted) : inverted_(std::move(inverted)) {}

  std::vector<MemoryHit> run() {
    std::ifstream maps("/proc/self/smaps");
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    std::string line;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    bool readable = false;
    while (std::getline(maps, line)) {
      std::istringstream words(line);
      std::string first;
      std::string second;
      words >> first >> second;
      if (first == "VmFlags:") {
        if (readable) scan(memory, begin, end, line.find(" dd") == std::string::npos);
      } else if (const size_t dash = first.find('-'); dash != std::string::npos) {
        begin = std::stoull(first.substr(0, dash), nullptr, 16);
        end = std::stoull(first.substr(dash + 1), nullptr, 16);
        // Skip the shadow memory of a sanitizer: it takes terabytes, and holds no data.
        readable = !second.empty() && second[0] == 'r' && end - begin <= kMappingBytesMax;
      }
    }
    close(memory);
    return hits_;
  }

 private:
  static constexpr uintptr_t kMappingBytesMax = uintptr_t{4} << 30;

  void scan(int memory, uintptr_t begin, uintptr_t end, bool in_core_dumps) {
    const auto own = reinterpret_cast<uintptr_t>(buffer_.data());
    for (uintptr_t at = begin; at < end; at += buffer_.size() - inverted_.size()) {
      const size_t size = std::min<size_t>(buffer_.size(), end - at);
      const ssize_t got = pread(memory, buffer_.data(), size, static_cast<off_t>(at));
      if (got <= 0) return;
      const auto last = buffer_.begin() + got;
      const auto same = [](std::byte byte, std::byte wanted) { return byte == ~wanted; };
      for (auto hit = buffer_.begin();; ++hit) {
        hit = std::search(hit, last, inverted_.begin(), inverted_.end(), same);
        if (hit == last) break;
        const uintptr_t where = at + static_cast<uintptr_t>(hit - buffer_.begin());
        const bool known =
            std::ranges::any_of(hits_, [&](const MemoryHit& other) { return other.at == where; });
        if (where >= own && where < own + buffer_.size()) continue;  // the scanner's buffer
        if (!known) hits_.push_back({where, in_core_dumps});
      }
    }
  }

  const std::vector<std::byte> inverted_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 20);
  std::vector<MemoryHit> hits_;
};

}  // namespace r2ccl
