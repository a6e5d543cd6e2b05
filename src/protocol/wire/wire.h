// The frames that cross a path, and their bytes. Little-endian; docs/wire.md has the tables.
//
// A data connection carries frames of a fixed header and a payload. A control stream carries
// control frames. Each is a snapshot of absolute state, so any later frame replaces any lost one,
// and any control stream may carry any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace r2ccl {

inline constexpr uint8_t kWireVersion = 12;

// --- data connection ----------------------------------------------------------------------------

enum class FrameType : uint8_t {
  chunk = 1,  // payload: one chunk of a message
  probe = 2,  // payload: padding; shows that full-size frames pass
};

// The context of a message to a standing receive, which does not look at it.
inline constexpr uint64_t kNoContext = 0;

struct DataHeader {
  FrameType type = FrameType::chunk;
  bool eager = false;  // charged to the eager pool: the sender did not know of a posted receive
  uint32_t payload_bytes = 0;
  Incarnation incarnation;
  uint64_t transmission = 0;  // dense per connection, from 0
  ChannelId channel;
  MessageNo message;
  uint64_t message_bytes = 0;
  uint64_t offset = 0;       // the chunk's place in the message; a multiple of chunk_bytes
  uint32_t chunk_bytes = 0;  // the chunk size of this message: every chunk but the last has it
  uint64_t context = 0;      // hash of the plan that the sender believes this message belongs to
  uint32_t checksum = 0;     // CRC32C of the payload when the session agreed on it, else 0
  uint16_t state_bytes = 0;  // size of the carried state behind the header, with its tag; 0: none

  // Returns the size of the whole frame.
  uint32_t frame_bytes() const;

  friend bool operator==(const DataHeader&, const DataHeader&) = default;
};

// The last eight bytes are the header's tag (header_tag.h), which encode() leaves at 0. The sixteen
// before them are reserved for payload authentication.
inline constexpr size_t kDataHeaderBytes = 104;
inline constexpr size_t kDataTagAt = 96;

inline uint32_t DataHeader::frame_bytes() const {
  return static_cast<uint32_t>(kDataHeaderBytes) + state_bytes + payload_bytes;
}

void encode(const DataHeader& header, std::span<std::byte, kDataHeaderBytes> out);

struct DecodedHeader {
  bool known = false;  // false: a frame type of a later version; skip payload_bytes
  DataHeader header;
};
// Fails on bytes that cannot be a frame: wrong magic or version, sizes that contradict each other.
Result<DecodedHeader> decode_data_header(std::span<const std::byte, kDataHeaderBytes> bytes);

// --- control stream -----------------------------------------------------------------------------

enum class PathPhase : uint8_t {
  down = 0,        // no usable connection under this incarnation
  validating = 1,  // connected, full-size frames are being exchanged
  up = 2,          // carries chunks
  suspect = 3,     // late by its own estimates: carries probes only, its chunks are hedged
};

const char* to_string(PathPhase phase);

// The reason why a path left `up`: the finest one that the observer has evidence for.
enum class DownCause : uint8_t {
  none = 0,
  interface_down = 1,   // the local NIC was taken down
  carrier_lost = 2,     // the local NIC lost its carrier
  connection_lost = 3,  // the socket reported an error or the peer's end closed
  silent = 4,           // nothing came through any more, while other paths to the peer worked
  stalled = 5,      // the peer's kernel answers on this path, but this connection makes no progress
  protocol = 6,     // bytes came that no r2ccl peer sends
  closing = 7,      // orderly end
  peer_notice = 8,  // the peer reported it
  corrupted = 9,    // bytes were changed, repeated or left out in transit: a tag did not fit
  address_lost = 10,  // the local host lost the address of the connection
  lossy = 11,     // packets are lost and retransmitted; only in verdicts, no path goes down for it
  tampered = 12,  // paths ended as `corrupted` again and again; only in verdicts
};
const char* to_string(DownCause cause);
// Returns whether the observer's own host saw the failure of its NIC.
constexpr bool direct(DownCause cause) {
  return cause == DownCause::interface_down || cause == DownCause::carrier_lost ||
         cause == DownCause::address_lost;
}

// The state of one path at one end, absolute within the incarnation.
struct PathReport {
  PathId path;
  Incarnation incarnation;
  PathPhase phase = PathPhase::down;
  DownCause cause = DownCause::none;
  uint64_t frames_received = 0;  // data frames wholly received: acknowledges transmissions below it
  uint64_t arrived_at = 0;  // when the last of these frames was complete, by the sender's clock
  uint64_t control_received = 0;  // control frames received on this path's control stream
  friend bool operator==(const PathReport&, const PathReport&) = default;
};

// The accepted chunks of a message that is not complete yet.
struct PartialMessage {
  MessageNo message;
  uint32_t prefix = 0;            // chunks 0 .. prefix - 1 are accepted
  std::vector<std::byte> bitmap;  // bit i: chunk prefix + i is accepted
  friend bool operator==(const PartialMessage&, const PartialMessage&) = default;
};

struct ChannelReport {
  ChannelId channel;
  MessageNo low_water;       // every message below is complete
  MessageNo posted;          // every message below has a posted receive
  uint64_t eager_total = 0;  // bytes that the peer may send eagerly in total
  std::vector<PartialMessage> partial;
  // Chunks may be counted by their path and never be listed: the channel was cancelled there, or a
  // message does not fit its receive.
  bool discards = false;
  friend bool operator==(const ChannelReport&, const ChannelReport&) = default;
};

// A numbered byte string, delivered once and in order (verdicts, death, abort).
struct NoticeReport {
  uint64_t number = 0;
  std::vector<std::byte> bytes;
  friend bool operator==(const NoticeReport&, const NoticeReport&) = default;
};

struct ControlFrame {
  uint64_t control_sequence = 0;  // dense per control stream connection, from 0
  // The sender's state version: this frame brings the reader up to it. An entry that the frame
  // omits has not changed since the version that the reader last acknowledged, or belongs to a
  // later version.
  uint64_t version = 0;
  // The version of the sender's state when it made the frame: `paths` describes that state. It is
  // above `version` when the channels did not all fit.
  uint64_t counted = 0;
  uint64_t acknowledged = 0;     // the reader's version that the sender has applied
  uint64_t notices_applied = 0;  // the reader's notices below this number were delivered
  uint64_t sent_at = 0;  // by the sender's monotonic clock, in nanoseconds, as is arrived_at
  uint32_t ping = 0;     // not 0: the reader repeats this number at once in `pong`
  uint32_t pong = 0;
  bool goodbye = false;  // the sender has nothing outstanding and will close in order
  // The sender knows of messages of this link, so each path needs its data connection. Stays set.
  bool wants_data = false;
  std::vector<PathReport> paths;
  std::vector<ChannelReport> channels;
  std::vector<NoticeReport> notices;
  friend bool operator==(const ControlFrame&, const ControlFrame&) = default;
};

// Before every control frame: magic, version, size of the body, and a tag (header_tag.h) over these
// bytes, which encode() leaves at 0. The MAC follows the body.
inline constexpr size_t kControlHeaderBytes = 20;
inline constexpr size_t kControlTagAt = 12;
// Sizes in the body: its fixed part, and each entry without its variable part.
inline constexpr size_t kControlFixedBytes = 63;
inline constexpr size_t kPathReportBytes = 32;
inline constexpr size_t kChannelReportBytes = 35;
inline constexpr size_t kPartialMessageBytes = 14;
inline constexpr size_t kNoticeReportBytes = 10;

size_t encoded_bytes(const PartialMessage& partial);
size_t encoded_body_bytes(const ControlFrame& frame);

// Requires entries that a peer accepts. Appends header and body, without the MAC.
void encode(const ControlFrame& frame, std::vector<std::byte>& out);
// Returns the size of the body, or an error when this cannot be a control frame.
Result<uint32_t> decode_control_header(std::span<const std::byte, kControlHeaderBytes> bytes);
Result<ControlFrame> decode_control_body(std::span<const std::byte> body);

// --- carried state ------------------------------------------------------------------------------

// A data frame may carry its sender's state between header and payload: the body of a control frame
// whose stream sequence is the frame's transmission, and a tag (header_tag.h) over the body. It
// holds no notice, ping, pong or goodbye.
inline constexpr size_t kStateTagBytes = 8;

// Appends the body and room for the tag.
void encode_carried_state(const ControlFrame& frame, std::vector<std::byte>& out);
// Requires a tag that fits. Takes body and tag.
Result<ControlFrame> decode_carried_state(std::span<const std::byte> bytes);

}  // namespace r2ccl
