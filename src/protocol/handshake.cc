#include "protocol/handshake.h"

#include <algorithm>

#include "protocol/crypto.h"
#include "protocol/handshake_frames.h"

namespace r2ccl {
namespace {

// Uses of the job's secret. The labels differ by direction, so nothing that one end proved can be
// handed back to it as the other's proof.
constexpr std::string_view kReplyProofLabel = "r2ccl handshake 1: acceptor's proof";
constexpr std::string_view kFinalProofLabel = "r2ccl handshake 1: initiator's proof";
constexpr std::string_view kInitiatorKeyLabel = "r2ccl handshake 1: key, initiator to acceptor";
constexpr std::string_view kAcceptorKeyLabel = "r2ccl handshake 1: key, acceptor to initiator";

constexpr const char* kWrongSecret =
    "wrong secret: the two ranks do not have the same R2CCL_SECRET or unique id";

std::string range(unsigned lowest, unsigned highest) {
  return lowest == highest ? std::to_string(lowest)
                           : std::to_string(lowest) + " to " + std::to_string(highest);
}

class HandshakeBase : public Handshake {
 public:
  HandshakeBase(const JobIdentity& job, HandshakeFrame wanted) : job_(job), input_(wanted) {
    R2CCL_CHECK(job.authenticated || job.secret == decltype(job.secret){});
  }
  ~HandshakeBase() override {
    crypto::wipe(job_.secret);
    crypto::wipe(session_.send_key);
    crypto::wipe(session_.receive_key);
  }
  HandshakeBase(const HandshakeBase&) = delete;
  HandshakeBase& operator=(const HandshakeBase&) = delete;

  size_t consume(std::span<const std::byte> input) override {
    size_t used = 0;
    while (state_ == State::running && used < input.size()) {
      used += input_.consume(input.subspan(used));
      if (!input_.error().ok()) {
        fail(input_.error());
      } else if (!input_.whole()) {
        break;
      } else if (input_.type() == HandshakeFrame::refuse) {
        fail({Code::invalid_usage, "refused by the peer: " + decode_refusal(input_.bytes())});
      } else {
        on_frame(input_.bytes());
      }
    }
    return used;
  }

  std::span<const std::byte> output() const override {
    return std::span(output_).subspan(sent_bytes_);
  }
  void sent(size_t bytes) override {
    R2CCL_CHECK(bytes <= output().size());
    sent_bytes_ += bytes;
  }
  State state() const override { return state_; }
  const Status& error() const override { return error_; }
  const Session& session() const override {
    R2CCL_CHECK(state_ == State::done);
    return session_;
  }

 protected:
  virtual void on_frame(std::span<const std::byte> frame) = 0;

  void say(std::span<const std::byte> bytes) {
    output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(sent_bytes_));
    sent_bytes_ = 0;
    output_.insert(output_.end(), bytes.begin(), bytes.end());
  }
  void fail(Status error) {
    R2CCL_CHECK(state_ == State::running && !error.ok());
    state_ = State::failed;
    error_ = std::move(error);
  }
  // Fails, and tells the peer why in its own terms.
  void refuse(Status error, const std::string& text_for_peer) {
    say(encode_refusal(text_for_peer));
    fail(std::move(error));
  }
  // The frame without its proof becomes part of the transcript, and the proof of it is returned.
  crypto::Hash prove(std::span<const std::byte> frame_before_proof, std::string_view label) {
    transcript_.add(frame_before_proof);
    const crypto::Hash digest = transcript_.digest();
    const crypto::Hash proof = crypto::derive(job_.secret, label, digest);
    transcript_.add(proof);
    return proof;
  }
  void finish(std::string_view send_label, std::string_view receive_label) {
    const crypto::Hash digest = transcript_.digest();
    session_.send_key = crypto::derive(job_.secret, send_label, digest);
    session_.receive_key = crypto::derive(job_.secret, receive_label, digest);
    session_.authenticated = job_.authenticated;
    state_ = State::done;
  }

  JobIdentity job_;
  FrameAssembler input_;
  crypto::Transcript transcript_;
  Session session_;

 private:
  State state_ = State::running;
  Status error_;
  std::vector<std::byte> output_;  // at most one frame of each kind
  size_t sent_bytes_ = 0;
};

class Initiator final : public HandshakeBase {
 public:
  Initiator(const JobIdentity& job, const ConnectionIdentity& identity, Incarnation last_used,
            std::span<const std::byte, kNonceBytes> nonce, std::vector<std::byte> payload)
      : HandshakeBase(job, HandshakeFrame::reply), last_used_(last_used) {
    session_.identity = identity;
    HelloFrame hello;
    hello.authenticated = job.authenticated;
    hello.job = job.id;
    hello.epoch = job.epoch;
    hello.identity = identity;
    hello.last_used = last_used;
    std::copy(nonce.begin(), nonce.end(), hello.nonce.begin());
    hello.payload = std::move(payload);
    const std::vector<std::byte> bytes = encode(hello);
    transcript_.add(bytes);
    say(bytes);
  }

 private:
  void on_frame(std::span<const std::byte> frame) override {
    Result<ReplyFrame> decoded = decode_reply(frame);
    if (!decoded.ok()) return fail(decoded.status());
    ReplyFrame& reply = decoded.value();
    if (Status status = check(reply, frame); !status.ok()) return fail(std::move(status));
    session_.incarnation = reply.incarnation;
    session_.peer_payload = std::move(reply.payload);
    const auto prefix = final_prefix(reply.version);
    const crypto::Hash proof = prove(prefix, kFinalProofLabel);
    say(prefix);
    say(proof);
    finish(kInitiatorKeyLabel, kAcceptorKeyLabel);
  }

  Status check(const ReplyFrame& reply, std::span<const std::byte> frame) {
    if (reply.authenticated != job_.authenticated) {
      return {Code::invalid_usage, job_.authenticated
                                       ? "peer is unauthenticated but this rank has a secret"
                                       : "peer has a secret but this rank has none"};
    }
    const auto before_proof = frame.first(frame.size() - crypto::kHashBytes);
    if (!crypto::equal(prove(before_proof, kReplyProofLabel), reply.proof)) {
      say(encode_refusal(kWrongSecret));
      return {Code::invalid_usage, kWrongSecret};
    }
    // From here on the peer is who it says, so these are its bugs and not an attack.
    if (reply.version < kHandshakeVersionMin || reply.version > kHandshakeVersionMax) {
      return {Code::remote, "peer chose a protocol version that was not offered"};
    }
    // A lane joins the incarnation of its data connection, which this end may know already.
    const bool joins = session_.identity.kind == ConnectionKind::lane;
    if (reply.incarnation < last_used_ || (reply.incarnation == last_used_ && !joins) ||
        reply.incarnation == Incarnation()) {
      return {Code::remote,
              "peer answered with incarnation " + std::to_string(reply.incarnation.value()) +
                  ", which is not new: " + std::to_string(last_used_.value()) + " was used before"};
    }
    return {};
  }

  const Incarnation last_used_;
};

class Acceptor final : public HandshakeBase {
 public:
  Acceptor(const JobIdentity& job, AcceptPolicy policy,
           std::span<const std::byte, kNonceBytes> nonce)
      : HandshakeBase(job, HandshakeFrame::hello), policy_(std::move(policy)) {
    std::copy(nonce.begin(), nonce.end(), nonce_.begin());
  }

 private:
  void on_frame(std::span<const std::byte> frame) override {
    if (input_.type() == HandshakeFrame::hello) return on_hello(frame);
    on_final(frame);
  }

  void on_hello(std::span<const std::byte> frame) {
    const auto lowest = std::to_integer<uint8_t>(frame[5]);
    const auto highest = std::to_integer<uint8_t>(frame[6]);
    if (std::max(lowest, kHandshakeVersionMin) > std::min(highest, kHandshakeVersionMax)) {
      const std::string theirs = range(lowest, highest);
      const std::string ours = range(kHandshakeVersionMin, kHandshakeVersionMax);
      return refuse(
          {Code::invalid_usage, "peer speaks protocol version " + theirs + " and this library " +
                                    ours + ": install one version of r2ccl on all hosts"},
          "it speaks protocol version " + ours + " and this library " + theirs +
              ": install one version of r2ccl on all hosts");
    }
    Result<HelloFrame> decoded = decode_hello(frame);
    if (!decoded.ok()) return fail(decoded.status());
    HelloFrame& hello = decoded.value();
    if (!is_ours(hello)) return;
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
    transcript_.add(frame);
    reply(std::min(highest, kHandshakeVersionMax), std::move(decision.value().payload));
  }

  // Refuses and returns false when the peer is a stranger to this job.
  bool is_ours(const HelloFrame& hello) {
    if (hello.authenticated != job_.authenticated) {
      if (job_.authenticated) {
        refuse({Code::invalid_usage, "peer is unauthenticated but this rank has a secret"},
               "it has a secret and this rank has none: set R2CCL_SECRET or R2CCL_SECRET_FILE");
      } else {
        refuse({Code::invalid_usage, "peer has a secret but this rank has none"},
               "it is unauthenticated and this rank has a secret: set R2CCL_SECRET there too");
      }
      return false;
    }
    if (hello.job != job_.id) {
      refuse({Code::invalid_usage, "peer belongs to another job"}, "it belongs to another job");
      return false;
    }
    if (hello.epoch != job_.epoch) {
      const std::string theirs = std::to_string(hello.epoch);
      const std::string ours = std::to_string(job_.epoch);
      refuse({Code::invalid_usage, "peer is in epoch " + theirs + ", this rank in " + ours},
             "it is in epoch " + ours + ", this rank in " + theirs);
      return false;
    }
    if (hello.identity.from == hello.identity.to) {
      refuse({Code::remote, "peer says that it is this rank itself"},
             "a rank cannot connect to itself");
      return false;
    }
    return true;
  }

  // Incarnation() when there is none left.
  static Incarnation choose_incarnation(const AcceptDecision& decision, Incarnation theirs) {
    if (decision.join != Incarnation()) return decision.join;
    return Incarnation(std::max(decision.last_used, theirs).value() + 1);
  }

  void reply(uint8_t version, std::vector<std::byte> payload) {
    ReplyFrame reply;
    reply.version = version;
    reply.authenticated = job_.authenticated;
    reply.incarnation = session_.incarnation;
    reply.nonce = nonce_;
    reply.payload = std::move(payload);
    const std::vector<std::byte> bytes = encode_without_proof(reply);
    const crypto::Hash proof = prove(bytes, kReplyProofLabel);
    say(bytes);
    say(proof);
    input_.reset(HandshakeFrame::final);
  }

  void on_final(std::span<const std::byte> frame) {
    const auto prefix = frame.first(kHandshakePrefixBytes);
    if (!crypto::equal(prove(prefix, kFinalProofLabel), frame.subspan(kHandshakePrefixBytes))) {
      // Not said to the peer: if it is honest its handshake is over, and it expects other frames.
      return fail({Code::invalid_usage, kWrongSecret});
    }
    finish(kAcceptorKeyLabel, kInitiatorKeyLabel);
  }

  const AcceptPolicy policy_;
  std::array<std::byte, kNonceBytes> nonce_;
};

}  // namespace

std::unique_ptr<Handshake> make_initiator(const JobIdentity& job,
                                          const ConnectionIdentity& identity, Incarnation last_used,
                                          std::span<const std::byte, kNonceBytes> nonce,
                                          std::vector<std::byte> payload) {
  return std::make_unique<Initiator>(job, identity, last_used, nonce, std::move(payload));
}

std::unique_ptr<Handshake> make_acceptor(const JobIdentity& job, AcceptPolicy policy,
                                         std::span<const std::byte, kNonceBytes> nonce) {
  return std::make_unique<Acceptor>(job, std::move(policy), nonce);
}

}  // namespace r2ccl
