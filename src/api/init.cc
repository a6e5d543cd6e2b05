#include "api/init.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "api/given_config.h"
#include "base/limits.h"
#include "base/log.h"
#include "edge/open_transport.h"
#include "edge/settings.h"
#include "runtime/bootstrap/meeting_place.h"
#include "runtime/bootstrap/rendezvous_thread.h"
#include "runtime/bootstrap/resolver.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/config/config.h"
#include "runtime/config/host_port.h"
#include "runtime/config/launch.h"
#include "runtime/config/open_files.h"
#include "runtime/config/secure_random.h"
#include "transport/tcp/netlink.h"

namespace r2ccl::api {
namespace {

constexpr TimeNs kFarewell = 1 * kSecond;

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

// A job of one rank comes to no rendezvous.
void end_rendezvous(const JobIdentity& job) {
  std::vector<std::shared_ptr<RendezvousThread>> ended;  // outside of the lock: it waits
  std::lock_guard lock(kept().mutex);
  std::erase_if(kept().rendezvous, [&](const auto& each) {
    const bool is_of_job = std::ranges::equal(each->job_id(), job.id);
    if (is_of_job) ended.push_back(each);
    return is_of_job;
  });
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
                                    const std::vector<Endpoint>& where,
                                    const std::string& note = {}) {
  auto transport = open_transport(config);
  if (!transport.ok()) return transport.status();
  const TimeNs bound = config.init_timeout_ns;
  auto started = RendezvousThread::start(std::move(transport).value(), where,
                                         {job, random_nonce, bound, bound, note}, system_clock());
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

// Writes one line for a job, at every log level, from the rank that opened the rendezvous: a
// process that could reach that port during the start may have taken a rank's place.
void warn_of_open_start(const CommunicatorOptions& options,
                        const std::vector<Endpoint>& listening) {
  const auto open = std::ranges::find_if(
      listening, [](const Endpoint& each) { return !is_loopback(each.address); });
  if (options.job.authenticated() || open == listening.end()) return;
  if (options.self != Rank(0) || options.rank_count == 1) return;
  static std::once_flag once;
  std::call_once(once, [&] {
    const std::string text = "the start of this job is open to strangers who reach " +
                             to_string(*open) +
                             ": no secret is set (make one with `r2ccl secret FILE` and set "
                             "R2CCL_SECRET_FILE on every rank)";
    log_always(text.c_str());
  });
}

Status not_proved(const char* or_else) {
  return {Code::invalid_usage,
          "R2CCL_REQUIRE_AUTH is set but this process has no secret: set R2CCL_SECRET or "
          "R2CCL_SECRET_FILE on every rank" +
              std::string(or_else)};
}

Result<std::unique_ptr<Communicator>> join(CommunicatorOptions& options) {
  auto driver = shared_driver(options.config);
  if (!driver.ok()) return driver.status();
  auto meeting = open_transport(options.config);
  if (!meeting.ok()) return meeting.status();
  options.library_version = R2CCL_VERSION_CODE;
  options.drain_registry = &drain_registry();
  return Communicator::create(std::move(driver).value(), *meeting.value(), options);
}

// `listening`: where this process has opened the rendezvous, if it did.
Result<std::unique_ptr<Communicator>> connect(CommunicatorOptions options,
                                              const std::vector<Endpoint>& listening) {
  if (options.config.require_auth && !options.job.authenticated()) return not_proved("");
  warn_of_open_start(options, listening);
  auto made = join(options);
  if (!made.ok()) let_others_be_told();
  // A shortage that was seen at once has many effects.
  return options.unable.ok() ? std::move(made) : options.unable;
}

// Returns the addresses that this host knows for a place where it listens itself; none: it knows
// none yet, and need not.
std::vector<Endpoint> resolve_own(const HostPort& place, const Config& config) {
  const TimeNs patience = std::min(config.init_timeout_ns, kOwnNamePatience);
  auto found = resolve(place, config.socket_family, patience, system_clock());
  return found.ok() ? std::move(found).value() : std::vector<Endpoint>();
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

// Opens the rendezvous at the place that the environment names, in rank 0. Sets where this process
// reaches it, and returns where it listens.
Result<std::vector<Endpoint>> serve_at(const HostPort& place, const Config& config,
                                       CommunicatorOptions* options) {
  const auto nics = read_nics();
  if (!nics.ok()) return nics.status();
  const auto found = resolve_own(place, config);
  const MeetingPlace meeting = plan_meeting(place, found, nics.value(), config.socket_family);
  options->rendezvous = meeting.dial;
  return serve(config, options->job, meeting.listen, meeting.note);
}

// Opens the rendezvous of an id at the place that R2CCL_COMM_ID names. Returns what the id says.
Result<std::vector<Endpoint>> serve_id_at(const HostPort& place, const Config& config,
                                          const JobIdentity& job) {
  const auto nics = read_nics();
  if (!nics.ok()) return nics.status();
  const auto of_nics = default_meeting_place(config);
  if (!of_nics.ok()) return of_nics.status();
  const auto found = resolve_own(place, config);
  const MeetingPlace meeting = plan_meeting(place, found, nics.value(), config.socket_family);
  const auto served = serve(config, job, meeting.listen, meeting.note);
  if (!served.ok()) return served.status();
  return published_endpoints(meeting, found, of_nics.value(), kUniqueIdEndpointsMax);
}

// Returns whether torchrun says that all ranks are on this host. Then no other host needs to reach
// the rendezvous.
bool is_job_on_this_host() {
  const char* here = std::getenv("LOCAL_WORLD_SIZE");
  const char* all = std::getenv("WORLD_SIZE");
  return here != nullptr && all != nullptr && std::strcmp(here, all) == 0;
}

// Opens the rendezvous of `job` and makes the id that leads there. This process's secret becomes
// part of the key, and is not in the id.
Result<r2cclUniqueId> make_id(const Config& config, const LockedBytes& secret, JobIdentity job) {
  UniqueId id;
  id.job = job;
  R2CCL_RETURN_IF_ERROR(mix_in_secret(secret, &job));
  Result<std::vector<Endpoint>> endpoints = std::vector<Endpoint>();
  if (config.comm_id.empty()) {
    const bool stays_here =
        !id.job.authenticated() && config.oob_ifname.empty() && is_job_on_this_host();
    endpoints =
        stays_here ? serve(config, job, rendezvous_addresses({}, 1)) : open_rendezvous(config, job);
  } else {
    const auto place = parse_host_port(config.comm_id);
    if (!place.ok()) return place.status();
    endpoints = serve_id_at(place.value(), config, job);
    if (!endpoints.ok()) return endpoints.status().with_context(config.comm_id_variable);
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

}  // namespace

Result<std::vector<Endpoint>> open_rendezvous(const Config& config, const JobIdentity& job) {
  const auto place = default_meeting_place(config);
  if (!place.ok()) return place.status();
  return serve(config, job, place.value());
}

Result<r2cclUniqueId> make_unique_id(JobIdentity job, const r2cclConfig_t* given) {
  auto config = read_config(given);
  if (!config.ok()) return config.status();
  const auto secret = load_secret(config.value());
  if (!secret.ok()) return secret.status();
  return make_id(config.value(), secret.value(), std::move(job));
}

Result<r2cclUniqueId> make_public_id(const r2cclConfig_t* given) {
  auto config = read_config(given);
  if (!config.ok()) return config.status();
  const auto secret = load_secret(config.value());
  if (!secret.ok()) return secret.status();
  if (config.value().require_auth && secret.value().empty()) return not_proved("");
  return make_id(config.value(), secret.value(), make_public_job_identity());
}

Result<std::unique_ptr<Communicator>> init_from_id(int rank_count, const r2cclUniqueId& id,
                                                   int rank, const r2cclConfig_t* given) {
  R2CCL_RETURN_IF_ERROR(check_rank(rank, rank_count));
  UniqueIdBytes bytes;
  std::memcpy(bytes.data(), id.internal, bytes.size());
  auto decoded = decode_unique_id(bytes);
  crypto::wipe(bytes);
  if (!decoded.ok()) return decoded.status();
  return init_from_id(rank_count, std::move(decoded).value(), rank, given);
}

Result<std::unique_ptr<Communicator>> init_from_id(int rank_count, UniqueId found, int rank,
                                                   const r2cclConfig_t* given,
                                                   std::function<Status()> in_vain) {
  R2CCL_RETURN_IF_ERROR(check_rank(rank, rank_count));
  auto config = read_config(given);
  if (!config.ok()) return config.status();
  if (rank_count == 1) end_rendezvous(found.job);
  auto secret = load_secret(config.value());
  if (!secret.ok()) return secret.status();
  if (config.value().require_auth && secret.value().empty() && !trusts_id(given)) {
    return not_proved(", or trusted_id in its config if no stranger can know the unique id");
  }
  R2CCL_RETURN_IF_ERROR(mix_in_secret(secret.value(), &found.job));
  // The key replaces the secret from here on.
  secret.value() = {};
  config.value().secret = {};
  const std::vector<Endpoint> listening = found.rendezvous;
  CommunicatorOptions options{Rank(rank), rank_count, std::move(found.job),
                              std::move(found.rendezvous), std::move(config).value()};
  options.in_vain = std::move(in_vain);
  options.unable = check_open_files(rank_count);
  return connect(std::move(options), listening);
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
  options.unable = check_open_files(options.rank_count);
  std::vector<Endpoint> listening;
  if (options.rank_count > 1) {
    const HostPort& place =
        *launch.value().rendezvous;  // detect_launch() has one for several ranks
    auto where = options.self == Rank(0) ? serve_at(place, config.value(), &options)
                                         : resolve_rendezvous(place, &options.config);
    if (!where.ok()) return options.unable.ok() ? where.status() : options.unable;
    (options.self == Rank(0) ? listening : options.rendezvous) = std::move(where).value();
  }
  return connect(std::move(options), listening);
}

Result<Config> child_config(const Config& parent, const r2cclConfig_t* given) {
  Config config = parent;
  config.name.clear();
  if (given != nullptr) R2CCL_RETURN_IF_ERROR(apply_config(*given, &config));
  return config;
}

Result<std::unique_ptr<Communicator>> init_child(CommunicatorOptions options) {
  return connect(std::move(options), {});
}

}  // namespace r2ccl::api
