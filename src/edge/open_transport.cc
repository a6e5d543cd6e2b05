#include "edge/open_transport.h"

#include <utility>

#include "transport/faulty/fault_file.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl {
namespace {

constexpr uint32_t kUnsentLowWater = 64 * 1024;

}  // namespace

const SystemClock& system_clock() {
  static const auto* const clock = new SystemClock;
  return *clock;
}

Result<std::unique_ptr<Transport>> open_transport(const Config& config, const NicFilter& nics) {
  TcpOptions options;
  options.nic_filter = nics;
  options.unsent_low_water = kUnsentLowWater;
  auto opened = TcpTransport::open(std::move(options));
  if (!opened.ok()) return opened.status();
  std::unique_ptr<Transport> transport = std::move(opened).value();
  if (config.shm) {
    transport =
        std::make_unique<ShmTransport>(std::move(transport), system_clock(), config.shm_direct);
  }
  if (config.fault_file.empty()) return transport;
  auto following = follow_fault_file(std::move(transport), config.fault_file, system_clock());
  return following.ok() ? std::move(following)
                        : following.status().with_context("R2CCL_FAULT_FILE=" + config.fault_file);
}

Result<std::unique_ptr<Transport>> open_transport(const Config& config) {
  return open_transport(config,
                        {.text = config.socket_ifname, .variable = config.socket_ifname_variable});
}

}  // namespace r2ccl
