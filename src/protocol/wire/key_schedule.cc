#include "protocol/wire/key_schedule.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "protocol/wire/byte_io.h"
#include "protocol/wire/crypto.h"

namespace r2ccl {
namespace {

constexpr std::string_view kSecretPrefix = "r2ccl-secret-";
constexpr size_t kSecretHexBytes = 2 * kSecretBytes;
// libsodium's choice for interactive use: a tenth of a second.
constexpr unsigned long long kStretchPasses = crypto_pwhash_OPSLIMIT_INTERACTIVE;
constexpr size_t kStretchMemory = 64 << 20;
static_assert(kStretchMemory >= crypto_pwhash_MEMLIMIT_INTERACTIVE);

const char* text_of(const LockedBytes& secret) {
  return reinterpret_cast<const char*>(secret.bytes().data());
}
unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

// Returns the random bytes of a generated secret; nothing for any other text.
LockedBytes parse_generated(const LockedBytes& text) {
  const std::string_view all(text_of(text), text.bytes().size());
  if (all.size() != kSecretPrefix.size() + kSecretHexBytes || !all.starts_with(kSecretPrefix)) {
    return {};
  }
  bool good = false;
  LockedBytes bytes = LockedBytes::make(kSecretBytes, [&](std::span<std::byte> out) {
    size_t size = 0;
    good = sodium_hex2bin(raw(out), out.size(), all.data() + kSecretPrefix.size(), kSecretHexBytes,
                          nullptr, &size, nullptr) == 0 &&
           size == kSecretBytes;
  });
  return good ? bytes : LockedBytes();
}

// Takes 64 MB for a moment.
LockedBytes stretch(const LockedBytes& text, const crypto::Hash& salt) {
  static_assert(sizeof salt >= crypto_pwhash_SALTBYTES);
  bool stretched = false;
  LockedBytes key = LockedBytes::make(kSecretBytes, [&](std::span<std::byte> out) {
    stretched = crypto_pwhash(raw(out), out.size(), text_of(text), text.bytes().size(),
                              reinterpret_cast<const unsigned char*>(salt.data()), kStretchPasses,
                              kStretchMemory, crypto_pwhash_ALG_ARGON2ID13) == 0;
  });
  return stretched ? key : LockedBytes();
}

}  // namespace

RunIdentity make_run_identity(const JobIdentity& job, const LockedBytes& token,
                              std::span<const std::byte> table) {
  RunIdentity run;
  run.epoch = job.epoch;
  std::vector<std::byte> epoch;
  ByteWriter(epoch).put(job.epoch);
  const crypto::Hash id = crypto::derive(token.key(), "r2ccl run 2: id", job.id);
  std::copy_n(id.begin(), run.id.size(), run.id.begin());
  const crypto::Hash table_hash = crypto::hash("r2ccl table of ranks 2", table);
  run.key = crypto::derive_key(token.key(), "r2ccl run 2: key",
                               {job.id, epoch, table_hash, job.secret.bytes()});
  return run;
}

LockedBytes derive_child_secret(const RunIdentity& run,
                                std::span<const std::byte, kJobIdBytes> child_id) {
  if (run.key.empty()) return LockedBytes::random(kSecretBytes);
  return crypto::derive_key(run.key.key(), "r2ccl run 2: child", {child_id});
}

Result<LockedBytes> derive_secret(const LockedBytes& text,
                                  std::span<const std::byte, kJobIdBytes> job_id) {
  crypto::initialise();
  if (const LockedBytes bytes = parse_generated(text); !bytes.empty()) {
    return crypto::derive_key(bytes.key(), "r2ccl secret 2: job", {job_id});
  }
  const crypto::Hash salt = crypto::hash("r2ccl secret 2: salt", job_id);
  LockedBytes secret = stretch(text, salt);
  if (!secret.empty()) return secret;
  return Status(Code::system,
                "cannot make a key of R2CCL_SECRET: this takes 64 MB of memory for a moment, and "
                "none for a secret that `r2ccl secret` made");
}

LockedBytes generate_secret() {
  const LockedBytes bytes = LockedBytes::random(kSecretBytes);
  // Includes the NUL that libsodium adds.
  const LockedBytes hex = LockedBytes::make(kSecretHexBytes + 1, [&](std::span<std::byte> out) {
    sodium_bin2hex(reinterpret_cast<char*>(out.data()), out.size(),
                   reinterpret_cast<const unsigned char*>(bytes.bytes().data()),
                   bytes.bytes().size());
  });
  return LockedBytes::make(kSecretPrefix.size() + kSecretHexBytes, [&](std::span<std::byte> out) {
    const auto rest = std::ranges::copy(std::as_bytes(std::span(kSecretPrefix)), out.begin());
    std::ranges::copy(hex.bytes().first(kSecretHexBytes), rest.out);
  });
}

}  // namespace r2ccl
