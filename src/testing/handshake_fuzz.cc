#include <algorithm>

#include "protocol/wire/handshake_frames.h"
#include "testing/fuzz.h"

namespace r2ccl {

namespace {

std::unique_ptr<Handshake> make(unsigned mode) {
  const std::array<std::byte, kNonceBytes> nonce{};
  const std::array<std::byte, kSecretBytes> key{};
  if ((mode & 4) != 0) {
    JobIdentity job;
    if ((mode & 1) != 0) job.secret = LockedBytes::copy_of(key);
    return (mode & 2) != 0 ? make_rendezvous_acceptor(job, nonce)
                           : make_rendezvous_initiator(job, Rank(0), nonce);
  }
  RunIdentity run;
  run.key = LockedBytes::copy_of(key);
  const AcceptPolicy policy = [](const ConnectionIdentity&, Incarnation) {
    return Result<AcceptDecision>(AcceptDecision());
  };
  return (mode & 2) != 0 ? make_acceptor(run, NicId(), policy, nonce)
                         : make_initiator(run, {}, Incarnation(), nonce, {});
}

}  // namespace

bool fuzz_handshake(std::span<const std::byte> input) {
  if (input.size() < 2) return false;
  const auto mode = std::to_integer<unsigned>(input[0]);
  const size_t fragment = 1 + std::to_integer<size_t>(input[1]);
  input = input.subspan(2);
  const auto handshake = make(mode);
  while (!input.empty()) {
    const auto part = input.first(std::min(fragment, input.size()));
    const bool running = handshake->state() == Handshake::State::running;
    const size_t used = handshake->consume(part);
    R2CCL_CHECK(used <= part.size());
    R2CCL_CHECK(running || used == 0);
    if (used == 0) break;
    input = input.subspan(used);
    // At most one frame of each kind is queued for the peer.
    R2CCL_CHECK(handshake->output().size() <= 2 * kHandshakeFrameBytesMax + kFinalBytes);
  }
  // Without the key, or at the rendezvous the random scalar behind a share, no peer can prove
  // itself.
  R2CCL_CHECK(handshake->state() != Handshake::State::done);
  R2CCL_CHECK((handshake->state() == Handshake::State::failed) == !handshake->error().ok());
  return handshake->state() == Handshake::State::running;
}

}  // namespace r2ccl
