// The small world of link_world.h: its events.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "testing/link_world.h"

namespace r2ccl::link_world {
namespace {

using Placement = ReceiveLedger::Placement;

constexpr uint64_t kContext = 7;
constexpr std::byte kOverwritten{0xcc};

}  // namespace

const char* to_string(Event event) {
  static constexpr std::array<const char*, kEvents> kNames = {
      "send_a",     "send_b",         "read_a",           "read_b", "stray",
      "duplicate",  "down_at_sender", "down_at_receiver", "up",     "report",
      "say_slowly", "late_report",    "answer",           "notice", "post"};
  return kNames[static_cast<size_t>(event)];
}

World::World(const Setup& setup)
    : setup_(setup),
      send_(ChannelId(1), setup.pool, setup.messages_ahead),
      receive_(ChannelId(1), setup.pool, setup.messages_ahead),
      credit_heard_(setup.pool) {
  for (size_t m = 0; m < setup.messages.size(); ++m) {
    const size_t bytes = setup.messages[m];
    target_[m] = std::make_unique_for_overwrite<std::byte[]>(bytes);
    // The client must keep the bytes that the ledger does not copy, and need not keep the others.
    std::vector<std::byte> source;
    if (bytes <= limits::kBufferedSendBytesMax) source.assign(golden(m), golden(m) + bytes);
    const std::byte* from = source.empty() ? golden(m) : source.data();
    if (send_.post({from, bytes}, kContext).buffered) ++send_ended_[m];
    std::ranges::fill(source, kOverwritten);
  }
  for (Path& path : paths_) connect(path);
  for (const Event event : setup.start) R2CCL_CHECK(happen(event));
}

bool World::happen(Event event) {
  now_ += kMicrosecond;
  switch (event) {
    case Event::send_a:
      return send_on(a());
    case Event::send_b:
      return send_on(b());
    case Event::read_a:
      return a().half ? read(a()) : begin(a());
    case Event::read_b:
      return read(b());
    case Event::stray:
      return stray(a());
    case Event::duplicate:
      return duplicate();
    case Event::down_at_sender:
      return lose_at_sender(a(), DownCause::connection_lost);
    case Event::down_at_receiver:
      return lose_at_receiver(a(), DownCause::silent);
    case Event::up:
      if (a().at_sender != 0) return false;
      (void)lose_at_receiver(a(), DownCause::connection_lost);
      connect(a());
      return true;
    case Event::report:
      return hear(say());
    case Event::say_slowly:
      slow_control_ = say();
      return true;
    case Event::late_report:
      return slow_control_ && hear(*slow_control_);
    case Event::answer:
      return answer();
    case Event::notice:
      return send_notice();
    case Event::post:
      return post();
  }
  return false;
}

// Both ends agree on the next incarnation and validate the path, as the handshake does.
void World::connect(Path& path) {
  const Incarnation last = std::max(path.sender.incarnation(), path.receiver.incarnation());
  const Incarnation next(last.value() + 1);
  path.at_sender = path.at_receiver = ++path.connections;
  path.suspected = false;
  path.frames_read = path.frames_told = 0;
  for (PathState* end : {&path.sender, &path.receiver}) {
    end->connect(next, now_);
    end->mark_validated(now_);
  }
  if (path.connections > 1) ++version_;
}

// --- the sender ----------------------------------------------------------------------------------

bool World::send_on(Path& path) {
  if (!path.sender.usable()) return false;
  std::erase_if(resend_, [this](ChunkRef chunk) { return !send_.needs_delivery(chunk); });
  if (!resend_.empty()) {
    transmit(path, resend_.front());
    resend_.erase(resend_.begin());
    return true;
  }
  const auto chunk = send_.next_fresh(setup_.cut);
  if (!chunk) return false;
  expect((sent_ & bit(*chunk)) == 0, "a fresh chunk was never sent");
  transmit(path, *chunk);
  return true;
}

void World::transmit(Path& path, ChunkRef chunk) {
  const size_t m = chunk.message.value();
  DataHeader header = send_.transmit(chunk);
  const bool permitted = m < posted_heard_;
  if ((sent_ & bit(chunk)) == 0 && !permitted) eager_ |= bit(chunk);
  sent_ |= bit(chunk);
  expect(header.eager == ((eager_ & bit(chunk)) != 0), "a chunk's charge never changes");
  expect(header.message == chunk.message && header.offset == uint64_t{chunk.index} * setup_.cut &&
             header.payload_bytes == chunk_bytes(m, chunk.index) &&
             header.message_bytes == setup_.messages[m] && header.chunk_bytes == setup_.cut,
         "a chunk has the chosen size");
  header.incarnation = path.sender.incarnation();
  header.transmission = path.model.frames_sent();
  Transmission transmission;
  transmission.chunk = chunk;
  transmission.bytes = header.payload_bytes;
  path.model.on_sent(transmission, now_);
  if (path.at_receiver == path.at_sender) {
    path.wire.push_back(header);
  } else {
    path.stray = header;
  }
}

bool World::duplicate() {
  if (!a().sender.usable()) return false;
  a().sender.suspect(now_);
  a().suspected = true;
  for (const Transmission& each : a().model.outstanding()) {
    if (send_.needs_delivery(each.chunk) && send_.copies(each.chunk) == 1)
      transmit(b(), each.chunk);
  }
  return true;
}

bool World::lose_at_sender(Path& path, DownCause cause) {
  if (path.at_sender == 0) return false;
  path.at_sender = 0;
  path.suspected = false;
  const Fifo<Transmission> lost = path.model.outstanding();
  path.model.reset();
  path.sender.fail(cause, now_);
  for (const Transmission& each : lost) {
    if (send_.copy_gone(each.chunk)) resend_.push_back(each.chunk);
  }
  return true;
}

bool World::hear(const Said& said) {
  std::vector<SendLedger::Posted> ended;
  for (const ChannelReport& report : said.frame.channels) {
    expect(send_.apply(report, ended).ok(), "an honest report is taken");
  }
  heard_ |= said.accepted;
  posted_heard_ = std::max(posted_heard_, said.posted);
  credit_heard_ = std::max(credit_heard_, said.eager_total);
  low_water_heard_ = std::max(low_water_heard_, leading(said.accepted, said.posted));
  notices_heard_ = std::max(notices_heard_, said.notices);
  heard_version_ = std::max(heard_version_, said.frame.version);
  for (const SendLedger::Posted& each : ended) {
    const size_t m = each.number.value();
    expect((heard_ & all_of(m)) == all_of(m), "no send ends before all of it is acknowledged");
    send_ended_[m] += each.buffered ? 0 : 1;
  }
  for (const PathReport& report : said.frame.paths)
    hear_of(paths_[report.path.value()], report, said);
  for (const NoticeReport& notice : said.frame.notices) {
    if (!notices_at_sender_.take(notice.number)) continue;
    expect(notice.number >= notices_delivered_, "notices are delivered in order");
    expect(notice.bytes == notice_text(notice.number), "a notice is delivered as it was sent");
    notices_delivered_ = notice.number + 1;
    latest_notices_[notice.number % kNoticeSlots] = notices_delivered_;
  }
  return true;
}

// Runs after the channels, as in the link: an arrived transmission finds its chunk acknowledged.
void World::hear_of(Path& path, const PathReport& report, const Said& said) {
  const uint32_t connection = said.connection[report.path.value()];
  const bool current = path.sender.is_current(report.incarnation);
  expect(current == (path.at_sender != 0 && report.incarnation == Incarnation(path.at_sender)),
         "words about a connection that is over say nothing");
  if (!current) return;
  if (report.phase == PathPhase::down) {
    expect(connection == 0, "a path that the peer has is not down");
    (void)lose_at_sender(path, DownCause::peer_notice);
    return;
  }
  path.frames_told = std::max(path.frames_told, report.frames_received);
  std::vector<Transmission> delivered;
  expect(path.model.on_delivered(report.frames_received, {}, path.suspected, now_, delivered),
         "an honest count is taken");
  for (const Transmission& each : delivered) {
    expect(!send_.copy_gone(each.chunk), "a chunk that arrived is never sent again");
  }
  if (path.suspected && path.model.outstanding().empty()) {
    path.suspected = false;
    path.sender.clear(now_);
  }
}

bool World::answer() {
  acknowledged_ = std::max(acknowledged_, heard_version_);
  (void)notices_at_receiver_.on_applied(notices_at_sender_.applied());
  for (Path& path : paths_) {
    if (path.sender.connected() || !path.receiver.is_current(path.sender.incarnation())) continue;
    (void)lose_at_receiver(path, DownCause::peer_notice);
  }
  for (const Path& path : paths_) {
    expect(path.at_sender != 0 || path.at_receiver == 0, "the peer's word of a lost path counts");
  }
  return true;
}

// --- the receiver --------------------------------------------------------------------------------

// The header and half of the payload arrive.
bool World::begin(Path& path) {
  if (path.half || path.wire.empty()) return false;
  const DataHeader& header = path.wire.front();
  expect(path.receiver.is_current(header.incarnation), "an honest frame is taken");
  auto place = receive_.place(header);
  expect(place.ok(), "an honest chunk is taken");
  path.half = place.ok() ? std::move(place).value() : ReceiveLedger::Place{};
  const Chunks chunk = bit(header);
  const Placement right = (accepted_ & chunk) != 0         ? Placement::discard
                          : (posted_chunks() & chunk) != 0 ? Placement::direct
                                                           : Placement::early;
  expect(path.half->placement == right, "a copy of an accepted chunk goes nowhere");
  write(path, header, header.payload_bytes / 2);
  return true;
}

void World::write(const Path& path, const DataHeader& header, size_t count) {
  if (path.half->placement != Placement::direct) return;
  const size_t m = header.message.value();
  expect(path.half->destination == target_[m].get() + header.offset, "bytes go where they belong");
  std::copy_n(golden(m) + header.offset, count, path.half->destination);
}

bool World::read(Path& path) {
  if (!path.half && !begin(path)) return false;
  const DataHeader header = path.wire.front();
  write(path, header, header.payload_bytes);
  path.wire.erase(path.wire.begin());
  ++path.frames_read;
  ++version_;
  accept(path, header, *std::exchange(path.half, std::nullopt));
  return true;
}

void World::accept(Path& path, const DataHeader& header, ReceiveLedger::Place place) {
  if (place.placement == Placement::discard) {
    expect((accepted_ & bit(header)) != 0, "only copies are dropped");
    return;
  }
  const size_t m = header.message.value();
  const std::byte* payload = golden(m) + header.offset;
  std::ranges::copy_n(payload, static_cast<ptrdiff_t>(place.early.size()), place.early.begin());
  const auto result = receive_.accept(header, std::move(place.early), version_);
  changed_version_ = version_;
  expect(result.fresh == ((accepted_ & bit(header)) == 0), "a chunk is accepted once");
  accepted_ |= bit(header);
  const bool ends = m < posted_ && (accepted_ & all_of(m)) == all_of(m);
  expect(result.message_complete == ends, "a receive ends with its last chunk");
  receive_ended_[m] += result.message_complete ? 1 : 0;
  if (!result.fresh) return;
  // As in the link, no other copy of an accepted chunk may touch its destination.
  for (Path& other : paths_) {
    if (&other != &path && other.half && bit(other.wire.front()) == bit(header)) {
      other.half = ReceiveLedger::Place{};
    }
  }
  if (m < posted_) consume(m, static_cast<uint32_t>(header.offset / setup_.cut));
}

// The client changes the received bytes, so that a later write to them shows.
void World::consume(size_t message, uint32_t index) {
  const size_t bytes = chunk_bytes(message, index);
  std::byte* at = target(message, index);
  expect(same(at, golden(message) + index * setup_.cut, bytes), "the bytes are right");
  std::fill_n(at, bytes, kConsumed);
}

bool World::stray(Path& path) {
  if (!path.stray) return false;
  expect(!path.receiver.is_current(path.stray->incarnation),
         "frames of old connections are refused");
  path.stray.reset();
  return true;
}

bool World::lose_at_receiver(Path& path, DownCause cause) {
  if (path.at_receiver == 0) return false;
  path.at_receiver = 0;
  if (!path.wire.empty()) path.stray = path.wire.back();
  path.wire.clear();
  path.half.reset();
  path.receiver.fail(cause, now_);
  ++version_;
  return true;
}

bool World::post() {
  if (posted_ == setup_.messages.size()) return false;
  const size_t m = posted_++;
  const auto result = receive_.post({target_[m].get(), setup_.messages[m]}, kContext);
  changed_version_ = ++version_;
  expect(result.number == MessageNo(m) && result.mismatch.ok(), "receives are numbered in order");
  expect(result.complete == ((accepted_ & all_of(m)) == all_of(m)),
         "a receive whose bytes are all there ends at once");
  receive_ended_[m] += result.complete ? 1 : 0;
  for (uint32_t i = 0; i < chunk_count(m); ++i) {
    if ((accepted_ & bit(m, i)) != 0) consume(m, i);
  }
  return true;
}

bool World::send_notice() {
  if (notices_ == kNotices) return false;
  notices_at_receiver_.set({{1, notices_ % kNoticeSlots}, notice_text(notices_)});
  ++notices_;
  ++version_;
  return true;
}

World::Said World::say() const {
  Said said;
  said.accepted = accepted_;
  said.posted = posted_;
  said.eager_total = credit();
  said.notices = notices_;
  said.frame.version = version_;
  for (size_t p = 0; p < paths_.size(); ++p) {
    PathReport report;
    report.path = PathId(static_cast<uint16_t>(p));
    report.incarnation = paths_[p].receiver.incarnation();
    report.phase = paths_[p].receiver.phase();
    report.cause = paths_[p].receiver.cause();
    report.frames_received = paths_[p].receiver.connected() ? paths_[p].frames_read : 0;
    said.frame.paths.push_back(report);
    said.connection[p] = paths_[p].at_receiver;
  }
  if (changed_version_ > acknowledged_) {
    said.frame.channels.push_back(receive_.report(acknowledged_, version_));
  }
  said.frame.notices = notices_at_receiver_.report();
  return said;
}

Digest World::digest() const {
  Digest digest;
  digest.put(sent_, eager_, accepted_, heard_, posted_, posted_heard_, credit_heard_);
  digest.put(low_water_heard_, notices_, notices_heard_, notices_at_receiver_.pending());
  digest.put(version_, changed_version_, acknowledged_, heard_version_, resend_.size());
  for (const ChunkRef chunk : resend_) digest.put(bit(chunk));
  for (const Path& path : paths_) put(path, digest);
  put(say(), digest);
  digest.put(slow_control_.has_value());
  if (slow_control_) put(*slow_control_, digest);
  return digest;
}

void World::put(const Path& path, Digest& digest) const {
  digest.put(path.connections, path.at_sender, path.at_receiver, path.suspected);
  digest.put(path.frames_read, path.frames_told, path.model.frames_sent());
  digest.put(path.model.outstanding().size());
  for (const Transmission& each : path.model.outstanding()) digest.put(bit(each.chunk));
  digest.put(path.wire.size());
  for (const DataHeader& header : path.wire) digest.put(bit(header));
  digest.put(path.half ? 1 + static_cast<uint64_t>(path.half->placement) : 0);
  digest.put(path.stray ? path.stray->incarnation.value() : 0);
}

void World::put(const Said& said, Digest& digest) {
  digest.put(said.accepted, said.posted, said.eager_total, said.notices);
  digest.put(said.frame.version, said.frame.notices.size());
  for (const PathReport& report : said.frame.paths) {
    digest.put(report.incarnation.value(), static_cast<uint64_t>(report.phase));
    digest.put(report.frames_received);
  }
  for (const ChannelReport& report : said.frame.channels) {
    digest.put(report.low_water.value(), report.partial.size());
    for (const PartialMessage& partial : report.partial) {
      digest.put(partial.message.value(), partial.prefix);
      for (const std::byte bits : partial.bitmap) digest.put(static_cast<uint64_t>(bits));
    }
  }
}

}  // namespace r2ccl::link_world
