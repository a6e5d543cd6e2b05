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
  const auto wrong = [function](const std::string& what) {
    return Status(Code::invalid_argument, std::string(function) + ": " + what);
  };
  if (const uint64_t most = elements_max(type); count > most) {
    return wrong("count is " + std::to_string(count) +
                 ", but an address space holds no more than " + std::to_string(most) + " " +
                 to_string(type));
  }
  if (count > 0 && buffer == nullptr) return wrong(std::string(name) + " is NULL");
  if (reinterpret_cast<uintptr_t>(buffer) % size_of(type) != 0) {
    return wrong(std::string(name) + " is not aligned to its element size");
  }
  return {};
}

std::optional<BadMemory> find_bad_buffers(const CommObject& comm, const void* send,
                                          uint64_t send_bytes, const void* receive,
                                          uint64_t receive_bytes) {
  // Returns the memory to look at, which may be none.
  const auto unknown = [&comm](const void* buffer, uint64_t bytes, Access access) {
    const std::span memory(static_cast<const std::byte*>(buffer), buffer == nullptr ? 0 : bytes);
    return comm.registered.covers(memory, access) ? std::span<const std::byte>() : memory;
  };
  const auto written = unknown(receive, receive_bytes, Access::write);
  if (send == receive && send_bytes <= receive_bytes) {
    return find_bad_memory(written, Access::write);
  }
  return find_bad_memory(written, unknown(send, send_bytes, Access::read));
}

Status check_peer(const char* function, const char* what, int rank, const CommObject* comm) {
  const int count = comm->communicator->rank_count();
  if (rank >= 0 && rank < count) return {};
  return {Code::invalid_argument, std::string(function) + ": " + what + " is " +
                                      std::to_string(rank) + ", it must be 0 to " +
                                      std::to_string(count - 1)};
}

}  // namespace r2ccl::api
