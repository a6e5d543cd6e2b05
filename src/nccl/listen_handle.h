// The 128 bytes that NCCL carries from a process that listens to one that connects. A
// process that has them may connect, as with NCCL's own bootstrap: the secret of the meeting is in
// them.
//
// NCCL gives the same buffer to each try of one connect, so the last bytes keep the number of the
// attempt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "nccl/abi.h"
#include "protocol/wire/handshake.h"
#include "transport/endpoint.h"

namespace r2ccl::nccl {

// A process names itself by random bytes: those of its JobIdentity.
using ProcessId = std::array<std::byte, kJobIdBytes>;

inline constexpr size_t kHandleEndpointsMax = 2;

struct ListenHandle {
  ProcessId process{};
  LockedBytes secret;  // kSecretBytes
  uint32_t listener = 0;
  std::vector<Endpoint> endpoints;  // 1 to kHandleEndpointsMax
};

// Requires fields within their bounds. The attempt is 0.
void encode(const ListenHandle& handle, std::span<std::byte, kHandleBytes> out);
// Fails for bytes that are not this plugin's, or another version's.
Result<ListenHandle> decode_listen_handle(std::span<const std::byte, kHandleBytes> bytes);

// The number of this process's attempt to connect by the handle; 0: there is none.
uint64_t attempt_of(std::span<const std::byte, kHandleBytes> handle);
void set_attempt(std::span<std::byte, kHandleBytes> handle, uint64_t attempt);

}  // namespace r2ccl::nccl
