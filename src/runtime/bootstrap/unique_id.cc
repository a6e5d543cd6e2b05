#include "runtime/bootstrap/unique_id.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"
#include "runtime/config/process_secret.h"
#include "runtime/config/secure_random.h"

namespace r2ccl {
namespace {

constexpr uint32_t kMagic = 0x44493252;  // "R2ID"
constexpr uint8_t kVersion = 1;
constexpr uint8_t kFlagAuthenticated = 1;
constexpr size_t kEndpointBytes = 19;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kCheckedBytes = kUniqueIdBytes - kChecksumBytes;

crypto::Hash checksum(std::span<const std::byte> bytes) {
  return crypto::hash("r2ccl unique id 1", bytes.first(kCheckedBytes));
}

Status bad(const std::string& why) {
  return {Code::invalid_argument, "this is not a unique id from r2cclGetUniqueId: " + why};
}

}  // namespace

UniqueIdBytes encode(const UniqueId& id) {
  R2CCL_CHECK(id.rendezvous.size() <= kUniqueIdEndpointsMax);
  std::vector<std::byte> bytes;
  bytes.reserve(kUniqueIdBytes);
  ByteWriter out(bytes);
  out.put(kMagic);
  out.put(kVersion);
  out.put(id.job.authenticated() ? kFlagAuthenticated : uint8_t{0});
  out.put(static_cast<uint8_t>(id.rendezvous.size()));
  out.put(uint8_t{0});
  out.put_bytes(id.job.id);
  std::vector<std::byte> none(id.job.authenticated() ? 0 : kSecretBytes);
  out.put_bytes(id.job.authenticated() ? id.job.secret.bytes() : std::span<const std::byte>(none));
  for (const Endpoint& endpoint : id.rendezvous) {
    out.put(static_cast<uint8_t>(endpoint.address.family));
    out.put(endpoint.port);
    out.put_bytes(std::as_bytes(std::span(endpoint.address.bytes)));
  }
  bytes.resize(kCheckedBytes);
  const crypto::Hash sum = checksum(bytes);
  out.put_bytes(std::span(sum).first(kChecksumBytes));
  UniqueIdBytes encoded;
  std::copy(bytes.begin(), bytes.end(), encoded.begin());
  crypto::wipe(bytes);
  return encoded;
}

Result<UniqueId> decode_unique_id(std::span<const std::byte, kUniqueIdBytes> bytes) {
  ByteReader in(bytes);
  const bool all_zero =
      std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  if (all_zero) return bad("it is all zero; was it sent to this rank?");
  if (in.get<uint32_t>() != kMagic) return bad("its first bytes are wrong");
  const crypto::Hash sum = checksum(bytes);
  if (!crypto::equal(std::span(sum).first(kChecksumBytes), bytes.last(kChecksumBytes))) {
    return bad("its checksum is wrong, so it was damaged on its way to this rank");
  }
  // The checksum is right, so only another version of r2ccl can cause errors from here on.
  const uint8_t version = in.get<uint8_t>();
  if (version != kVersion) {
    return Status(Code::invalid_argument,
                  "unique id has version " + std::to_string(version) + " and this library knows " +
                      std::to_string(kVersion) + ": install one version of r2ccl on all hosts");
  }
  UniqueId id;
  const bool authenticated = (in.get<uint8_t>() & kFlagAuthenticated) != 0;
  const size_t endpoint_count = in.get<uint8_t>();
  in.get<uint8_t>();
  std::ranges::copy(in.get_bytes(kJobIdBytes), id.job.id.begin());
  const auto secret = in.get_bytes(kSecretBytes);
  if (authenticated) id.job.secret = LockedBytes::copy_of(secret);
  if (endpoint_count > kUniqueIdEndpointsMax) return bad("it has too many endpoints");
  for (size_t i = 0; i < endpoint_count; ++i) {
    ByteReader entry(in.get_bytes(kEndpointBytes));
    Endpoint endpoint;
    const uint8_t family = entry.get<uint8_t>();
    if (family != static_cast<uint8_t>(AddressFamily::ipv4) &&
        family != static_cast<uint8_t>(AddressFamily::ipv6)) {
      return bad("it has an address of an unknown family");
    }
    endpoint.address.family = static_cast<AddressFamily>(family);
    endpoint.port = entry.get<uint16_t>();
    std::ranges::transform(entry.get_bytes(16), endpoint.address.bytes.begin(),
                           [](std::byte byte) { return std::to_integer<uint8_t>(byte); });
    id.rendezvous.push_back(endpoint);
  }
  return id;
}

JobIdentity make_job_identity() {
  JobIdentity job = make_public_job_identity();
  job.secret = LockedBytes::random(kSecretBytes);
  return job;
}

JobIdentity make_public_job_identity() {
  JobIdentity job;
  secure_random(job.id);
  return job;
}

Status mix_in_secret(const LockedBytes& text, JobIdentity* job) {
  if (text.empty()) return {};
  auto derived = process_secret(text, job->id);
  if (!derived.ok()) return derived.status();
  job->secret = job->authenticated()
                    ? crypto::derive_key(derived.value().key(), "r2ccl unique id 1: with a secret",
                                         {job->secret.bytes()})
                    : std::move(derived).value();
  return {};
}

Result<JobIdentity> make_job_identity(std::string_view name, const LockedBytes& secret) {
  JobIdentity job;
  const crypto::Hash id = crypto::hash("r2ccl job name", std::as_bytes(std::span(name)));
  std::copy_n(id.begin(), job.id.size(), job.id.begin());
  R2CCL_RETURN_IF_ERROR(mix_in_secret(secret, &job));
  return job;
}

}  // namespace r2ccl
