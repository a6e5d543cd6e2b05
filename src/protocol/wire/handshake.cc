#include "protocol/wire/handshake.h"

#include <algorithm>

#include "protocol/wire/handshake_base.h"

namespace r2ccl {
namespace {

// Uses of the run's key. The labels differ by direction and frame, so no end can return a proof of
// the other end as its own.
constexpr std::string_view kHelloLabel = "r2ccl path 2: HELLO";
constexpr std::string_view kReplyLabel = "r2ccl path 2: REPLY";
constexpr std::string_view kFinalLabel = "r2ccl path 2: FINAL";
constexpr std::string_view kInitiatorKeyLabel = "r2ccl path 2: key, initiator to acceptor";
constexpr std::string_view kAcceptorKeyLabel = "r2ccl path 2: key, acceptor to initiator";

constexpr const char* kWrongProof =
    "wrong proof: the two ranks do not hold the same table of ranks, or one is a stranger";

class Initiator final : public HandshakeBase {
 public:
  Initiator(const RunIdentity& run, const ConnectionIdentity& identity, Incarnation last_used,
            Nonce nonce, std::vector<std::byte> payload)
      : HandshakeBase(HandshakeFrame::reply), run_(run), last_used_(last_used) {
    session_.identity = identity;
    HelloFrame hello;
    hello.job = run.id;
    hello.epoch = run.epoch;
    hello.identity = identity;
    hello.last_used = last_used;
    std::copy(nonce.begin(), nonce.end(), hello.nonce.begin());
    hello.payload = std::move(payload);
    const std::vector<std::byte> bytes = encode_without_seal(hello);
    const crypto::Hash proof = prove(bytes, kHelloLabel, run_.key.key());
    say(bytes);
    say(proof);
  }

 private:
  void on_frame(std::span<const std::byte> frame) override {
    Result<ReplyFrame> decoded = decode_reply(frame);
    if (!decoded.ok()) return fail(decoded.status());
    ReplyFrame& reply = decoded.value();
    if (Status status = check(reply, frame); !status.ok()) return fail(std::move(status));
    session_.incarnation = reply.incarnation;
    session_.peer_payload = std::move(reply.payload);
    say_proof(HandshakeFrame::final, reply.version, kFinalLabel, run_.key.key());
    finish(run_.key.key(), kInitiatorKeyLabel, kAcceptorKeyLabel);
  }

  Status check(const ReplyFrame& reply, std::span<const std::byte> frame) {
    if (!check_proof(frame, kReplyLabel, run_.key.key())) {
      say(encode_refusal(kWrongProof));
      return {Code::invalid_usage, kWrongProof};
    }
    // From here on the peer belongs to this run, so these errors are its bugs and not an attack.
    if (reply.version < kHandshakeVersionMin || reply.version > kHandshakeVersionMax) {
      return {Code::remote, "peer chose a protocol version that was not offered"};
    }
    if (session_.identity.kind == ConnectionKind::join) {
      if (reply.incarnation == last_used_) return {};
      return {Code::remote, "peer answered with another incarnation than the one that was named"};
    }
    if (reply.incarnation <= last_used_) {
      return {Code::remote,
              "peer answered with incarnation " + std::to_string(reply.incarnation.value()) +
                  ", which is not new: " + std::to_string(last_used_.value()) + " was used before"};
    }
    return {};
  }

  const RunIdentity run_;
  const Incarnation last_used_;
};

class Acceptor final : public HandshakeBase {
 public:
  Acceptor(const RunIdentity& run, NicId listener, AcceptPolicy policy, Nonce nonce)
      : HandshakeBase(HandshakeFrame::hello),
        run_(run),
        listener_(listener),
        policy_(std::move(policy)) {
    std::copy(nonce.begin(), nonce.end(), nonce_.begin());
  }

 private:
  void on_frame(std::span<const std::byte> frame) override {
    if (input_.type() == HandshakeFrame::hello) return on_hello(frame);
    on_final(frame);
  }

  void on_hello(std::span<const std::byte> frame) {
    if (!speaks_our_version(frame)) return;
    Result<HelloFrame> decoded = decode_hello(frame);
    if (!decoded.ok()) return fail(decoded.status());
    HelloFrame& hello = decoded.value();
    if (!is_of_this_run(hello, frame)) return;
    Result<AcceptDecision> decision = policy_(hello.identity, hello.last_used);
    if (!decision.ok()) {
      return refuse(decision.status().with_context("refused a connection"),
                    decision.status().message());
    }
    const Incarnation incarnation = choose_incarnation(decision.value(), hello.last_used);
    if (incarnation == Incarnation()) {
      return refuse({Code::remote, "peer used up all incarnations of the path"},
                    "all incarnations of the path are used up");
    }
    session_.identity = hello.identity;
    session_.incarnation = incarnation;
    session_.peer_payload = std::move(hello.payload);
    reply(std::min(hello.version_max, kHandshakeVersionMax), std::move(decision.value().payload));
  }

  // Refuses and returns false when the sender is no rank of this run, or at the wrong listener. The
  // refusal contains only the peer's own statements.
  bool is_of_this_run(const HelloFrame& hello, std::span<const std::byte> frame) {
    if (run_.key.empty()) {
      refuse({Code::remote, "a connection before the start of this job is over"},
             "the start of its job is not over");
      return false;
    }
    if (!belongs_here(hello, run_.id, run_.epoch)) return false;
    if (!check_proof(frame, kHelloLabel, run_.key.key())) {
      refuse({Code::invalid_usage, kWrongProof}, kWrongProof);
      return false;
    }
    if (hello.identity.from == hello.identity.to ||
        hello.identity.kind == ConnectionKind::rendezvous) {
      refuse({Code::remote, "peer wants a connection that no two ranks have"},
             "no two ranks have such a connection");
      return false;
    }
    // A host may answer for the address of one of its NICs on another (ARP flux), and a router may
    // choose another way: the connection then uses the NIC of the listener, which its owner knows.
    if ((hello.identity.to_nic == kNoNic) != (listener_ == kNoNic)) {
      refuse({Code::remote, "peer came to the listener of another NIC than it names"},
             "this is the listener of another NIC than it names");
      return false;
    }
    return true;
  }

  // Returns the incarnation to use; Incarnation() when there is none left.
  static Incarnation choose_incarnation(const AcceptDecision& decision, Incarnation theirs) {
    if (decision.join != Incarnation()) return decision.join;
    return Incarnation(std::max(decision.last_used, theirs).value() + 1);
  }

  void reply(uint8_t version, std::vector<std::byte> payload) {
    ReplyFrame reply;
    reply.version = version;
    reply.incarnation = session_.incarnation;
    reply.nonce = nonce_;
    reply.payload = std::move(payload);
    const std::vector<std::byte> bytes = encode_without_seal(reply);
    const crypto::Hash proof = prove(bytes, kReplyLabel, run_.key.key());
    say(bytes);
    say(proof);
    input_.reset(HandshakeFrame::final);
  }

  void on_final(std::span<const std::byte> frame) {
    // The peer gets no answer: if it is honest its handshake is over, and it expects other frames.
    if (!check_proof(frame, kFinalLabel, run_.key.key())) {
      return fail({Code::invalid_usage, kWrongProof});
    }
    finish(run_.key.key(), kAcceptorKeyLabel, kInitiatorKeyLabel);
  }

  const RunIdentity run_;
  const NicId listener_;
  const AcceptPolicy policy_;
  std::array<std::byte, kNonceBytes> nonce_;
};

}  // namespace

std::unique_ptr<Handshake> make_initiator(const RunIdentity& run,
                                          const ConnectionIdentity& identity, Incarnation last_used,
                                          Nonce nonce, std::vector<std::byte> payload) {
  return std::make_unique<Initiator>(run, identity, last_used, nonce, std::move(payload));
}

std::unique_ptr<Handshake> make_acceptor(const RunIdentity& run, NicId listener,
                                         AcceptPolicy policy, Nonce nonce) {
  return std::make_unique<Acceptor>(run, listener, std::move(policy), nonce);
}

}  // namespace r2ccl
