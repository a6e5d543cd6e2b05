#include "nccl/listen_handle.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/address_codec.h"

namespace r2ccl::nccl {
namespace {

constexpr uint32_t kMagic = 0x4e43'3252;  // "R2CN"
constexpr uint8_t kVersion = 2;
constexpr size_t kAttemptAt = kHandleBytes - sizeof(uint64_t);

Status not_ours() {
  return {Code::invalid_argument,
          "the handle of a connect is not one of this r2ccl plugin: do all processes load the same "
          "version (NCCL_NET_PLUGIN)?"};
}

}  // namespace

void encode(const ListenHandle& handle, std::span<std::byte, kHandleBytes> out) {
  R2CCL_CHECK(handle.secret.bytes().size() == kSecretBytes);
  R2CCL_CHECK(!handle.endpoints.empty() && handle.endpoints.size() <= kHandleEndpointsMax);
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<uint8_t>(handle.endpoints.size()));
  writer.put(handle.listener);
  writer.put_bytes(handle.process);
  writer.put_bytes(handle.secret.bytes());
  for (const Endpoint& endpoint : handle.endpoints) {
    put_address(writer, endpoint.address);
    writer.put(endpoint.port);
  }
  R2CCL_CHECK(bytes.size() <= kAttemptAt);
  std::ranges::fill(out, std::byte{0});
  std::ranges::copy(bytes, out.begin());
  crypto::wipe(bytes);
}

Result<ListenHandle> decode_listen_handle(std::span<const std::byte, kHandleBytes> bytes) {
  ByteReader reader(bytes);
  if (reader.get<uint32_t>() != kMagic || reader.get<uint8_t>() != kVersion) return not_ours();
  const size_t endpoints = reader.get<uint8_t>();
  if (endpoints == 0 || endpoints > kHandleEndpointsMax) return not_ours();
  ListenHandle handle;
  handle.listener = reader.get<uint32_t>();
  std::ranges::copy(reader.get_bytes(kJobIdBytes), handle.process.begin());
  handle.secret = LockedBytes::copy_of(reader.get_bytes(kSecretBytes));
  for (size_t i = 0; i < endpoints; ++i) {
    Endpoint endpoint;
    if (!get_address(reader, endpoint.address)) return not_ours();
    endpoint.port = reader.get<uint16_t>();
    if (endpoint.port == 0) return not_ours();
    handle.endpoints.push_back(endpoint);
  }
  return handle;
}

uint64_t attempt_of(std::span<const std::byte, kHandleBytes> handle) {
  return ByteReader(handle.subspan(kAttemptAt)).get<uint64_t>();
}

void set_attempt(std::span<std::byte, kHandleBytes> handle, uint64_t attempt) {
  std::vector<std::byte> bytes;
  ByteWriter(bytes).put(attempt);
  std::ranges::copy(bytes, handle.subspan(kAttemptAt).begin());
}

}  // namespace r2ccl::nccl
