#include "runtime/config/secure_random.h"

#include <sodium.h>

#include "protocol/wire/crypto.h"

namespace r2ccl {

void secure_random(std::span<std::byte> out) {
  crypto::initialise();
  randombytes_buf(out.data(), out.size());
}

std::array<std::byte, kNonceBytes> random_nonce() {
  std::array<std::byte, kNonceBytes> nonce;
  secure_random(nonce);
  return nonce;
}

}  // namespace r2ccl
