#include "protocol/wire/process_key.h"

#include "base/check.h"
#include "protocol/wire/crypto.h"

namespace r2ccl::crypto {
namespace {

unsigned char* bytes_of(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
const unsigned char* bytes_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

ProcessKey::ProcessKey() {
  initialise();
  secret_ = LockedBytes::make(crypto_box_SECRETKEYBYTES, [this](std::span<std::byte> secret) {
    crypto_box_keypair(bytes_of(std::span<std::byte>(public_)), bytes_of(secret));
  });
}

bool ProcessKey::seal(const PublicKey& reader, std::span<const std::byte> plain,
                      std::span<std::byte> boxed) const {
  R2CCL_CHECK(boxed.size() == plain.size() + kBoxBytes);
  randombytes_buf(boxed.data(), crypto_box_NONCEBYTES);
  return crypto_box_easy(bytes_of(boxed.subspan(crypto_box_NONCEBYTES)), bytes_of(plain),
                         plain.size(), bytes_of(boxed),
                         bytes_of(std::span<const std::byte>(reader)),
                         bytes_of(secret_.bytes())) == 0;
}

bool ProcessKey::open(const PublicKey& writer, std::span<const std::byte> boxed,
                      std::span<std::byte> plain) const {
  R2CCL_CHECK(boxed.size() == plain.size() + kBoxBytes);
  const auto sealed = boxed.subspan(crypto_box_NONCEBYTES);
  const bool opened =
      crypto_box_open_easy(bytes_of(plain), bytes_of(sealed), sealed.size(), bytes_of(boxed),
                           bytes_of(std::span<const std::byte>(writer)),
                           bytes_of(secret_.bytes())) == 0;
  if (!opened) wipe(plain);
  return opened;
}

}  // namespace r2ccl::crypto
