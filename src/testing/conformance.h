// The promises of every Transport, as tests. TCP, the decorator, and the simulator's fabric run the
// same tests. Include it in one test file per program and name the worlds:
//
//   std::unique_ptr<ConformanceWorld> make_my_world();
//   INSTANTIATE_TEST_SUITE_P(Mine, TransportConformance, testing::Values(&make_my_world));
//
// The tests are in conformance_stream.h (bytes) and conformance_faults.h (anomaly loops), which
// this header includes at its end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "transport/transport.h"

namespace r2ccl {

// Two transports that can reach each other.
class ConformanceWorld {
 public:
  virtual ~ConformanceWorld() = default;
  virtual Transport& a() = 0;
  virtual Transport& b() = 0;
  // b's address with port 0, and the options that a needs to reach it.
  virtual Endpoint b_address() = 0;
  virtual ConnectOptions a_options() { return {}; }
  virtual const Clock& clock() = 0;
  // Advances the world by about `duration`: of virtual or of real time.
  virtual void step(TimeNs duration) = 0;
  // Returns the number of descriptors or the like in use, to find leaks. Constant when there are
  // none.
  virtual int64_t resources_in_use() { return 0; }
};

using WorldFactory = std::unique_ptr<ConformanceWorld> (*)();

namespace conformance {

inline constexpr TimeNs kStep = kMillisecond;
inline constexpr int kPatienceSteps = 10'000;

inline std::vector<uint8_t> pattern(size_t bytes) {
  std::vector<uint8_t> out(bytes);
  uint32_t state = 1;  // a linear congruence: no two places look alike
  for (uint8_t& byte : out) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return out;
}

inline iovec slice(void* data, size_t bytes) {
  return {.iov_base = data, .iov_len = bytes};
}

inline IoResult read_into(Connection& connection, std::vector<uint8_t>& received, size_t most) {
  std::vector<uint8_t> buffer(most);
  const iovec one = slice(buffer.data(), buffer.size());
  const IoResult result = connection.read({&one, 1});
  if (result.kind == IoKind::progressed) {
    received.insert(received.end(), buffer.begin(),
                    buffer.begin() + static_cast<std::ptrdiff_t>(result.bytes));
  }
  return result;
}

inline IoResult write_some(Connection& connection, std::span<const uint8_t> bytes) {
  const iovec one = slice(const_cast<uint8_t*>(bytes.data()), bytes.size());
  return connection.write({&one, 1});
}

// Steps the world until `done`. Returns false when the time limit has passed.
inline bool wait_for(ConformanceWorld& world, const std::function<bool()>& done) {
  for (int i = 0; i < kPatienceSteps; ++i) {
    if (done()) return true;
    world.step(kStep);
  }
  return done();
}

}  // namespace conformance

class TransportConformance : public testing::TestWithParam<WorldFactory> {
 protected:
  TransportConformance() : world_(GetParam()()) {}

  bool wait_for(const std::function<bool()>& done) { return conformance::wait_for(*world_, done); }

  // Returns the events of `transport`, after the time limit at most.
  std::vector<PollEvent> poll(Transport& transport) {
    std::vector<PollEvent> events(16);
    size_t count = 0;
    wait_for([&] { return (count = transport.poller().wait(events, 0)) > 0; });
    events.resize(count);
    return events;
  }

  std::unique_ptr<Listener> listen() {
    Result<std::unique_ptr<Listener>> listener = world_->b().listen(world_->b_address(), "");
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    return listener.ok() ? std::move(listener).value() : nullptr;
  }
  std::unique_ptr<Connection> connect(const Endpoint& remote) {
    Result<std::unique_ptr<Connection>> connection =
        world_->a().connect(remote, world_->a_options());
    EXPECT_TRUE(connection.ok()) << connection.status().message();
    return connection.ok() ? std::move(connection).value() : nullptr;
  }

  struct Pair {
    std::unique_ptr<Connection> a;
    std::unique_ptr<Connection> b;
  };
  // Returns a connection between the two sides, established on both.
  Pair connect_pair(Listener& listener) {
    Pair pair;
    pair.a = connect(listener.local());
    const bool done = wait_for([&] {
      if (pair.b == nullptr) pair.b = listener.accept();
      return pair.b != nullptr && pair.a->connect_state() == ConnectState::established;
    });
    EXPECT_TRUE(done);
    return pair;
  }
  // Reads until the stream ends or fails, and returns that result.
  IoResult read_to_end(Connection& connection, std::vector<uint8_t>& received) {
    IoResult result;
    wait_for([&] {
      do {
        result = conformance::read_into(connection, received, 65536);
      } while (result.kind == IoKind::progressed);
      return result.kind != IoKind::blocked;
    });
    return result;
  }

  std::unique_ptr<ConformanceWorld> world_;
};

}  // namespace r2ccl

#include "testing/conformance_faults.h"
#include "testing/conformance_stream.h"
