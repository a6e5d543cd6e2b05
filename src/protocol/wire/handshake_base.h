// The common part of all handshakes: frames in and out, the transcript, and errors in words.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "protocol/wire/crypto.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/handshake_frames.h"

namespace r2ccl {

class HandshakeBase : public Handshake {
 public:
  explicit HandshakeBase(HandshakeFrame wanted) : input_(wanted) {}
  HandshakeBase(const HandshakeBase&) = delete;
  HandshakeBase& operator=(const HandshakeBase&) = delete;

  size_t consume(std::span<const std::byte> input) override;
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
  // Handles one whole frame of the wanted type.
  virtual void on_frame(std::span<const std::byte> frame) = 0;

  void say(std::span<const std::byte> bytes);
  void fail(Status error);
  // Fails, and tells the peer why in words of its own.
  void refuse(Status error, const std::string& text_for_peer);
  // Refuses and returns false when the sender of this HELLO speaks no version that this end knows.
  bool speaks_our_version(std::span<const std::byte> hello);
  // Refuses and returns false when the HELLO belongs to another job, run or epoch.
  bool belongs_here(const HelloFrame& hello, std::span<const std::byte, kJobIdBytes> id,
                    uint32_t epoch);
  // Adds the frame without its proof to the transcript, and returns the proof of it.
  crypto::Hash prove(std::span<const std::byte> frame_before_proof, std::string_view label,
                     crypto::Key key);
  bool check_proof(std::span<const std::byte> frame, std::string_view label, crypto::Key key);
  void say_proof(HandshakeFrame type, uint8_t version, std::string_view label, crypto::Key key);
  // Derives the session keys from the whole transcript.
  void finish(crypto::Key key, std::string_view send_label, std::string_view receive_label);

  FrameAssembler input_;
  crypto::Transcript transcript_;
  Session session_;

 private:
  State state_ = State::running;
  Status error_;
  std::vector<std::byte> output_;  // at most one frame of each kind
  size_t sent_bytes_ = 0;
};

}  // namespace r2ccl
