#include "runtime/communicator_options.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "runtime/admin/status_path.h"
#include "runtime/admin/status_socket.h"
#include "runtime/bootstrap/host_identity.h"
#include "runtime/config/secure_random.h"
#include "runtime/rank_status.h"

#include <unistd.h>

namespace r2ccl {
namespace {

constexpr TimeNs kInitErrorBound = 10 * kSecond;

std::vector<Setting> agreed_settings(const Config& config) {
  return {{"R2CCL_ALGO", to_string(config.algo)},
          {"R2CCL_REPRODUCIBLE", config.reproducible ? "1" : "0"},
          {"R2CCL_VIEWS", config.views ? "1" : "0"}};
}

}  // namespace

RankOptions rank_options(const CommunicatorOptions& options) {
  RankOptions rank;
  rank.self = options.self;
  rank.rank_count = options.rank_count;
  rank.name = options.config.name;
  rank.job = options.job;
  rank.engine.link.monitor = options.config.monitor;
  rank.engine.link.damping = options.config.damping;
  rank.engine.link.cutoff = options.config.cutoff_ns;
  rank.engine.listen.rendezvous = options.rendezvous;
  rank.engine.listen.oob_ifname = options.config.oob_ifname;
  rank.engine.listen.oob_ifname_variable = options.config.oob_ifname_variable;
  rank.engine.listen.shm = options.config.shm;
  rank.engine.nonce = random_nonce;
  rank.plan_costs = options.plan_costs.value_or(PlanCosts());
  rank.views = options.config.views;
  rank.first_view = options.first_view;
  rank.shrink_patience = options.config.init_timeout_ns;
  rank.library_version = options.library_version;
  rank.drain_registry = options.drain_registry;
  return rank;
}

Result<RankInfo> describe_self(const CommunicatorOptions& options) {
  RankInfo info;
  info.rank = options.self;
  info.host_name = host_name();
  info.pid = static_cast<uint32_t>(getpid());
  info.library_version = options.library_version;
  info.settings = agreed_settings(options.config);
  if (const std::string& named = options.config.host_id; !named.empty()) {
    info.host = host_identity_named(named);
    info.host_name = printable_text(named, kHostNameBytesMax);
  } else {
    auto host = host_identity();
    if (!host.ok()) return host.status();
    info.host = host.value();
  }
  return info;
}

RendezvousClient::Options meeting_options(const CommunicatorOptions& options, RankInfo info) {
  RendezvousClient::Options meeting;
  meeting.job = options.job;
  meeting.endpoints = options.rendezvous;
  meeting.info = std::move(info);
  meeting.rank_count = options.rank_count;
  meeting.timeout_ns = options.config.init_timeout_ns;
  meeting.nonce = random_nonce;
  return meeting;
}

void tell_init_error(Transport& transport, const Clock& clock, const CommunicatorOptions& options,
                     const Status& init_error, RankInfo info) {
  if (options.rank_count == 1) return;
  info.init_error = printable_text(init_error.message(), kInitErrorBytesMax);
  RendezvousClient::Options meeting = meeting_options(options, std::move(info));
  meeting.timeout_ns = std::min(meeting.timeout_ns, kInitErrorBound);
  // The meeting is refused at best. The caller must know the init error, not that refusal.
  Reactor reactor(transport.poller());
  (void)run_rendezvous(transport, reactor, clock, std::move(meeting));
}

namespace {

Status try_open_status(const CommunicatorOptions& options, RankRuntime& runtime) {
  const StatusName name{static_cast<uint32_t>(getpid()), runtime.comm_id(), options.self};
  try {
    auto socket = StatusSocket::open(status_directory(options.config.runtime_dir, geteuid()), name);
    if (!socket.ok()) return socket.status();
    return runtime.status().serve(std::move(socket).value());
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace

void open_status(const CommunicatorOptions& options, RankRuntime& runtime) {
  if (!options.config.status) return;
  const Status opened = try_open_status(options, runtime);
  if (opened.ok()) return;
  R2CCL_LOG(warn,
            "`r2ccl status` will not find %s, which runs on: %s; R2CCL_STATUS=0 says not to try",
            runtime.name_of(options.self).c_str(), opened.message().c_str());
}

}  // namespace r2ccl
