// Unpredictable random bytes for nonces, job ids and secrets. Safe after fork.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "protocol/wire/handshake.h"

namespace r2ccl {

void secure_random(std::span<std::byte> out);
std::array<std::byte, kNonceBytes> random_nonce();

}  // namespace r2ccl
