// The handshake between a rank and the rendezvous: CPace with the job's secret as the password,
// and explicit key confirmation, the initiator's first.
#include <algorithm>

#include "protocol/wire/byte_io.h"
#include "protocol/wire/cpace.h"
#include "protocol/wire/handshake_base.h"

namespace r2ccl {
namespace {

constexpr std::string_view kChannelLabel = "r2ccl rendezvous 2";
constexpr std::string_view kRootLabel = "r2ccl rendezvous 2: root";
constexpr std::string_view kRendezvousFinalLabel = "r2ccl rendezvous 2: FINAL";
constexpr std::string_view kConfirmLabel = "r2ccl rendezvous 2: CONFIRM";
constexpr std::string_view kRankKeyLabel = "r2ccl rendezvous 2: key, initiator to acceptor";
constexpr std::string_view kServerKeyLabel = "r2ccl rendezvous 2: key, acceptor to initiator";

constexpr const char* kWrongSecret =
    "wrong secret: the two ranks do not have the same R2CCL_SECRET or unique id";

class RendezvousHandshake : public HandshakeBase {
 public:
  RendezvousHandshake(const JobIdentity& job, HandshakeFrame wanted, Nonce nonce)
      : HandshakeBase(wanted), job_(job) {
    std::copy(nonce.begin(), nonce.end(), nonce_.begin());
  }

 protected:
  // Makes this end's share of a key for the HELLO's sender and this rendezvous. The initiator's
  // nonce is the session's number (sid); the acceptor's is part of its associated data.
  void make_share(Rank initiator, std::span<const std::byte, kNonceBytes> initiators_nonce) {
    std::vector<std::byte> channel;
    ByteWriter out(channel);
    out.put_bytes(std::as_bytes(std::span(kChannelLabel)));
    out.put_bytes(job_.id);
    out.put(job_.epoch);
    out.put(static_cast<uint32_t>(initiator.value()));
    std::copy(initiators_nonce.begin(), initiators_nonce.end(), session_nonce_.begin());
    scalar_ = cpace::random_scalar();
    share_ = cpace::share(scalar_, cpace::generator(job_.secret.bytes(), channel, session_nonce_));
  }
  // Fails and returns false when the peer's share is no valid share.
  bool agree(std::span<const std::byte> hello, std::span<const std::byte> reply, bool initiator) {
    cpace::Messages messages;
    std::ranges::copy(hello.last(cpace::kPointBytes), messages.initiator_share.begin());
    messages.initiator_data = without_seal(hello);
    std::ranges::copy(reply.last(cpace::kPointBytes), messages.responder_share.begin());
    messages.responder_data = without_seal(reply);
    const auto key =
        cpace::session_key(scalar_, initiator ? messages.responder_share : messages.initiator_share,
                           session_nonce_, messages);
    if (!key) {
      fail({Code::remote, "malformed handshake from peer: its share of the key is invalid"});
      return false;
    }
    crypto::derive_into(root_, std::span(*key).first<32>(), kRootLabel,
                        {std::span(*key).subspan<32>()});
    transcript_.add(hello);
    transcript_.add(reply);
    return true;
  }
  crypto::Key root() const { return root_; }

  const JobIdentity job_;
  std::array<std::byte, kNonceBytes> nonce_;
  cpace::Point share_{};

 private:
  std::array<std::byte, kNonceBytes> session_nonce_{};
  cpace::Scalar scalar_;
  crypto::Wiped<32> root_;
};

class RendezvousInitiator final : public RendezvousHandshake {
 public:
  RendezvousInitiator(const JobIdentity& job, Rank self, Nonce nonce)
      : RendezvousHandshake(job, HandshakeFrame::reply, nonce) {
    make_share(self, nonce);
    session_.identity = {ConnectionKind::rendezvous, self, kRendezvousRank, PathId()};
    HelloFrame hello;
    hello.authenticated = job_.authenticated();
    hello.job = job_.id;
    hello.epoch = job_.epoch;
    hello.identity = session_.identity;
    hello.nonce = nonce_;
    hello_ = encode_without_seal(hello);
    hello_.insert(hello_.end(), share_.begin(), share_.end());
    say(hello_);
  }

 private:
  void on_frame(std::span<const std::byte> frame) override {
    if (input_.type() == HandshakeFrame::confirm) return on_confirm(frame);
    const Result<ReplyFrame> reply = decode_reply(frame);
    if (!reply.ok()) return fail(reply.status());
    if (reply.value().version < kHandshakeVersionMin ||
        reply.value().version > kHandshakeVersionMax) {
      return fail({Code::remote, "peer chose a protocol version that was not offered"});
    }
    if (reply.value().authenticated != job_.authenticated()) {
      return fail({Code::invalid_usage, job_.authenticated()
                                            ? "peer is unauthenticated but this rank has a secret"
                                            : "peer has a secret but this rank has none"});
    }
    if (!agree(hello_, frame, true)) return;
    say_proof(HandshakeFrame::final, reply.value().version, kRendezvousFinalLabel, root());
    input_.reset(HandshakeFrame::confirm);
  }

  void on_confirm(std::span<const std::byte> frame) {
    if (!check_proof(frame, kConfirmLabel, root())) {
      return fail({Code::invalid_usage, kWrongSecret});
    }
    finish(root(), kRankKeyLabel, kServerKeyLabel);
  }

  std::vector<std::byte> hello_;
};

class RendezvousAcceptor final : public RendezvousHandshake {
 public:
  RendezvousAcceptor(const JobIdentity& job, Nonce nonce)
      : RendezvousHandshake(job, HandshakeFrame::hello, nonce) {}

 private:
  void on_frame(std::span<const std::byte> frame) override {
    if (input_.type() == HandshakeFrame::hello) return on_hello(frame);
    on_final(frame);
  }

  void on_hello(std::span<const std::byte> frame) {
    if (!speaks_our_version(frame)) return;
    const Result<HelloFrame> decoded = decode_hello(frame);
    if (!decoded.ok()) return fail(decoded.status());
    const HelloFrame& hello = decoded.value();
    if (!is_ours(hello)) return;
    session_.identity = hello.identity;
    version_ = std::min(hello.version_max, kHandshakeVersionMax);
    make_share(hello.identity.from, hello.nonce);
    ReplyFrame reply;
    reply.version = version_;
    reply.authenticated = job_.authenticated();
    reply.nonce = nonce_;
    // Nothing here depends on the secret: for every secret the share is a random point.
    std::vector<std::byte> bytes = encode_without_seal(reply);
    bytes.insert(bytes.end(), share_.begin(), share_.end());
    if (!agree(frame, bytes, false)) return;
    say(bytes);
    input_.reset(HandshakeFrame::final);
  }

  // Refuses and returns false when the peer does not belong to this job. This check uses only
  // public data.
  bool is_ours(const HelloFrame& hello) {
    if (hello.identity.kind != ConnectionKind::rendezvous || hello.identity.to != kRendezvousRank ||
        hello.identity.from < Rank(0) || !hello.payload.empty()) {
      refuse({Code::invalid_usage, "this port serves the rendezvous only"},
             "this port serves the rendezvous only");
      return false;
    }
    if (hello.authenticated != job_.authenticated()) {
      if (job_.authenticated()) {
        refuse({Code::invalid_usage, "peer is unauthenticated but this rank has a secret"},
               "it has a secret and this rank has none: set R2CCL_SECRET or R2CCL_SECRET_FILE");
      } else {
        refuse({Code::invalid_usage, "peer has a secret but this rank has none"},
               "it is unauthenticated and this rank has a secret: set R2CCL_SECRET there too");
      }
      return false;
    }
    return belongs_here(hello, job_.id, job_.epoch);
  }

  void on_final(std::span<const std::byte> frame) {
    if (!check_proof(frame, kRendezvousFinalLabel, root())) {
      return refuse({Code::invalid_usage, kWrongSecret}, kWrongSecret);
    }
    say_proof(HandshakeFrame::confirm, version_, kConfirmLabel, root());
    finish(root(), kServerKeyLabel, kRankKeyLabel);
  }

  uint8_t version_ = 0;
};

}  // namespace

std::unique_ptr<Handshake> make_rendezvous_initiator(const JobIdentity& job, Rank self,
                                                     Nonce nonce) {
  return std::make_unique<RendezvousInitiator>(job, self, nonce);
}

std::unique_ptr<Handshake> make_rendezvous_acceptor(const JobIdentity& job, Nonce nonce) {
  return std::make_unique<RendezvousAcceptor>(job, nonce);
}

}  // namespace r2ccl
