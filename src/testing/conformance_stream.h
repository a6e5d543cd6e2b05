// Conformance: connecting, streams of bytes and readiness. Included by conformance.h.
#pragma once

#include "testing/conformance.h"

namespace r2ccl {

TEST_P(TransportConformance, AListenerOnPortZeroSaysWhichPortItGot) {
  const std::unique_ptr<Listener> first = listen();
  const std::unique_ptr<Listener> second = listen();
  EXPECT_NE(first->local().port, 0);
  EXPECT_NE(first->local().port, second->local().port);
  EXPECT_EQ(first->local().address.bytes, world_->b_address().address.bytes);
  EXPECT_EQ(first->accept(), nullptr);
  EXPECT_EQ(first->accept_error(), 0);
}

TEST_P(TransportConformance, AConnectIsReportedByAWritableEventAndAListenerByAReadableOne) {
  const std::unique_ptr<Listener> listener = listen();
  ASSERT_TRUE(world_->b().poller().add(listener->poll_id(), 1, false).ok());
  std::unique_ptr<Connection> connection = connect(listener->local());
  ASSERT_TRUE(world_->a().poller().add(connection->poll_id(), 2, true).ok());
  bool writable = false;
  bool acceptable = false;
  std::vector<Transport*> transports = {&world_->a()};
  if (&world_->b() != &world_->a()) transports.push_back(&world_->b());
  const bool done = wait_for([&] {
    for (Transport* transport : transports) {
      std::array<PollEvent, 4> events;
      const size_t count = transport->poller().wait(events, 0);
      for (const PollEvent& event : std::span(events).first(count)) {
        if (event.token == 2) writable = writable || event.writable;
        if (event.token == 1) acceptable = acceptable || event.readable;
      }
    }
    return writable && acceptable;
  });
  ASSERT_TRUE(done);
  EXPECT_EQ(connection->connect_state(), ConnectState::established);
  EXPECT_EQ(connection->connect_error(), 0);
  EXPECT_EQ(connection->remote().port, listener->local().port);
  const std::unique_ptr<Connection> accepted = listener->accept();
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(accepted->connect_state(), ConnectState::established);
  EXPECT_EQ(listener->accept(), nullptr);
  EXPECT_NE(accepted->poll_id(), connection->poll_id());
  world_->a().poller().remove(connection->poll_id());
  world_->b().poller().remove(listener->poll_id());
}

TEST_P(TransportConformance, ARefusedConnectFailsWithItsReasonAndWakesThePoller) {
  const Endpoint nobody = listen()->local();  // the listener is destroyed at once
  std::unique_ptr<Connection> connection = connect(nobody);
  ASSERT_TRUE(world_->a().poller().add(connection->poll_id(), 5, true).ok());
  const std::vector<PollEvent> events = poll(world_->a());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].token, 5U);
  EXPECT_TRUE(events[0].writable);
  EXPECT_EQ(connection->connect_state(), ConnectState::failed);
  EXPECT_EQ(connection->connect_error(), ECONNREFUSED);
  std::vector<uint8_t> received;
  EXPECT_EQ(conformance::read_into(*connection, received, 1).kind, IoKind::failed);
  const uint8_t byte = 0;
  EXPECT_EQ(conformance::write_some(*connection, {&byte, 1}).kind, IoKind::failed);
  world_->a().poller().remove(connection->poll_id());
}

namespace conformance {

// Returns seven slices of `data` from `from` on.
inline std::vector<iovec> slices_of(std::vector<uint8_t>& data, size_t from, size_t grain) {
  std::vector<iovec> out;
  for (size_t at = from; at < data.size() && out.size() < 7; at += grain) {
    out.push_back(slice(&data[at], std::min(grain, data.size() - at)));
  }
  return out;
}

using WriteCall = IoResult (Connection::*)(std::span<const iovec>);

// Passes ten megabytes from `a` to `b`, in slices of `grain` bytes.
inline void pass_ten_megabytes(ConformanceWorld& world, Connection& a, Connection& b,
                               WriteCall write, size_t grain) {
  std::vector<uint8_t> sent = pattern(10'000'000);
  std::vector<uint8_t> received(sent.size());
  size_t written = 0;
  size_t got = 0;
  const bool done = wait_for(world, [&] {
    for (bool moved = true; moved;) {
      moved = false;
      if (written < sent.size()) {
        const IoResult result = (a.*write)(slices_of(sent, written, grain));
        EXPECT_TRUE(result.kind == IoKind::progressed || result.kind == IoKind::blocked);
        written += result.bytes;
        moved = result.bytes > 0;
      }
      if (got < received.size()) {
        const IoResult result = b.read(slices_of(received, got, 4'099));
        EXPECT_TRUE(result.kind == IoKind::progressed || result.kind == IoKind::blocked);
        got += result.bytes;
        moved = moved || result.bytes > 0;
      }
    }
    return got == received.size();
  });
  ASSERT_TRUE(done) << "wrote " << written << ", read " << got;
  EXPECT_TRUE(sent == received);
  std::vector<uint8_t> more;
  EXPECT_EQ(read_into(b, more, 1).kind, IoKind::blocked);
}

}  // namespace conformance

TEST_P(TransportConformance, TenMegabytesArriveInOrderThroughVectorsOfOddSizes) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  conformance::pass_ten_megabytes(*world_, *pair.a, *pair.b, &Connection::write, 17'001);
}

TEST_P(TransportConformance, TenMegabytesThatMayStayInPlaceArriveInOrder) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  conformance::pass_ten_megabytes(*world_, *pair.a, *pair.b, &Connection::send, 70'001);
}

TEST_P(TransportConformance, BytesArriveAsTheyWereSentThoughTheirSourceChangesAfterItsRelease) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  std::vector<uint8_t> sent = conformance::pattern(200'000);
  const std::vector<uint8_t> wanted = sent;
  const std::array<iovec, 2> parts = {conformance::slice(sent.data(), 100),
                                      conformance::slice(&sent[100], sent.size() - 100)};
  size_t written = 0;
  ASSERT_TRUE(wait_for([&] { return (written = pair.a->send(parts).bytes) > 0; }));
  pair.a->release();
  std::ranges::fill(sent, uint8_t{0});
  std::vector<uint8_t> got;
  ASSERT_TRUE(wait_for([&] {
    (void)conformance::read_into(*pair.b, got, written);
    return got.size() >= written;
  }));
  EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.begin()));
}

TEST_P(TransportConformance, AReaderMaySkipBytesThatAreInPlaceAndNoOthers) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  std::vector<uint8_t> sent = conformance::pattern(100'100);
  const std::array<iovec, 2> parts = {conformance::slice(sent.data(), 100),
                                      conformance::slice(&sent[100], 100'000)};
  ASSERT_TRUE(wait_for([&] { return pair.a->send(parts).bytes == sent.size(); }));
  EXPECT_EQ(pair.b->skip(1), 0U) << "the first bytes are not in place";
  std::vector<uint8_t> got;
  size_t skipped = 0;
  ASSERT_TRUE(wait_for([&] {
    if (got.size() >= 100) skipped += pair.b->skip(sent.size());
    (void)conformance::read_into(*pair.b, got, got.size() < 100 ? 100 - got.size() : 1000);
    return got.size() + skipped >= sent.size();
  }));
  EXPECT_EQ(got.size() + skipped, sent.size());
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + 100, sent.begin()));
}

TEST_P(TransportConformance, AWriterThatIsNotReadIsBlockedAndThenToldWhenItMayGoOn) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  const std::vector<uint8_t> block = conformance::pattern(65536);
  size_t written = 0;
  // Buffers fill while the world goes on, so only a long silence is the end.
  for (int quiet = 0; quiet < 50 && written < (size_t{256} << 20);) {
    const IoResult result = conformance::write_some(*pair.a, block);
    ASSERT_NE(result.kind, IoKind::failed);
    written += result.bytes;
    quiet = result.bytes > 0 ? 0 : quiet + 1;
    if (result.bytes == 0) world_->step(conformance::kStep);
  }
  ASSERT_LT(written, size_t{256} << 20) << "there is no backpressure";
  Poller& poller = world_->a().poller();
  ASSERT_TRUE(poller.add(pair.a->poll_id(), 9, true).ok());
  std::array<PollEvent, 4> events;
  EXPECT_EQ(poller.wait(events, 0), 0U);

  std::vector<uint8_t> received;
  size_t count = 0;
  const bool woken = wait_for([&] {
    while (conformance::read_into(*pair.b, received, 65536).kind == IoKind::progressed) {
    }
    count = poller.wait(events, 0);
    return count > 0;
  });
  ASSERT_TRUE(woken);
  EXPECT_EQ(events[0].token, 9U);
  EXPECT_TRUE(events[0].writable);
  EXPECT_EQ(conformance::write_some(*pair.a, block).kind, IoKind::progressed);
  poller.remove(pair.a->poll_id());
}

TEST_P(TransportConformance, APeersKernelAnswersThoughItsProcessReadsNothing) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  ASSERT_EQ(conformance::write_some(*pair.a, conformance::pattern(100)).bytes, 100U);
  EXPECT_TRUE(wait_for([&] { return pair.a->info().unanswered_ns == 0; }));
}

TEST_P(TransportConformance, DestroyingOneEndIsAFailureAndNoOrderlyEndToTheOther) {
  const std::unique_ptr<Listener> listener = listen();
  Pair pair = connect_pair(*listener);
  const std::vector<uint8_t> sent = conformance::pattern(1000);
  ASSERT_EQ(conformance::write_some(*pair.a, sent).bytes, sent.size());
  pair.a.reset();
  std::vector<uint8_t> received;
  const IoResult end = read_to_end(*pair.b, received);
  EXPECT_EQ(end.kind, IoKind::failed);
  EXPECT_NE(end.error, 0);
  ASSERT_LE(received.size(), sent.size());
  EXPECT_TRUE(std::equal(received.begin(), received.end(), sent.begin()));
  // The connection stays failed, for reads and writes.
  EXPECT_EQ(conformance::read_into(*pair.b, received, 1).kind, IoKind::failed);
  EXPECT_EQ(conformance::write_some(*pair.b, sent).kind, IoKind::failed);
  EXPECT_EQ(conformance::read_into(*pair.b, received, 1).kind, IoKind::failed);
}

TEST_P(TransportConformance, DestroyingTheReaderFailsAWriterWithBytesPending) {
  const std::unique_ptr<Listener> listener = listen();
  Pair pair = connect_pair(*listener);
  ASSERT_TRUE(world_->a().poller().add(pair.a->poll_id(), 4, false).ok());
  const std::vector<uint8_t> block = conformance::pattern(65536);
  while (conformance::write_some(*pair.a, block).kind == IoKind::progressed) {
  }
  pair.b.reset();
  const std::vector<PollEvent> events = poll(world_->a());
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(events[0].readable);
  EXPECT_EQ(conformance::write_some(*pair.a, block).kind, IoKind::failed);
  world_->a().poller().remove(pair.a->poll_id());
}

TEST_P(TransportConformance, ThePollerUsesTheLatestTokenAndForgetsRemovedSources) {
  const std::unique_ptr<Listener> listener = listen();
  const Pair pair = connect_pair(*listener);
  Poller& poller = world_->a().poller();
  ASSERT_TRUE(poller.add(pair.a->poll_id(), 1, false).ok());
  std::array<PollEvent, 4> events;
  EXPECT_EQ(poller.wait(events, 0), 0U) << "no write was requested and no byte is readable";
  poller.modify(pair.a->poll_id(), 2, true);
  std::vector<PollEvent> ready = poll(world_->a());
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].token, 2U);
  EXPECT_TRUE(ready[0].writable);
  EXPECT_FALSE(ready[0].readable);
  poller.modify(pair.a->poll_id(), 3, false);
  const uint8_t byte = 7;
  ASSERT_EQ(conformance::write_some(*pair.b, {&byte, 1}).bytes, 1U);
  ready = poll(world_->a());
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].token, 3U);
  EXPECT_TRUE(ready[0].readable);
  EXPECT_FALSE(ready[0].writable);
  ASSERT_EQ(poll(world_->a()).size(), 1U) << "readiness is level-triggered";
  poller.remove(pair.a->poll_id());
  EXPECT_EQ(poller.wait(events, 0), 0U);
  ASSERT_TRUE(poller.add(pair.a->poll_id(), 6, false).ok());
  ready = poll(world_->a());
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].token, 6U);
  poller.remove(pair.a->poll_id());
}

TEST_P(TransportConformance, AWakeUpFromAnotherThreadEndsTheNextWait) {
  Poller& poller = world_->a().poller();
  std::array<PollEvent, 4> events;
  const TimeNs before = world_->clock().now();
  std::thread([&] { poller.wake(); }).join();
  EXPECT_EQ(poller.wait(events, 60 * kSecond), 0U);
  EXPECT_LT(world_->clock().now() - before, 30 * kSecond);
  EXPECT_EQ(poller.wait(events, 0), 0U);
}

TEST_P(TransportConformance, ManyConnectionsAreKeptApart) {
  constexpr size_t kConnections = 64;
  const std::unique_ptr<Listener> listener = listen();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kConnections; ++i) {
    pairs.push_back(connect_pair(*listener));
    ASSERT_NE(pairs.back().b, nullptr);
    ASSERT_TRUE(world_->b().poller().add(pairs.back().b->poll_id(), i, false).ok());
  }
  for (size_t i = 0; i < kConnections; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    ASSERT_EQ(conformance::write_some(*pairs[i].a, {&byte, 1}).bytes, 1U);
  }
  size_t seen = 0;
  while (seen < kConnections) {
    const std::vector<PollEvent> events = poll(world_->b());
    ASSERT_FALSE(events.empty());
    for (const PollEvent& event : events) {
      std::vector<uint8_t> received;
      conformance::read_into(*pairs[event.token].b, received, 16);
      ASSERT_EQ(received, std::vector<uint8_t>{static_cast<uint8_t>(event.token)});
      ++seen;
    }
  }
  for (const Pair& pair : pairs) world_->b().poller().remove(pair.b->poll_id());
}

TEST_P(TransportConformance, NicsHaveNamesAndTheirEventsCanBePolled) {
  const Result<std::vector<Nic>> nics = world_->a().nics();
  ASSERT_TRUE(nics.ok()) << nics.status().message();
  for (const Nic& nic : nics.value()) EXPECT_FALSE(nic.name.empty());
  const int id = world_->a().nic_events_poll_id();
  if (id < 0) return;
  ASSERT_TRUE(world_->a().poller().add(id, 1, false).ok());
  world_->a().drain_nic_events();
  world_->a().poller().remove(id);
}

}  // namespace r2ccl
