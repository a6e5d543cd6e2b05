#include "protocol/wire/handshake_frames.h"

#include <algorithm>
#include <cstring>

#include "base/printable.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{'R'}, std::byte{'2'}, std::byte{'C'},
                                             std::byte{'L'}};
constexpr uint8_t kFlagAuthenticated = 1;
// The place of the payload size in a header.
constexpr size_t kHelloPayloadSizeAt = 48;
constexpr size_t kReplyPayloadSizeAt = 12;
constexpr size_t kRefuseTextSizeAt = 6;

void put_prefix(ByteWriter& out, HandshakeFrame type, uint8_t a, uint8_t b, uint8_t c) {
  out.put_bytes(kMagic);
  out.put(static_cast<uint8_t>(type));
  out.put(a);
  out.put(b);
  out.put(c);
}

template <size_t N>
void get_array(ByteReader& in, std::array<std::byte, N>& out) {
  const auto bytes = in.get_bytes(N);
  std::copy(bytes.begin(), bytes.end(), out.begin());
}

size_t get_size(std::span<const std::byte> bytes, size_t at) {
  return ByteReader(bytes.subspan(at, 2)).get<uint16_t>();
}

Status malformed(const char* what) {
  return {Code::remote, std::string("malformed handshake from peer: ") + what};
}

const char* name_of(HandshakeFrame type) {
  switch (type) {
    case HandshakeFrame::hello:
      return "HELLO";
    case HandshakeFrame::reply:
      return "REPLY";
    case HandshakeFrame::final:
      return "FINAL";
    case HandshakeFrame::refuse:
      return "REFUSE";
    case HandshakeFrame::confirm:
      return "CONFIRM";
  }
  return "unknown";
}

}  // namespace

std::vector<std::byte> encode_without_seal(const HelloFrame& hello) {
  R2CCL_CHECK(hello.payload.size() <= kHandshakePayloadBytesMax);
  std::vector<std::byte> bytes;
  bytes.reserve(kHelloHeaderBytes + hello.payload.size() + crypto::kHashBytes);
  ByteWriter out(bytes);
  put_prefix(out, HandshakeFrame::hello, hello.version_min, hello.version_max,
             hello.authenticated ? kFlagAuthenticated : 0);
  out.put_bytes(hello.job);
  out.put(hello.epoch);
  out.put(static_cast<uint32_t>(hello.identity.from.value()));
  out.put(static_cast<uint32_t>(hello.identity.to.value()));
  out.put(hello.identity.path.value());
  out.put(static_cast<uint8_t>(hello.identity.kind));
  out.put(uint8_t{0});
  out.put(hello.identity.from_nic.value());
  out.put(hello.identity.to_nic.value());
  out.put(hello.last_used.value());
  out.put(static_cast<uint16_t>(hello.payload.size()));
  out.put(uint16_t{0});
  out.put_bytes(hello.nonce);
  out.put_bytes(hello.payload);
  return bytes;
}

std::vector<std::byte> encode_without_seal(const ReplyFrame& reply) {
  R2CCL_CHECK(reply.payload.size() <= kHandshakePayloadBytesMax);
  std::vector<std::byte> bytes;
  bytes.reserve(kReplyHeaderBytes + reply.payload.size() + crypto::kHashBytes);
  ByteWriter out(bytes);
  put_prefix(out, HandshakeFrame::reply, reply.version, 0,
             reply.authenticated ? kFlagAuthenticated : 0);
  out.put(reply.incarnation.value());
  out.put(static_cast<uint16_t>(reply.payload.size()));
  out.put(uint16_t{0});
  out.put_bytes(reply.nonce);
  out.put_bytes(reply.payload);
  return bytes;
}

std::span<const std::byte> without_seal(std::span<const std::byte> frame) {
  R2CCL_CHECK(frame.size() >= crypto::kHashBytes);
  return frame.first(frame.size() - crypto::kHashBytes);
}

std::array<std::byte, kHandshakePrefixBytes> proof_prefix(HandshakeFrame type, uint8_t version) {
  R2CCL_CHECK(type == HandshakeFrame::final || type == HandshakeFrame::confirm);
  std::array<std::byte, kHandshakePrefixBytes> prefix{};
  std::copy(kMagic.begin(), kMagic.end(), prefix.begin());
  prefix[4] = static_cast<std::byte>(type);
  prefix[5] = static_cast<std::byte>(version);
  return prefix;
}

std::vector<std::byte> encode_refusal(std::string_view text) {
  const std::string told = printable_text(text, kRefuseTextBytesMax);
  R2CCL_CHECK(told.size() <= kRefuseTextBytesMax);
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  put_prefix(out, HandshakeFrame::refuse, 0, static_cast<uint8_t>(told.size() & 0xff),
             static_cast<uint8_t>(told.size() >> 8));
  out.put_bytes(std::as_bytes(std::span(told)));
  return bytes;
}

namespace {

bool is_known(ConnectionKind kind) {
  switch (kind) {
    case ConnectionKind::data:
    case ConnectionKind::control:
    case ConnectionKind::rendezvous:
    case ConnectionKind::call:
    case ConnectionKind::join:
    case ConnectionKind::relay:
      return true;
  }
  return false;
}

}  // namespace

Result<HelloFrame> decode_hello(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  in.get_bytes(5);
  HelloFrame hello;
  hello.version_min = in.get<uint8_t>();
  hello.version_max = in.get<uint8_t>();
  const uint8_t flags = in.get<uint8_t>();
  hello.authenticated = (flags & kFlagAuthenticated) != 0;
  get_array(in, hello.job);
  hello.epoch = in.get<uint32_t>();
  hello.identity.from = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  hello.identity.to = Rank(static_cast<int32_t>(in.get<uint32_t>()));
  hello.identity.path = PathId(in.get<uint16_t>());
  const uint8_t kind = in.get<uint8_t>();
  const uint8_t zero = in.get<uint8_t>();
  hello.identity.from_nic = NicId(in.get<uint16_t>());
  hello.identity.to_nic = NicId(in.get<uint16_t>());
  hello.last_used = Incarnation(in.get<uint32_t>());
  const size_t payload_bytes = in.get<uint16_t>();
  const uint16_t zero2 = in.get<uint16_t>();
  get_array(in, hello.nonce);
  const auto payload = in.get_bytes(payload_bytes);
  get_array(in, hello.seal);
  if (in.bad() || in.remaining() != 0) return malformed("HELLO has the wrong size");
  if (flags > kFlagAuthenticated || zero != 0 || zero2 != 0) {
    return malformed("HELLO has reserved bits set");
  }
  hello.identity.kind = static_cast<ConnectionKind>(kind);
  if (!is_known(hello.identity.kind)) {
    return malformed("HELLO names an unknown kind of connection");
  }
  hello.payload.assign(payload.begin(), payload.end());
  return hello;
}

Result<ReplyFrame> decode_reply(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  in.get_bytes(5);
  ReplyFrame reply;
  reply.version = in.get<uint8_t>();
  const uint8_t zero = in.get<uint8_t>();
  const uint8_t flags = in.get<uint8_t>();
  reply.authenticated = (flags & kFlagAuthenticated) != 0;
  reply.incarnation = Incarnation(in.get<uint32_t>());
  const size_t payload_bytes = in.get<uint16_t>();
  const uint16_t zero2 = in.get<uint16_t>();
  get_array(in, reply.nonce);
  const auto payload = in.get_bytes(payload_bytes);
  get_array(in, reply.seal);
  if (in.bad() || in.remaining() != 0) return malformed("REPLY has the wrong size");
  if (flags > kFlagAuthenticated || zero != 0 || zero2 != 0) {
    return malformed("REPLY has reserved bits set");
  }
  reply.payload.assign(payload.begin(), payload.end());
  return reply;
}

std::string decode_refusal(std::span<const std::byte> bytes) {
  R2CCL_CHECK(bytes.size() >= kHandshakePrefixBytes);
  return printable_text(bytes.subspan(kHandshakePrefixBytes), kRefuseTextBytesMax);
}

size_t FrameAssembler::consume(std::span<const std::byte> input) {
  size_t used = 0;
  while (error_.ok() && !whole() && used < input.size()) {
    R2CCL_CHECK(filled_ <= needed_ && needed_ <= buffer_.size());
    const size_t count = std::min(needed_ - filled_, input.size() - used);
    std::memcpy(buffer_.data() + filled_, input.data() + used, count);
    filled_ += count;
    used += count;
    error_ = check_magic();
    if (error_.ok() && filled_ == needed_ && !sized_) error_ = grow();
  }
  return used;
}

HandshakeFrame FrameAssembler::type() const {
  return static_cast<HandshakeFrame>(std::to_integer<uint8_t>(buffer_[4]));
}

void FrameAssembler::reset(HandshakeFrame wanted) {
  wanted_ = wanted;
  filled_ = 0;
  needed_ = kHandshakePrefixBytes;
  sized_ = false;
  error_ = Status();
}

Status FrameAssembler::check_magic() const {
  const size_t seen = std::min(filled_, kMagic.size());
  if (std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(seen),
                 buffer_.begin())) {
    return {};
  }
  std::string got = "0x";
  for (size_t i = 0; i < seen; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    got += kDigits[std::to_integer<unsigned>(buffer_[i]) >> 4];
    got += kDigits[std::to_integer<unsigned>(buffer_[i]) & 15];
  }
  return {Code::remote, "not an r2ccl peer (got " + got + ")"};
}

Status FrameAssembler::check_type() const {
  if (type() == wanted_) return {};
  // Only an acceptor refuses. A REFUSE to an acceptor would put words of a stranger into its log.
  const bool for_initiator = wanted_ == HandshakeFrame::reply || wanted_ == HandshakeFrame::confirm;
  if (type() == HandshakeFrame::refuse && for_initiator) return {};
  if (wanted_ == HandshakeFrame::reply && type() == HandshakeFrame::hello) {
    return malformed(
        "it started a handshake of its own on this connection, or our HELLO came back");
  }
  return malformed(
      (std::string(name_of(type())) + " where " + name_of(wanted_) + " was due").c_str());
}

Status FrameAssembler::grow() {
  if (filled_ == kHandshakePrefixBytes) {
    R2CCL_RETURN_IF_ERROR(check_type());
    switch (type()) {
      case HandshakeFrame::hello: {
        const auto lowest = std::to_integer<uint8_t>(buffer_[5]);
        const auto highest = std::to_integer<uint8_t>(buffer_[6]);
        // Beyond the fixed bytes the layout depends on the version, so an unknown one ends there.
        sized_ = lowest > kHandshakeVersionMax || highest < kHandshakeVersionMin;
        needed_ = sized_ ? kHelloFixedBytes : kHelloHeaderBytes;
        return {};
      }
      case HandshakeFrame::reply:
        needed_ = kReplyHeaderBytes;
        return {};
      case HandshakeFrame::final:
      case HandshakeFrame::confirm:
        needed_ = kFinalBytes;
        sized_ = true;
        return {};
      case HandshakeFrame::refuse: {
        const size_t text_bytes = get_size(buffer_, kRefuseTextSizeAt);
        if (text_bytes > kRefuseTextBytesMax) return malformed("REFUSE is too long");
        needed_ = kHandshakePrefixBytes + text_bytes;
        sized_ = true;
        return {};
      }
    }
    return malformed("unknown frame");
  }
  const bool hello = type() == HandshakeFrame::hello;
  const size_t payload_bytes = get_size(buffer_, hello ? kHelloPayloadSizeAt : kReplyPayloadSizeAt);
  if (payload_bytes > kHandshakePayloadBytesMax) return malformed("its payload is too long");
  needed_ += payload_bytes + crypto::kHashBytes;
  sized_ = true;
  return {};
}

}  // namespace r2ccl
