// The conformance suite over TCP on loopback, IPv4 and IPv6, plain and through a faulty transport
// that has no faults, and through shared memory, with direct reads and by rings only.
#include "testing/conformance.h"

#include <dirent.h>
#include <unistd.h>

#include <chrono>

#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

std::unique_ptr<TcpTransport> open_tcp() {
  Result<std::unique_ptr<TcpTransport>> opened = TcpTransport::open({});
  R2CCL_CHECK(opened.ok());
  return std::move(opened).value();
}

class TcpWorld : public ConformanceWorld {
 public:
  explicit TcpWorld(const char* address) : address_(*parse_address(address)) {}
  Transport& a() override { return *sides_[0]; }
  Transport& b() override { return *sides_[1]; }
  Endpoint b_address() override { return {.address = address_, .port = 0}; }
  ConnectOptions a_options() override {
    return {.device = "lo", .source = address_, .unsent_low_water = 65536};
  }
  const Clock& clock() override { return clock_; }
  // Loopback delivers within the system call that sends, unless the machine is busy.
  void step(TimeNs duration) override {
    if (++steps_ % 16 != 0) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::nanoseconds(duration));
  }
  int64_t resources_in_use() override {
    DIR* directory = opendir("/proc/self/fd");
    int64_t count = 0;
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
    return count;
  }

 private:
  Address address_;
  int steps_ = 0;
  SystemClock clock_;
  std::unique_ptr<TcpTransport> sides_[2] = {open_tcp(), open_tcp()};
};

class FaultlessWorld final : public TcpWorld {
 public:
  FaultlessWorld()
      : TcpWorld("127.0.0.1"),
        a_(TcpWorld::a(), plan_, clock()),
        b_(TcpWorld::b(), plan_, clock()) {}
  Transport& a() override { return a_; }
  Transport& b() override { return b_; }

 private:
  FaultPlan plan_;
  FaultyTransport a_;
  FaultyTransport b_;
};

class ShmWorld final : public TcpWorld {
 public:
  explicit ShmWorld(bool direct)
      : TcpWorld("127.0.0.1"), a_(open_tcp(), clock(), direct), b_(open_tcp(), clock(), direct) {
    const auto pid = static_cast<uint32_t>(getpid());
    std::memcpy(name_.bytes.data(), &pid, sizeof pid);
  }
  Transport& a() override { return a_; }
  Transport& b() override { return b_; }
  Endpoint b_address() override { return {.address = name_, .port = 0}; }
  ConnectOptions a_options() override { return {}; }

 private:
  Address name_{.family = AddressFamily::local, .bytes = {}, .prefix_bits = 0, .scope = 0};
  ShmTransport a_;
  ShmTransport b_;
};

std::unique_ptr<ConformanceWorld> make_shm() {
  return std::make_unique<ShmWorld>(true);
}
std::unique_ptr<ConformanceWorld> make_rings() {
  return std::make_unique<ShmWorld>(false);
}
std::unique_ptr<ConformanceWorld> make_tcp_ipv4() {
  return std::make_unique<TcpWorld>("127.0.0.1");
}
std::unique_ptr<ConformanceWorld> make_tcp_ipv6() {
  return std::make_unique<TcpWorld>("::1");
}
std::unique_ptr<ConformanceWorld> make_faultless() {
  return std::make_unique<FaultlessWorld>();
}

bool has_ipv6() {
  TcpWorld world("127.0.0.1");
  return world.b().listen({.address = *parse_address("::1"), .port = 0}, "").ok();
}

std::vector<WorldFactory> worlds() {
  std::vector<WorldFactory> out = {&make_tcp_ipv4, &make_faultless, &make_shm, &make_rings};
  if (has_ipv6()) out.push_back(&make_tcp_ipv6);
  return out;
}

std::string name_of(const testing::TestParamInfo<WorldFactory>& info) {
  if (info.param == &make_shm) return "SharedMemory";
  if (info.param == &make_rings) return "SharedMemoryRings";
  if (info.param == &make_tcp_ipv4) return "TcpOverIpv4";
  return info.param == &make_tcp_ipv6 ? "TcpOverIpv6" : "FaultlessOverTcp";
}

INSTANTIATE_TEST_SUITE_P(Real, TransportConformance, testing::ValuesIn(worlds()), name_of);

}  // namespace
}  // namespace r2ccl
