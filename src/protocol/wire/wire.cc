#include "protocol/wire/wire.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

constexpr uint32_t kDataMagic = 0x44433252;     // "R2CD"
constexpr uint32_t kControlMagic = 0x4c433252;  // "R2CL"
constexpr uint16_t kFlagEager = 1;
constexpr uint8_t kFlagGoodbye = 1;
constexpr uint8_t kFlagWantsData = 2;
constexpr uint8_t kFlagDiscards = 1;
constexpr size_t kBitmapBytesMax = limits::kAckBitmapChunks / 8;
constexpr size_t kPartialMax = 4096;
constexpr size_t kNoticesMax = 64;

Status bad_frame(const char* what) {
  return {Code::remote, std::string("bytes that no r2ccl peer sends: ") + what};
}

// Fixed-size little-endian access, for the one header on the hot path.
template <typename T>
void store(std::byte* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
  }
}

template <typename T>
T load(const std::byte* in) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(in[i]) << (8 * i);
  return static_cast<T>(value);
}

// Returns what is wrong with the sizes of a chunk; null: nothing.
const char* fault_of(const DataHeader& h) {
  const bool sizes_fit =
      h.message_bytes == 0
          ? h.offset == 0 && h.payload_bytes == 0
          : h.offset < h.message_bytes && h.chunk_bytes > 0 && h.offset % h.chunk_bytes == 0 &&
                h.payload_bytes == std::min<uint64_t>(h.chunk_bytes, h.message_bytes - h.offset);
  if (!sizes_fit || h.chunk_bytes > limits::kChunkBytesMax) {
    return "chunk sizes disagree";
  }
  // This bound keeps a count of a message's chunks from overflowing.
  return h.message_bytes > limits::kMessageBytesMax ? "oversized message" : nullptr;
}

void put_path(ByteWriter& out, const PathReport& p) {
  out.put(p.path.value());
  out.put(p.incarnation.value());
  out.put(static_cast<uint8_t>(p.phase));
  out.put(static_cast<uint8_t>(p.cause));
  out.put(p.frames_received);
  out.put(p.arrived_at);
  out.put(p.control_received);
}

PathReport get_path(ByteReader& in) {
  PathReport p;
  p.path = PathId(in.get<uint16_t>());
  p.incarnation = Incarnation(in.get<uint32_t>());
  const auto phase = in.get<uint8_t>();
  // Reads a phase or cause of a later version as the one with the least effect.
  p.phase = phase <= static_cast<uint8_t>(PathPhase::suspect) ? static_cast<PathPhase>(phase)
                                                              : PathPhase::validating;
  const auto cause = in.get<uint8_t>();
  p.cause = cause <= static_cast<uint8_t>(DownCause::address_lost) ? static_cast<DownCause>(cause)
                                                                   : DownCause::none;
  p.frames_received = in.get<uint64_t>();
  p.arrived_at = in.get<uint64_t>();
  p.control_received = in.get<uint64_t>();
  return p;
}

void put_channel(ByteWriter& out, const ChannelReport& c) {
  out.put(c.channel.value());
  out.put(c.low_water.value());
  out.put(c.posted.value());
  out.put(c.eager_total);
  out.put(static_cast<uint8_t>(c.discards ? kFlagDiscards : 0));
  out.put(static_cast<uint16_t>(c.partial.size()));
  for (const PartialMessage& m : c.partial) {
    out.put(m.message.value());
    out.put(m.prefix);
    out.put(static_cast<uint16_t>(m.bitmap.size()));
    out.put_bytes(m.bitmap);
  }
}

bool get_channel(ByteReader& in, ChannelReport& c) {
  c.channel = ChannelId(in.get<uint64_t>());
  c.low_water = MessageNo(in.get<uint64_t>());
  c.posted = MessageNo(in.get<uint64_t>());
  c.eager_total = in.get<uint64_t>();
  c.discards = (in.get<uint8_t>() & kFlagDiscards) != 0;
  const size_t partial = in.get<uint16_t>();
  if (partial > kPartialMax) return false;
  for (size_t i = 0; i < partial && !in.bad(); ++i) {
    PartialMessage m;
    m.message = MessageNo(in.get<uint64_t>());
    m.prefix = in.get<uint32_t>();
    const size_t bytes = in.get<uint16_t>();
    if (bytes > kBitmapBytesMax) return false;
    const auto bitmap = in.get_bytes(bytes);
    m.bitmap.assign(bitmap.begin(), bitmap.end());
    c.partial.push_back(std::move(m));
  }
  return !in.bad();
}

bool get_notice(ByteReader& in, NoticeReport& n) {
  n.number = in.get<uint64_t>();
  const size_t bytes = in.get<uint16_t>();
  if (bytes > limits::kNoticeBytesMax) return false;
  const auto text = in.get_bytes(bytes);
  n.bytes.assign(text.begin(), text.end());
  return !in.bad();
}

}  // namespace

const char* to_string(PathPhase phase) {
  switch (phase) {
    case PathPhase::down:
      return "down";
    case PathPhase::validating:
      return "proving";
    case PathPhase::up:
      return "up";
    case PathPhase::suspect:
      return "suspect";
  }
  return "unknown";
}

const char* to_string(DownCause cause) {
  switch (cause) {
    case DownCause::none:
      return "none";
    case DownCause::interface_down:
      return "interface_down";
    case DownCause::carrier_lost:
      return "carrier_lost";
    case DownCause::connection_lost:
      return "connection_lost";
    case DownCause::silent:
      return "silent";
    case DownCause::stalled:
      return "stalled";
    case DownCause::protocol:
      return "protocol";
    case DownCause::closing:
      return "closing";
    case DownCause::peer_notice:
      return "peer_notice";
    case DownCause::corrupted:
      return "corrupted";
    case DownCause::lossy:
      return "lossy";
    case DownCause::address_lost:
      return "address_lost";
    case DownCause::tampered:
      return "tampered";
  }
  return "unknown";
}

void encode(const DataHeader& h, std::span<std::byte, kDataHeaderBytes> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  std::byte* p = out.data();
  store(p, kDataMagic);
  store(p + 4, kWireVersion);
  store(p + 5, static_cast<uint8_t>(h.type));
  store(p + 6, h.eager ? kFlagEager : uint16_t{0});
  store(p + 8, h.payload_bytes);
  store(p + 12, h.incarnation.value());
  store(p + 16, h.transmission);
  store(p + 24, h.channel.value());
  store(p + 32, h.message.value());
  store(p + 40, h.message_bytes);
  store(p + 48, h.offset);
  store(p + 56, h.context);
  store(p + 64, h.checksum);
  store(p + 68, h.state_bytes);
  store(p + 72, h.chunk_bytes);
}

Result<DecodedHeader> decode_data_header(std::span<const std::byte, kDataHeaderBytes> bytes) {
  const std::byte* p = bytes.data();
  if (load<uint32_t>(p) != kDataMagic) return bad_frame("wrong magic on a data connection");
  if (load<uint8_t>(p + 4) != kWireVersion) return bad_frame("unknown wire version");
  DecodedHeader decoded;
  DataHeader& h = decoded.header;
  const auto type = load<uint8_t>(p + 5);
  decoded.known = type == static_cast<uint8_t>(FrameType::chunk) ||
                  type == static_cast<uint8_t>(FrameType::probe);
  h.payload_bytes = load<uint32_t>(p + 8);
  if (h.payload_bytes > limits::kChunkBytesMax) return bad_frame("oversized frame");
  h.incarnation = Incarnation(load<uint32_t>(p + 12));
  h.transmission = load<uint64_t>(p + 16);
  h.state_bytes = load<uint16_t>(p + 68);
  if (h.state_bytes > limits::kCarriedStateBytesMax) return bad_frame("oversized state");
  if (h.state_bytes != 0 && h.state_bytes < kControlFixedBytes + kStateTagBytes) {
    return bad_frame("truncated state");
  }
  if (!decoded.known) return decoded;
  h.type = static_cast<FrameType>(type);
  h.eager = (load<uint16_t>(p + 6) & kFlagEager) != 0;
  h.channel = ChannelId(load<uint64_t>(p + 24));
  h.chunk_bytes = load<uint32_t>(p + 72);
  h.message = MessageNo(load<uint64_t>(p + 32));
  h.message_bytes = load<uint64_t>(p + 40);
  h.offset = load<uint64_t>(p + 48);
  h.context = load<uint64_t>(p + 56);
  h.checksum = load<uint32_t>(p + 64);
  if (h.type == FrameType::chunk) {
    if (const char* fault = fault_of(h); fault != nullptr) return bad_frame(fault);
  }
  return decoded;
}

size_t encoded_bytes(const PartialMessage& m) {
  return kPartialMessageBytes + m.bitmap.size();
}

size_t encoded_body_bytes(const ControlFrame& f) {
  size_t bytes = kControlFixedBytes + f.paths.size() * kPathReportBytes +
                 f.channels.size() * kChannelReportBytes + f.notices.size() * kNoticeReportBytes;
  for (const ChannelReport& c : f.channels) {
    for (const PartialMessage& m : c.partial) bytes += encoded_bytes(m);
  }
  for (const NoticeReport& n : f.notices) bytes += n.bytes.size();
  return bytes;
}

namespace {

void encode_body(const ControlFrame& f, std::vector<std::byte>& out) {
  ByteWriter w(out);
  const int flags = (f.goodbye ? kFlagGoodbye : 0) | (f.wants_data ? kFlagWantsData : 0);
  w.put(static_cast<uint8_t>(flags));
  w.put(f.control_sequence);
  w.put(f.version);
  w.put(f.counted);
  w.put(f.acknowledged);
  w.put(f.notices_applied);
  w.put(f.sent_at);
  w.put(f.ping);
  w.put(f.pong);
  w.put(static_cast<uint16_t>(f.paths.size()));
  w.put(static_cast<uint16_t>(f.channels.size()));
  w.put(static_cast<uint16_t>(f.notices.size()));
  for (const PathReport& p : f.paths) put_path(w, p);
  for (const ChannelReport& c : f.channels) put_channel(w, c);
  for (const NoticeReport& n : f.notices) {
    w.put(n.number);
    w.put(static_cast<uint16_t>(n.bytes.size()));
    w.put_bytes(n.bytes);
  }
}

}  // namespace

void encode(const ControlFrame& f, std::vector<std::byte>& out) {
  const size_t start = out.size();
  ByteWriter w(out);
  w.put(kControlMagic);
  w.put(kWireVersion);
  w.put(uint8_t{0});  // flags of the header: none yet
  w.put(uint16_t{0});
  w.put(uint32_t{0});  // size of the body, known below
  w.put(uint64_t{0});  // the tag, which the frame's sender computes
  encode_body(f, out);
  store(out.data() + start + 8, static_cast<uint32_t>(out.size() - start - kControlHeaderBytes));
}

Result<uint32_t> decode_control_header(std::span<const std::byte, kControlHeaderBytes> bytes) {
  if (load<uint32_t>(bytes.data()) != kControlMagic) return bad_frame("wrong control magic");
  if (load<uint8_t>(bytes.data() + 4) != kWireVersion) return bad_frame("unknown wire version");
  const auto size = load<uint32_t>(bytes.data() + 8);
  if (size > limits::kControlBodyBytesMax) return bad_frame("oversized control frame");
  return size;
}

Result<ControlFrame> decode_control_body(std::span<const std::byte> body) {
  ByteReader in(body);
  ControlFrame f;
  const auto flags = in.get<uint8_t>();
  f.goodbye = (flags & kFlagGoodbye) != 0;
  f.wants_data = (flags & kFlagWantsData) != 0;
  f.control_sequence = in.get<uint64_t>();
  f.version = in.get<uint64_t>();
  f.counted = in.get<uint64_t>();
  f.acknowledged = in.get<uint64_t>();
  f.notices_applied = in.get<uint64_t>();
  f.sent_at = in.get<uint64_t>();
  f.ping = in.get<uint32_t>();
  f.pong = in.get<uint32_t>();
  const size_t paths = in.get<uint16_t>();
  const size_t channels = in.get<uint16_t>();
  const size_t notices = in.get<uint16_t>();
  if (paths > limits::kPathsMax || channels > limits::kChannelsMax || notices > kNoticesMax) {
    return bad_frame("control frame with too many entries");
  }
  f.paths.reserve(std::min(paths, body.size() / kPathReportBytes));
  f.channels.reserve(std::min(channels, body.size() / kChannelReportBytes));
  for (size_t i = 0; i < paths && !in.bad(); ++i) f.paths.push_back(get_path(in));
  for (size_t i = 0; i < channels && !in.bad(); ++i) {
    if (!get_channel(in, f.channels.emplace_back())) return bad_frame("bad channel entry");
  }
  for (size_t i = 0; i < notices && !in.bad(); ++i) {
    if (!get_notice(in, f.notices.emplace_back())) return bad_frame("bad notice entry");
  }
  if (in.bad()) return bad_frame("truncated control frame");
  return f;
}

void encode_carried_state(const ControlFrame& frame, std::vector<std::byte>& out) {
  encode_body(frame, out);
  out.resize(out.size() + kStateTagBytes);
}

Result<ControlFrame> decode_carried_state(std::span<const std::byte> bytes) {
  if (bytes.size() < kStateTagBytes) return bad_frame("truncated state");
  auto frame = decode_control_body(bytes.first(bytes.size() - kStateTagBytes));
  if (!frame.ok()) return frame;
  const ControlFrame& f = frame.value();
  const bool more = f.goodbye || f.ping != 0 || f.pong != 0 || !f.notices.empty();
  if (more) return bad_frame("carried state with parts that only control streams have");
  return frame;
}

}  // namespace r2ccl
