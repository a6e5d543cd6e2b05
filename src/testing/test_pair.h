// For tests: two hosts on one rail and a connection from the first to the second.
#pragma once

#include <memory>
#include <vector>

#include "base/check.h"
#include "sim/fabric/fabric.h"

namespace r2ccl::sim {

inline iovec slice_of(std::vector<std::byte>& bytes) {
  return {bytes.data(), bytes.size()};
}

// Returns bytes that differ from place to place, so that a wrong offset shows.
inline std::vector<std::byte> pattern_bytes(size_t count, uint64_t seed = 1) {
  std::vector<std::byte> bytes(count);
  Random random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

class TestPair {
 public:
  static constexpr uint64_t kRate = 31'250'000;  // 250 Mbit/s
  static constexpr TimeNs kLatency = 50 * kMicrosecond;

  explicit TestPair(const NetworkOptions& options = {}, uint64_t seed = 1)
      : fabric(seed, clock, options),
        a(fabric.add_host("a")),
        b(fabric.add_host("b")),
        nic_a(fabric.add_nic(a, {.name = "nic0", .rate_bytes_per_s = kRate})),
        nic_b(fabric.add_nic(b, {.name = "nic0", .rate_bytes_per_s = kRate})),
        listener(b.listen({b.address_of("nic0"), 0}, "nic0").value()) {}

  std::unique_ptr<Connection> start_connect(const ConnectOptions& options = {}) {
    return a.connect(listener->local(), options).value();
  }
  // Opens both ends of a new connection.
  void connect(const ConnectOptions& options = {}) {
    client = start_connect(options);
    fabric.run_for(4 * kLatency);
    server = listener->accept();
    R2CCL_CHECK(server != nullptr);
    flow_id = fabric.flows().back().id;
  }

  // Writes and reads as fast as both ends allow until `bytes` have arrived or `limit` has passed.
  // Returns the bytes that arrived.
  std::vector<std::byte> transfer(Connection& from, Connection& to, std::vector<std::byte> bytes,
                                  TimeNs limit = 10 * kSecond) {
    std::vector<std::byte> got;
    std::vector<std::byte> buffer(64 * 1024);
    size_t sent = 0;
    const TimeNs deadline = clock.now() + limit;
    do {
      if (sent < bytes.size()) {
        const iovec rest{bytes.data() + sent, bytes.size() - sent};
        last_write = from.write({&rest, 1});
        sent += last_write.bytes;
      }
      const iovec into = slice_of(buffer);
      last_read = to.read({&into, 1});
      got.insert(got.end(), buffer.begin(),
                 buffer.begin() + static_cast<ptrdiff_t>(last_read.bytes));
      if (last_read.kind == IoKind::failed || last_read.kind == IoKind::closed) break;
    } while (got.size() < bytes.size() && (last_read.bytes > 0 || fabric.step(deadline)));
    return got;
  }

  VirtualClock clock;
  Fabric fabric;
  SimHost& a;
  SimHost& b;
  SimNic& nic_a;
  SimNic& nic_b;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> client;
  std::unique_ptr<Connection> server;
  uint64_t flow_id = 0;
  IoResult last_write;
  IoResult last_read;
};

}  // namespace r2ccl::sim
