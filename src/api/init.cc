#include "api/init.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "api/given_config.h"
#include "api/settings.h"
#include "base/limits.h"
#include "runtime/bootstrap/rendezvous_thread.h"
#include "runtime/bootstrap/resolver.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/config.h"
#include "runtime/config/host_port.h"
#include "runtime/config/launch.h"
#include "runtime/config/secure_random.h"
#include "transport/faulty/fault_file.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace r2ccl::api {
namespace {

constexpr TimeNs kFarewell = 1 * kSecond;
constexpr uint32_t kUnsentLowWater = 64 * 1024;

const SystemClock& system_clock() {
  // Never destroyed: at exit a rendezvous thread may still read it.
  static const auto* const clock = new SystemClock;
  return *clock;
}

// A rendezvous must outlive the call that made it until every rank has met, and the caller holds no
// handle of it. So the process keeps it here.
struct Kept {
  std::mutex mutex;  // guards rendezvous
  std::vector<std::shared_ptr<RendezvousThread>> rendezvous;
};

Kept& kept() {
  // Never destroyed: at exit its threads may still serve late ranks.
  static auto* const instance = new Kept;
  return *instance;
}

DrainRegistry& drain_registry() {
  // Never destroyed: at exit a communicator may still exist.
  static auto* const instance = new DrainRegistry;
  return *instance;
}

void keep(std::unique_ptr<RendezvousThread> rendezvous) {
  std::lock_guard lock(kept().mutex);
  std::erase_if(kept().rendezvous, [](const auto& each) { return each->finished(); });
  kept().rendezvous.push_back(std::move(rendezvous));
}

// Waits after a failed init until the rendezvous of this process has answered the other ranks. An
// application usually exits after the failure and ends its rendezvous, and the other ranks would
// wait for their answers in vain.
void let_others_be_told() {
  std::vector<std::shared_ptr<RendezvousThread>> all;
  {
    std::lock_guard lock(kept().mutex);
    all = kept().rendezvous;
  }
  const TimeNs deadline = system_clock().now() + kFarewell;
  for (const auto& each : all) {
    (void)each->wait_answered(std::max<TimeNs>(deadline - system_clock().now(), 0));
  }
}

Result<Config> read_config(const r2cclConfig_t* given) {
  auto loaded = load_settings();
  if (!loaded.ok()) return loaded.status();
  Config config = std::move(loaded).value();
  if (given == nullptr) return config;
  R2CCL_RETURN_IF_ERROR(apply_config(*given, &config));
  return config;
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

// Returns the driver that all communicators with these settings share.
Result<std::shared_ptr<ProcessDriver>> shared_driver(const Config& config) {
  const std::string settings =
      config.socket_ifname_variable + '=' + config.socket_ifname + '\n' + config.fault_file;
  if (auto living = api::drivers().find(settings)) return living;
  auto transport = open_transport(config);
  if (!transport.ok()) return transport.status();
  return api::drivers().enter(settings,
                              std::make_shared<ProcessDriver>(std::move(transport).value()));
}

Status check_rank(int rank, int rank_count) {
  if (rank_count < 1 || rank_count > limits::kRanksMax) {
    return {Code::invalid_argument, "nranks is " + std::to_string(rank_count) +
                                        ", it must be 1 to " + std::to_string(limits::kRanksMax)};
  }
  if (rank < 0 || rank >= rank_count) {
    return {Code::invalid_argument, "rank is " + std::to_string(rank) + ", it must be 0 to " +
                                        std::to_string(rank_count - 1)};
  }
  return {};
}

Result<std::vector<Endpoint>> serve(const Config& config, const JobIdentity& job,
                                    const std::vector<Endpoint>& where) {
  auto transport = open_transport(config);
  if (!transport.ok()) return transport.status();
  auto started =
      RendezvousThread::start(std::move(transport).value(), where,
                              {job, random_nonce, config.init_timeout_ns}, system_clock());
  if (!started.ok()) return started.status().with_context("opening the rendezvous");
  std::vector<Endpoint> endpoints = started.value()->endpoints();
  keep(std::move(started).value());
  return endpoints;
}

Result<std::vector<Endpoint>> default_meeting_place(const Config& config) {
  auto transport = config.oob_ifname.empty()
                       ? open_transport(config)
                       : open_transport(config, {.text = config.oob_ifname,
                                                 .variable = config.oob_ifname_variable});
  if (!transport.ok()) return transport.status();
  auto nics = transport.value()->nics();
  if (!nics.ok()) return nics.status();
  return rendezvous_addresses(nics.value(), kUniqueIdEndpointsMax);
}

// Logs one line for a job at every log level, from the rank that opened the rendezvous: a process
// that could reach that port during the start may have taken a rank's place.
void warn_of_open_start(const CommunicatorOptions& options) {
  const bool open = std::ranges::any_of(
      options.rendezvous, [](const Endpoint& each) { return !is_loopback(each.address); });
  if (options.job.authenticated() || !open) return;
  if (options.self != Rank(0) || options.rank_count == 1) return;
  static std::once_flag once;
  std::call_once(once, [&] {
    std::fprintf(
        stderr,
        "r2ccl: the start of this job is open to strangers who reach %s: no secret is "
        "set (make one with `r2ccl secret FILE` and set R2CCL_SECRET_FILE on every rank)\n",
        to_string(options.rendezvous.front()).c_str());
  });
}

Result<std::unique_ptr<Communicator>> connect(CommunicatorOptions options) {
  if (options.config.require_auth && !options.job.authenticated()) {
    return Status(Code::invalid_usage,
                  "R2CCL_REQUIRE_AUTH is set but this job has no secret: set R2CCL_SECRET or "
                  "R2CCL_SECRET_FILE on every rank, or start from a unique id");
  }
  warn_of_open_start(options);
  auto driver = shared_driver(options.config);
  if (!driver.ok()) return driver.status();
  auto meeting = open_transport(options.config);
  if (!meeting.ok()) return meeting.status();
  options.library_version = R2CCL_VERSION_CODE;
  options.drain_registry = &drain_registry();
  auto made = Communicator::create(std::move(driver).value(), *meeting.value(), options);
  if (!made.ok()) let_others_be_told();
  return made;
}

// Subtracts its own duration from the bound that is left for meeting the other ranks, in whole
// seconds for readable messages.
Result<std::vector<Endpoint>> resolve_rendezvous(const HostPort& place, Config* config) {
  const TimeNs begin = system_clock().now();
  auto found = resolve(place, config->socket_family, config->init_timeout_ns, system_clock());
  const TimeNs spent = (system_clock().now() - begin) / kSecond * kSecond;
  config->init_timeout_ns = std::max(config->init_timeout_ns - spent, kSecond);
  return found;
}

}  // namespace

Result<std::vector<Endpoint>> open_rendezvous(const Config& config, const JobIdentity& job) {
  const auto place = default_meeting_place(config);
  if (!place.ok()) return place.status();
  return serve(config, job, place.value());
}

Result<r2cclUniqueId> make_unique_id() {
  auto config = read_config(nullptr);
  if (!config.ok()) return config.status();
  UniqueId id;
  id.job = make_job_identity();
  Result<std::vector<Endpoint>> endpoints = std::vector<Endpoint>();
  if (!config.value().comm_id.empty()) {
    auto place = parse_host_port(config.value().comm_id);
    if (!place.ok()) return place.status();
    auto resolved = resolve(place.value(), config.value().socket_family,
                            config.value().init_timeout_ns, system_clock());
    if (!resolved.ok()) return resolved.status().with_context(config.value().comm_id_variable);
    std::vector<Endpoint> where = std::move(resolved).value();
    if (where.size() > kUniqueIdEndpointsMax) where.resize(kUniqueIdEndpointsMax);
    endpoints = serve(config.value(), id.job, where);
  } else {
    endpoints = open_rendezvous(config.value(), id.job);
  }
  if (!endpoints.ok()) return endpoints.status();
  id.rendezvous = endpoints.value();
  UniqueIdBytes bytes = encode(id);
  r2cclUniqueId out;
  static_assert(sizeof out.internal == sizeof bytes);
  std::memcpy(out.internal, bytes.data(), bytes.size());
  crypto::wipe(bytes);
  return out;
}

Result<std::unique_ptr<Communicator>> init_from_id(int rank_count, const r2cclUniqueId& id,
                                                   int rank, const r2cclConfig_t* given) {
  R2CCL_RETURN_IF_ERROR(check_rank(rank, rank_count));
  auto config = read_config(given);
  if (!config.ok()) return config.status();
  UniqueIdBytes bytes;
  std::memcpy(bytes.data(), id.internal, bytes.size());
  auto decoded = decode_unique_id(bytes);
  crypto::wipe(bytes);
  if (!decoded.ok()) return decoded.status();
  return connect({Rank(rank), rank_count, decoded.value().job, decoded.value().rendezvous,
                  std::move(config).value()});
}

Result<std::unique_ptr<Communicator>> init_from_environment(const r2cclConfig_t* given) {
  auto config = read_config(given);
  if (!config.ok()) return config.status();
  auto launch = detect_launch([](const char* name) -> const char* { return std::getenv(name); },
                              config.value().comm_id);
  if (!launch.ok()) return launch.status();
  const LogRank label(launch.value().rank.value());
  R2CCL_LOG(info, "launcher: %s", launch.value().launcher.c_str());
  auto secret = load_secret(config.value());
  if (!secret.ok()) return secret.status();
  CommunicatorOptions options;
  options.self = launch.value().rank;
  options.rank_count = launch.value().rank_count;
  auto job = make_job_identity(launch.value().job_name, secret.value());
  if (!job.ok()) return job.status();
  options.job = std::move(job).value();
  // The key replaces the secret from here on.
  secret.value() = {};
  config.value().secret = {};
  options.config = config.value();
  if (launch.value().rendezvous) {
    auto where = resolve_rendezvous(*launch.value().rendezvous, &options.config);
    if (!where.ok()) return where.status();
    options.rendezvous = where.value();
    if (options.self == Rank(0)) {
      auto served = serve(config.value(), options.job, options.rendezvous);
      if (!served.ok()) return served.status();
    }
  }
  return connect(std::move(options));
}

Result<Config> child_config(const Config& parent, const r2cclConfig_t* given) {
  Config config = parent;
  config.name.clear();
  if (given != nullptr) R2CCL_RETURN_IF_ERROR(apply_config(*given, &config));
  return config;
}

Result<std::unique_ptr<Communicator>> init_child(CommunicatorOptions options) {
  return connect(std::move(options));
}

}  // namespace r2ccl::api
