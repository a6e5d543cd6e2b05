// One end of a connection of NCCL's, a sendComm or a recvComm: requests, each of one message that
// is sent or of a group of up to eight that are received.
//
// The n-th message of a tag meets the n-th receive of that tag. Tags have no order against each
// other, so each has a channel of the link, a lane, which opens at either end when that end first
// hears of the tag.
//
// NCCL's thread of one communicator calls isend, irecv and test; the driving thread does the rest.
// A request lies in a slot of its own, so a call takes no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "nccl/abi.h"
#include "runtime/engine/progress_thread.h"
#include "runtime/link/message_port.h"

namespace r2ccl::nccl {

// Tells NCCL's user of an error; printed at NCCL's level WARN.
using Warn = std::function<void(const std::string& text)>;

// The contexts of a link that belong to connections. The first ones are the job's, then each
// connection has one that names it and has no channels, and one for each of its tags.
struct LaneName {
  // A context has a bit less than 62, and a tag 32.
  static constexpr int kNumberBits = 29;
  static constexpr uint64_t kFirstContext = 2;
  static constexpr uint32_t kNumberMax = (uint32_t{1} << kNumberBits) - kFirstContext - 1;

  static constexpr ContextId context_of_connection(uint32_t number) {
    return ContextId(number + kFirstContext);
  }
  constexpr ContextId context() const {
    return ContextId((uint64_t{static_cast<uint32_t>(tag)} + 1) << kNumberBits |
                     (number + kFirstContext));
  }
  // Returns none for a context that is no lane's.
  static std::optional<LaneName> of(ContextId context);
  friend bool operator==(const LaneName&, const LaneName&) = default;

  uint32_t number = 0;  // the connection's, <= kNumberMax
  int tag = 0;
};

class WireEnd final : private MessageClient {
 public:
  class Request;

  // `number`: of the connection among those of the link. The references must outlive this.
  WireEnd(ProgressThread& driver, uint32_t number, bool sends, const Warn& warn);
  WireEnd(const WireEnd&) = delete;
  WireEnd& operator=(const WireEnd&) = delete;

  uint32_t number() const { return number_; }
  bool sends() const { return sends_; }
  ContextId name() const { return LaneName::context_of_connection(number_); }

  // --- NCCL's thread ---
  // Starts a request; null when all slots are in use. The bytes must stay until it is done.
  Request* send(std::span<const std::byte> bytes, int tag);
  // Requires 1 to kReceivesMax buffers.
  Request* receive(std::span<const std::span<std::byte>> buffers, const int* tags);
  // Returns kSuccess, or the error that has ended the connection.
  Outcome outcome() const { return outcome_.load(std::memory_order_acquire); }

  // --- driving thread ---
  // Lanes may open from now on, if `has_room` says so. They prefer the NIC; kNoNic: none. `port`
  // must outlive this, or its end must be told by fail().
  void open(MessagePort& port, Rank peer, NicId nic, std::function<bool()> has_room);
  // The peer uses the lane of this tag, which is not open here. Returns false when this end has
  // been cut: then the lane is one that has been opened, and the caller throws its messages away.
  bool on_new_lane(int tag);
  // The lanes that have been opened, at either end.
  struct Lane {
    int tag = 0;
    ContextId context;
  };
  const std::vector<Lane>& lanes() const { return lanes_; }
  // All requests fail, now and later.
  void fail(Outcome outcome);
  // Returns whether a request has not ended.
  bool busy() const;
  // From here on it touches no memory of NCCL's.
  void cut();
  // The same where the link has halted, which moves no bytes any more.
  void abandon() noexcept;

 private:
  // A message of a request. Only the driving thread has it while the request is posted.
  struct Message {
    std::byte* data = nullptr;
    size_t size = 0;  // the buffer's; once it is there, the message's
    int tag = 0;
    bool in_link = false;
    ChannelId channel = {};
    MessageNo number = {};
  };

  Request* take();
  Request* begin(Request& request, size_t messages);
  void post(Request& request);
  Lane* find_lane(int tag);
  Lane& add_lane(int tag);
  void end_requests() noexcept;
  void end_message(ChannelId channel, MessageNo number, std::optional<uint64_t> bytes);

  // MessageClient
  void on_sent(Rank peer, ChannelId channel, MessageNo number) override;
  void on_received(Rank peer, ChannelId channel, MessageNo number, uint64_t bytes) override;
  void on_mismatch(Rank peer, ChannelId channel, const Status& why) override;

 public:
  class Request final : public DriverTask {
   public:
    // Drives the engine, unless another thread does. Returns whether the request has ended; then
    // `sizes`, unless it is null, has the size of each message, and the slot is free. Fails with
    // the error that has ended the connection.
    Outcome test(bool* done, int* sizes);

   private:
    friend class WireEnd;
    enum State : uint8_t { free, posted, done, failed };

    void run() override { end_->post(*this); }
    std::span<Message> messages() { return {messages_, count_}; }

    WireEnd* end_ = nullptr;
    Message* messages_ = nullptr;
    size_t count_ = 0;
    std::atomic<State> state_{State::free};
    size_t left_ = 0;  // messages that have not ended; the driving thread's
  };

 private:
  ProgressThread& driver_;
  const uint32_t number_;
  const bool sends_;
  const Warn& warn_;
  std::atomic<Outcome> outcome_{kSuccess};
  MessagePort* port_ = nullptr;  // null: not open, cut or failed
  Rank peer_;
  NicId nic_ = kNoNic;
  std::function<bool()> has_room_;
  std::vector<Lane> lanes_;
  const size_t slots_;
  const std::unique_ptr<Message[]> messages_;  // the requests, as many for each
  const std::unique_ptr<Request[]> requests_;
  size_t posted_ = 0;  // the driving thread has seen only requests below it
};

}  // namespace r2ccl::nccl
