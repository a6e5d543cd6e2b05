// Conformance: the behaviour of a transport when connections break in the middle. Included by
// conformance.h. FaultyTransport, wrapped around the world's own transports, breaks them.
#pragma once

#include "testing/conformance.h"
#include "transport/faulty/faulty_transport.h"

namespace r2ccl {
namespace conformance {

inline constexpr size_t kChunkBytes = 4096;

inline bool has_ended(const IoResult& result) {
  return result.kind == IoKind::failed || result.kind == IoKind::closed;
}

struct CutTransfer {
  IoResult writer_end;
  IoResult reader_end;
  std::vector<uint8_t> received;
};

// Moves `chunk` until both sides have seen the end of their connection. A writer without more to
// write sees it by a read.
inline CutTransfer transfer_until_cut(ConformanceWorld& world, Connection& writer,
                                      Connection& reader, const std::vector<uint8_t>& chunk) {
  CutTransfer out;
  size_t written = 0;
  wait_for(world, [&] {
    if (!has_ended(out.writer_end)) {
      std::vector<uint8_t> nothing;
      out.writer_end = written < chunk.size()
                           ? write_some(writer, std::span(chunk).subspan(written))
                           : read_into(writer, nothing, 1);
      written += out.writer_end.bytes;
    }
    if (!has_ended(out.reader_end)) {
      out.reader_end = read_into(reader, out.received, kChunkBytes);
    }
    return has_ended(out.writer_end) && has_ended(out.reader_end);
  });
  return out;
}

// Sends a chunk from a to b, and kills the connection at every one of its bytes: after the writer
// has written so many, or after the reader has read so many.
inline void cut_chunk_at_every_byte(ConformanceWorld& world, Direction direction) {
  FaultPlan plan_a;
  FaultPlan plan_b;
  FaultyTransport a(world.a(), plan_a, world.clock());
  FaultyTransport b(world.b(), plan_b, world.clock());
  const std::vector<uint8_t> chunk = pattern(kChunkBytes);
  Result<std::unique_ptr<Listener>> listener = b.listen(world.b_address(), "");
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  const bool writer_cuts = direction == Direction::transmit;
  for (uint64_t cut = 0; cut <= kChunkBytes; ++cut) {
    Result<std::unique_ptr<Connection>> writer =
        a.connect(listener.value()->local(), world.a_options());
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    std::unique_ptr<Connection> reader;
    ASSERT_TRUE(wait_for(world, [&] {
      if (reader == nullptr) reader = listener.value()->accept();
      return reader != nullptr && writer.value()->connect_state() == ConnectState::established;
    }));
    (writer_cuts ? plan_a : plan_b).reset_at(FaultPlan::kEveryNic, direction, cut);
    const CutTransfer seen = transfer_until_cut(world, *writer.value(), *reader, chunk);
    ASSERT_EQ(seen.writer_end.kind, IoKind::failed) << "cut at " << cut;
    ASSERT_EQ(seen.reader_end.kind, IoKind::failed) << "cut at " << cut;
    // Exactly a prefix has arrived, and no less than the reader itself counted.
    ASSERT_LE(seen.received.size(), cut);
    if (!writer_cuts) {
      ASSERT_EQ(seen.received.size(), cut);
    }
    ASSERT_TRUE(std::equal(seen.received.begin(), seen.received.end(), chunk.begin()));
  }
}

// One small conversation, driven by readiness, of which one operation fails. Each side sends its
// block and reads the other's. A side that is told of a failure hangs up.
class Conversation {
 public:
  explicit Conversation(ConformanceWorld& world, uint64_t failing_operation)
      : world_(world), a_(world.a(), plan_, world.clock()), b_(world.b(), plan_, world.clock()) {
    plan_.fail_operation(failing_operation, EIO);
  }
  ~Conversation() {
    for (Side& side : sides_) hang_up(side);
    if (listening_) b_.poller().remove(listener_->poll_id());
  }

  // Returns false when a side waits for ever without having been told.
  bool run() {
    if (!start()) return true;
    return wait_for(world_, [&] {
      while (turn()) {
      }
      return sides_[0].finished && sides_[1].finished;
    });
  }
  bool told() const { return told_; }
  bool failure_fired() const { return plan_.operation_has_failed(); }
  bool complete() const {
    return sides_[0].received == block_ && sides_[1].received == block_ &&
           sides_[0].written == block_.size() && sides_[1].written == block_.size();
  }

 private:
  struct Side {
    Transport* transport = nullptr;
    std::unique_ptr<Connection> connection;
    size_t written = 0;
    std::vector<uint8_t> received;
    bool finished = false;
    bool polled = false;
  };

  void hang_up(Side& side) {
    if (side.polled) side.transport->poller().remove(side.connection->poll_id());
    side.polled = false;
    side.connection.reset();
  }
  // Ends this side. The other side has to find out by itself.
  bool tell(Side& side) {
    told_ = true;
    side.finished = true;
    hang_up(side);
    return false;
  }

  bool start() {
    sides_[0].transport = &a_;
    sides_[1].transport = &b_;
    Result<std::unique_ptr<Listener>> listener = b_.listen(world_.b_address(), "");
    if (!listener.ok()) return tell(sides_[0]);
    listener_ = std::move(listener).value();
    listening_ = b_.poller().add(listener_->poll_id(), kListenerToken, false).ok();
    if (!listening_) return tell(sides_[0]);
    Result<std::unique_ptr<Connection>> connection =
        a_.connect(listener_->local(), world_.a_options());
    if (!connection.ok()) return tell(sides_[0]);
    return adopt(0, std::move(connection).value());
  }
  bool adopt(size_t index, std::unique_ptr<Connection> connection) {
    Side& side = sides_[index];
    side.connection = std::move(connection);
    side.polled = side.transport->poller().add(side.connection->poll_id(), index, true).ok();
    return side.polled ? true : tell(side);
  }

  // Returns true when bytes have moved.
  bool turn() {
    bool moved = false;
    for (Side& side : sides_) {
      std::array<PollEvent, 4> events;
      const size_t count = side.transport->poller().wait(events, 0);
      for (const PollEvent& event : std::span(events).first(count)) {
        if (event.token == kListenerToken) moved = accept() || moved;
        if (event.token < 2) moved = serve(sides_[event.token], event) || moved;
      }
    }
    return moved;
  }
  bool accept() {
    std::unique_ptr<Connection> connection = listener_->accept();
    if (listener_->accept_error() != 0) told_ = true;  // the backlog keeps it: try again
    if (connection == nullptr) return listener_->accept_error() != 0;
    // After adoption has failed, only the other side is left, and must see its connection fail.
    return adopt(1, std::move(connection));
  }
  bool serve(Side& side, const PollEvent& event) {
    if (side.connection == nullptr) return false;
    bool moved = false;
    if (event.writable && side.written < block_.size()) {
      const IoResult result = write_some(*side.connection, std::span(block_).subspan(side.written));
      if (has_ended(result)) return tell(side);
      side.written += result.bytes;
      moved = result.bytes > 0;
      if (side.written == block_.size()) {
        side.transport->poller().modify(side.connection->poll_id(),
                                        static_cast<uint64_t>(&side - sides_.data()), false);
      }
    }
    if (event.readable) {
      const IoResult result = read_into(*side.connection, side.received, 1024);
      if (has_ended(result)) return tell(side);
      moved = moved || result.bytes > 0;
    }
    side.finished = side.written == block_.size() && side.received.size() == block_.size();
    return moved;
  }

  static constexpr uint64_t kListenerToken = 2;
  ConformanceWorld& world_;
  const std::vector<uint8_t> block_ = pattern(2000);
  FaultPlan plan_;
  FaultyTransport a_;
  FaultyTransport b_;
  std::unique_ptr<Listener> listener_;
  bool listening_ = false;
  bool told_ = false;
  std::array<Side, 2> sides_;
};

}  // namespace conformance

TEST_P(TransportConformance, AChunkWhoseWriterDiesAtAnyByteIsReadAsAPrefix) {
  conformance::cut_chunk_at_every_byte(*world_, Direction::transmit);
}

TEST_P(TransportConformance, AChunkWhoseReaderDiesAtAnyByteWasReadToThisByte) {
  conformance::cut_chunk_at_every_byte(*world_, Direction::receive);
}

TEST_P(TransportConformance, AnyOperationThatFailsIsReportedAndNothingLeaks) {
  constexpr uint64_t kFarMoreThanThereAre = 1000;
  const int64_t before = world_->resources_in_use();
  for (uint64_t n = 1; n < kFarMoreThanThereAre; ++n) {
    bool fired = false;
    {
      conformance::Conversation conversation(*world_, n);
      ASSERT_TRUE(conversation.run()) << "operation " << n << " failed and somebody waits for ever";
      fired = conversation.failure_fired();
      ASSERT_EQ(conversation.told(), fired) << "operation " << n;
      if (!fired) {
        ASSERT_TRUE(conversation.complete());
      }
    }
    wait_for([&] { return world_->resources_in_use() == before; });
    ASSERT_EQ(world_->resources_in_use(), before) << "operation " << n;
    if (!fired) {
      EXPECT_GT(n, 8U) << "listen, connect, accept, three adds, reads and writes";
      return;
    }
  }
  FAIL() << "the failure fired every time";
}

}  // namespace r2ccl
