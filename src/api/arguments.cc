#include "api/arguments.h"

#include <span>
#include <string>

namespace r2ccl::api {

// No machine that Linux runs on lets a process address more than 56 bits.
uint64_t elements_max(DataType type) {
  constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 56;
  return kAddressSpaceBytes / size_of(type);
}

Status check_buffer(const char* function, const char* name, const void* buffer, uint64_t count,
                    DataType type) {
  const std::string where = std::string(function) + ": ";
  if (const uint64_t most = elements_max(type); count > most) {
    return {Code::invalid_argument, where + "count is " + std::to_string(count) +
                                        ", but an address space holds no more than " +
                                        std::to_string(most) + " " + to_string(type)};
  }
  if (count > 0 && buffer == nullptr) {
    return {Code::invalid_argument, where + name + " is NULL"};
  }
  if (reinterpret_cast<uintptr_t>(buffer) % size_of(type) != 0) {
    return {Code::invalid_argument, where + name + " is not aligned to its element size"};
  }
  return {};
}

std::optional<BadMemory> find_bad_buffers(const CommObject& comm, const void* send,
                                          uint64_t send_bytes, const void* receive,
                                          uint64_t receive_bytes) {
  const auto range = [](const void* buffer, uint64_t bytes) {
    return std::span(static_cast<const std::byte*>(buffer), buffer == nullptr ? 0 : bytes);
  };
  const auto find = [&comm](std::span<const std::byte> memory, Access access) {
    const bool known = comm.registered.covers(memory, access);
    return known ? std::optional<BadMemory>() : find_bad_memory(memory, access);
  };
  const auto bad = find(range(receive, receive_bytes), Access::write);
  if (bad || (send == receive && send_bytes <= receive_bytes)) return bad;
  return find(range(send, send_bytes), Access::read);
}

Status check_peer(const char* function, const char* what, int rank, const CommObject* comm) {
  const int count = comm->communicator->rank_count();
  if (rank >= 0 && rank < count) return {};
  return {Code::invalid_argument, std::string(function) + ": " + what + " is " +
                                      std::to_string(rank) + ", it must be 0 to " +
                                      std::to_string(count - 1)};
}

}  // namespace r2ccl::api
