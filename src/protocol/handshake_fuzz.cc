#include "protocol/handshake_fuzz.h"

#include <algorithm>

#include "protocol/handshake_frames.h"

namespace r2ccl {

void fuzz_handshake(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const auto mode = std::to_integer<unsigned>(input[0]);
  const size_t fragment = 1 + std::to_integer<size_t>(input[1]);
  input = input.subspan(2);

  JobIdentity job;
  job.authenticated = (mode & 1) != 0;
  if (job.authenticated) job.secret.fill(std::byte{0x5a});
  std::array<std::byte, kNonceBytes> nonce{};
  const AcceptPolicy policy = [](const ConnectionIdentity&, Incarnation) {
    return Result<AcceptDecision>(AcceptDecision());
  };
  const auto handshake = (mode & 2) != 0 ? make_acceptor(job, policy, nonce)
                                         : make_initiator(job, {}, Incarnation(), nonce, {});
  while (!input.empty()) {
    const auto part = input.first(std::min(fragment, input.size()));
    const bool running = handshake->state() == Handshake::State::running;
    const size_t used = handshake->consume(part);
    R2CCL_CHECK(used <= part.size());
    R2CCL_CHECK(running || used == 0);
    if (used == 0) break;
    input = input.subspan(used);
    // What is queued for the peer is at most one frame of each kind.
    R2CCL_CHECK(handshake->output().size() <= 2 * kHandshakeFrameBytesMax + kFinalBytes);
  }
  // Nobody can prove the secret to these nonces without having it.
  R2CCL_CHECK(!job.authenticated || handshake->state() != Handshake::State::done);
  R2CCL_CHECK((handshake->state() == Handshake::State::failed) == !handshake->error().ok());
}

}  // namespace r2ccl
