// One end of a connection of NCCL's, a sendComm or a recvComm: up to 32 requests, each a message on
// the connection's channel of the link.
//
// NCCL's thread of one communicator calls isend, irecv and test; the driving thread does the rest.
// A request lies in a slot of its own, so a call takes no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "nccl/abi.h"
#include "runtime/engine/progress_thread.h"
#include "runtime/link/message_port.h"

namespace r2ccl::nccl {

// Tells NCCL's user of an error; printed at NCCL's level WARN.
using Warn = std::function<void(const std::string& text)>;

class WireEnd final : private MessageClient {
 public:
  class Request;

  // `number`: of the connection among those of the link. The references must outlive this.
  WireEnd(ProgressThread& driver, uint32_t number, bool sends, const Warn& warn);
  WireEnd(const WireEnd&) = delete;
  WireEnd& operator=(const WireEnd&) = delete;

  uint32_t number() const { return number_; }
  bool sends() const { return sends_; }
  // The connections of a link share its contexts with the job, which has the first ones.
  ContextId context() const { return ContextId(uint64_t{number_} + kFirstContext); }

  // --- NCCL's thread ---
  // Starts a request; null when all slots are in use. The bytes must stay until it is done.
  Request* send(std::span<const std::byte> bytes);
  Request* receive(std::span<std::byte> bytes);
  // Returns kSuccess, or the error that has ended the connection.
  Outcome outcome() const { return outcome_.load(std::memory_order_acquire); }

  // --- driving thread ---
  // Opens the channel. `port` must outlive this, or its end must be told by fail().
  void open(MessagePort& port, Rank peer);
  // All requests fail, now and later.
  void fail(Outcome outcome);
  // Returns whether a request has not ended.
  bool busy() const;
  // From here on it touches no memory of NCCL's.
  void cut();
  // The same where the link has halted, which moves no bytes any more.
  void abandon() noexcept;

 private:
  static constexpr uint64_t kFirstContext = 2;

  Request* begin(std::span<std::byte> bytes);
  Request* take();
  void post(Request& request);
  void end_requests() noexcept;
  Request* find(MessageNo number);

  // MessageClient
  void on_sent(Rank peer, ChannelId channel, MessageNo number) override;
  void on_received(Rank peer, ChannelId channel, MessageNo number, uint64_t bytes) override;
  void on_mismatch(Rank peer, ChannelId channel, const Status& why) override;

 public:
  class Request final : public DriverTask {
   public:
    // Drives the engine, unless another thread does. Returns whether the request has ended; then
    // `*bytes` is the size of the message, and the slot is free. Fails with the error that
    // has ended the connection.
    Outcome test(bool* done, size_t* bytes);

   private:
    friend class WireEnd;
    enum State : uint8_t { free, posted, done, failed };

    void run() override { end_->post(*this); }

    WireEnd* end_ = nullptr;
    std::atomic<State> state_{State::free};
    std::byte* data_ = nullptr;
    size_t size_ = 0;  // the buffer's; once it is done, the message's
    // Only the driving thread has the rest.
    bool in_link_ = false;
    MessageNo number_;
  };

 private:
  ProgressThread& driver_;
  const uint32_t number_;
  const bool sends_;
  const Warn& warn_;
  std::atomic<Outcome> outcome_{kSuccess};
  MessagePort* port_ = nullptr;  // null: not open, cut or failed
  std::array<Request, kRequestsMax> requests_;
  size_t next_ = 0;  // the slot that is tried first; NCCL's thread
};

}  // namespace r2ccl::nccl
