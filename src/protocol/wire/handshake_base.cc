#include "protocol/wire/handshake_base.h"

#include <algorithm>

#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

std::string range(unsigned lowest, unsigned highest) {
  return lowest == highest ? std::to_string(lowest)
                           : std::to_string(lowest) + " to " + std::to_string(highest);
}

}  // namespace

size_t HandshakeBase::consume(std::span<const std::byte> input) {
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

void HandshakeBase::say(std::span<const std::byte> bytes) {
  output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(sent_bytes_));
  sent_bytes_ = 0;
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

void HandshakeBase::fail(Status error) {
  R2CCL_CHECK(state_ == State::running && !error.ok());
  state_ = State::failed;
  error_ = std::move(error);
}

void HandshakeBase::refuse(Status error, const std::string& text_for_peer) {
  say(encode_refusal(text_for_peer));
  fail(std::move(error));
}

bool HandshakeBase::speaks_our_version(std::span<const std::byte> hello) {
  R2CCL_CHECK(hello.size() >= kHelloFixedBytes);
  const auto lowest = std::to_integer<uint8_t>(hello[5]);
  const auto highest = std::to_integer<uint8_t>(hello[6]);
  if (std::max(lowest, kHandshakeVersionMin) <= std::min(highest, kHandshakeVersionMax)) {
    return true;
  }
  const std::string theirs = range(lowest, highest);
  const std::string ours = range(kHandshakeVersionMin, kHandshakeVersionMax);
  ByteReader from(hello.first(kHelloFixedBytes).last(sizeof(uint32_t)));
  const std::string rank = std::to_string(static_cast<int32_t>(from.get<uint32_t>()));
  refuse({Code::invalid_usage, "peer, which says that it is rank " + rank +
                                   ", speaks protocol version " + theirs + " and this library " +
                                   ours + ": install one version of r2ccl on all hosts"},
         "it speaks protocol version " + ours + " and this library " + theirs +
             ": install one version of r2ccl on all hosts");
  return false;
}

bool HandshakeBase::belongs_here(const HelloFrame& hello,
                                 std::span<const std::byte, kJobIdBytes> id, uint32_t epoch) {
  if (!crypto::equal(hello.job, id)) {
    const std::string who = "rank " + std::to_string(hello.identity.from.value());
    refuse({Code::invalid_usage, "peer, which says that it is " + who +
                                     ", belongs to another job or to another run of this one"},
           "it belongs to another job, or to another run of this one");
    return false;
  }
  if (hello.epoch != epoch) {
    const std::string theirs = std::to_string(hello.epoch);
    const std::string ours = std::to_string(epoch);
    refuse({Code::invalid_usage, "peer is in epoch " + theirs + ", this rank in " + ours},
           "it is in epoch " + ours + ", this rank in " + theirs);
    return false;
  }
  return true;
}

crypto::Hash HandshakeBase::prove(std::span<const std::byte> frame_before_proof,
                                  std::string_view label, crypto::Key key) {
  transcript_.add(frame_before_proof);
  const crypto::Hash digest = transcript_.digest();
  const crypto::Hash proof = crypto::derive(key, label, digest);
  transcript_.add(proof);
  return proof;
}

bool HandshakeBase::check_proof(std::span<const std::byte> frame, std::string_view label,
                                crypto::Key key) {
  R2CCL_CHECK(frame.size() >= crypto::kHashBytes);
  return crypto::equal(prove(without_seal(frame), label, key), frame.last(crypto::kHashBytes));
}

void HandshakeBase::say_proof(HandshakeFrame type, uint8_t version, std::string_view label,
                              crypto::Key key) {
  const auto prefix = proof_prefix(type, version);
  const crypto::Hash proof = prove(prefix, label, key);
  say(prefix);
  say(proof);
}

void HandshakeBase::finish(crypto::Key key, std::string_view send_label,
                           std::string_view receive_label) {
  R2CCL_CHECK(state_ == State::running && send_label != receive_label);
  const crypto::Hash digest = transcript_.digest();
  crypto::derive_into(session_.send_key, key, send_label, {digest});
  crypto::derive_into(session_.receive_key, key, receive_label, {digest});
  state_ = State::done;
}

}  // namespace r2ccl
