// For tests: one direction of a link in a small world, and a model that checks it after every
// event. The world has a sender and a receiver with their ledgers, and two paths. One path fails
// and returns under new incarnations. Control frames come in time, late or twice.
//
// The model knows the messages, the frames on the wires and the reports to each end. It knows
// nothing of the ledgers' own records. Like the link, the world connects ledgers and paths.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "protocol/delivery/notice_ledger.h"
#include "protocol/delivery/receive_ledger.h"
#include "protocol/delivery/send_ledger.h"
#include "protocol/path/path_model.h"
#include "protocol/path/path_state.h"

namespace r2ccl::link_world {

// Path a fails; path b carries on.
enum class Event : uint8_t {
  send_a,            // the next chunk goes out on a, a retransmission first
  send_b,            // and on b
  read_a,            // half of the next frame on a arrives, or the rest of one
  read_b,            // a whole frame on b
  stray,             // a frame of an earlier connection of a arrives late
  duplicate,         // a is suspect: its chunks go out on b as well
  down_at_sender,    // the sender's end of a fails
  down_at_receiver,  // the receiver's end of a fails
  up,                // the sender has lost a and opens it anew
  report,            // the receiver's state reaches the sender
  say_slowly,        // the report goes out on a slow control stream
  late_report,       // the delayed report arrives, and may do so again
  answer,            // the sender's state reaches the receiver
  notice,            // the receiver has a notice for the sender
  post,              // the next receive is posted
};
inline constexpr size_t kEvents = 15;
const char* to_string(Event event);

// The client fills the bytes of a chunk that it has received with this value.
inline constexpr std::byte kConsumed{0xdd};

// Returns the bytes of message `m`.
inline const std::byte* golden(size_t m) {
  static const std::vector<std::byte> pattern = [] {
    std::vector<std::byte> bytes(64 * 1024);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 199 + 1);
    return bytes;
  }();
  return pattern.data() + m * 5;
}

// Neither library function accepts the null pointer of a message of no bytes.
inline bool same(const std::byte* bytes, const std::byte* others, size_t count) {
  return count == 0 || std::memcmp(bytes, others, count) == 0;
}

inline bool all_are(const std::byte* bytes, size_t count, std::byte value) {
  return count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

inline std::vector<std::byte> notice_text(uint64_t number) {
  return {static_cast<std::byte>('a' + number)};
}

// A hash of a state. In practice two different states never have the same digest.
class Digest {
 public:
  template <typename... Values>
  void put(Values... values) {
    (add(uint64_t{values}), ...);
  }
  friend bool operator==(const Digest&, const Digest&) = default;
  struct Hash {
    size_t operator()(const Digest& digest) const { return digest.high_ ^ (digest.low_ >> 32); }
  };

 private:
  void add(uint64_t value) {
    high_ = std::rotl((high_ ^ value) * 0x9e3779b97f4a7c15, 29);
    low_ = (std::rotl(low_, 31) + value) * 0xd6e8feb86659fd93 + 1;
  }

  uint64_t high_ = 0;
  uint64_t low_ = 0;
};

struct Setup {
  std::vector<size_t> messages;  // their sizes
  uint32_t cut = 4;
  uint64_t pool = 0;
  std::vector<Event> start = {};
  uint64_t messages_ahead = limits::kMessagesAheadMax;
};

class World {
 public:
  explicit World(const Setup& setup);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Returns false when the event cannot happen now; then nothing has changed.
  bool happen(Event event);
  // Checks both ends against the model.
  void check();
  // Returns the state's digest. Two worlds of one setup with the same digest have the same future.
  Digest digest() const;
  // Stops the faults, delivers everything that is outstanding, and checks that nothing is missing.
  void finish();

  // Returns the first failed check; empty if none failed.
  const std::string& failure() const { return failure_; }

 private:
  static constexpr uint32_t kChunksMax = 2;  // in one message
  static constexpr size_t kMessagesMax = 3;
  static constexpr uint64_t kNotices = 3;
  static constexpr uint64_t kNoticeSlots = 2;  // notices fill these in turn
  using Chunks = uint32_t;                     // a bit for each chunk of the world

  struct Path {
    PathState sender;
    PathState receiver;
    PathModel model;
    std::vector<DataHeader> wire;  // written, and not yet read whole
    uint64_t frames_read = 0;      // on this connection
    std::optional<ReceiveLedger::Place> half;
    std::optional<DataHeader> stray;
    // The model's part: the connection of each end, 0 for none, and the versions that the sender
    // heard.
    uint32_t connections = 0;
    uint32_t at_sender = 0;
    uint32_t at_receiver = 0;
    bool suspected = false;
    uint64_t frames_told = 0;
  };
  // A report of the receiver, and the truth at that time.
  struct Said {
    ControlFrame frame;
    Chunks accepted = 0;
    uint64_t posted = 0;
    uint64_t eager_total = 0;
    uint64_t notices = 0;
    std::array<uint32_t, 2> connection{};
  };

  void expect(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }
  Path& a() { return paths_[0]; }
  Path& b() { return paths_[1]; }

  void connect(Path& path);
  // Sender.
  bool send_on(Path& path);
  void transmit(Path& path, ChunkRef chunk);
  bool duplicate();
  bool lose_at_sender(Path& path, DownCause cause);
  bool hear(const Said& said);
  void hear_of(Path& path, const PathReport& report, const Said& said);
  bool answer();
  // Receiver.
  bool begin(Path& path);
  bool read(Path& path);
  void write(const Path& path, const DataHeader& header, size_t count);
  void accept(Path& path, const DataHeader& header, ReceiveLedger::Place place);
  bool stray(Path& path);
  bool lose_at_receiver(Path& path, DownCause cause);
  bool post();
  bool send_notice();
  Said say() const;
  void put(const Path& path, Digest& digest) const;
  static void put(const Said& said, Digest& digest);

  // Model.
  static Chunks bit(size_t message, uint32_t index) {
    return Chunks{1} << (message * kChunksMax + index);
  }
  static Chunks bit(ChunkRef chunk) { return bit(chunk.message.value(), chunk.index); }
  Chunks bit(const DataHeader& header) const {
    return bit(header.message.value(), static_cast<uint32_t>(header.offset / setup_.cut));
  }
  uint32_t chunk_count(size_t message) const;
  size_t chunk_bytes(size_t message, uint32_t index) const;
  Chunks all_of(size_t message) const;
  size_t leading(Chunks chunks, size_t limit) const;
  template <typename Visit>
  void for_each_chunk(Visit visit) const;
  uint64_t bytes_in(Chunks chunks) const;
  uint64_t credit() const { return setup_.pool + bytes_in(eager_ & accepted_ & posted_chunks()); }
  Chunks posted_chunks() const;
  std::byte* target(size_t message, uint32_t index) {
    return &target_[message][index * setup_.cut];
  }
  void consume(size_t message, uint32_t index);
  // Returns the latest of the first `count` notices that fill this slot, plus one; 0: there is
  // none.
  static uint64_t latest_notice(uint64_t slot, uint64_t count) {
    while (count > 0 && (count - 1) % kNoticeSlots != slot) --count;
    return count;
  }
  bool settled() const;
  void check_sender();
  void check_copies();
  void check_permission();
  void check_receiver();
  void check_path(const Path& path);
  void check_notices() {
    expect(notices_delivered_ == notices_heard_, "the latest notice that was heard is delivered");
    expect(notices_at_sender_.applied() == notices_heard_,
           "the sender knows which notices were delivered");
    for (uint64_t slot = 0; slot < kNoticeSlots; ++slot) {
      expect(latest_notices_[slot] == latest_notice(slot, notices_heard_), "so is each slot's");
    }
    const uint64_t unheard = std::min(notices_ - notices_heard_, kNoticeSlots);
    expect(notices_at_receiver_.pending() >= unheard, "a notice is kept until it was heard");
    expect(notices_at_receiver_.pending() <= kNoticeSlots, "of each slot one notice is kept");
  }

  const Setup& setup_;
  std::array<std::unique_ptr<std::byte[]>, kMessagesMax> target_;
  SendLedger send_;
  ReceiveLedger receive_;
  NoticeLedger notices_at_sender_;
  NoticeLedger notices_at_receiver_;
  std::array<Path, 2> paths_;
  std::vector<ChunkRef> resend_;
  std::optional<Said> slow_control_;
  TimeNs now_ = kMillisecond;
  // The receiver's state, as in the link.
  uint64_t version_ = 1;
  uint64_t changed_version_ = 0;  // the channel's
  uint64_t acknowledged_ = 0;     // acknowledged by the sender
  uint64_t heard_version_ = 0;    // known to the sender

  Chunks sent_ = 0;      // at least once
  Chunks eager_ = 0;     // part of these, charged to the pool
  Chunks accepted_ = 0;  // at the receiver
  Chunks heard_ = 0;     // part of these, reported to the sender
  uint64_t posted_ = 0;
  uint64_t posted_heard_ = 0;
  uint64_t credit_heard_;
  uint64_t low_water_heard_ = 0;
  MessageNo low_water_;
  std::array<int, kMessagesMax> send_ended_{};
  std::array<int, kMessagesMax> receive_ended_{};
  uint64_t notices_ = 0;  // notices of the receiver for the sender
  uint64_t notices_heard_ = 0;
  uint64_t notices_delivered_ = 0;  // delivered below this number
  // The last delivered notice of each slot: number + 1.
  std::array<uint64_t, kNoticeSlots> latest_notices_{};
  std::string failure_;
};

}  // namespace r2ccl::link_world
