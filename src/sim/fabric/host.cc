#include "sim/fabric/host.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "sim/fabric/listener.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {
namespace {

bool any_address(const Address& address) {
  return address.family == AddressFamily::none || address.bytes == decltype(address.bytes){};
}

bool loopback_address(const Address& address) {
  // Shared memory is a loopback too, at the same rate.
  return address.family == AddressFamily::local ||
         (address.family == AddressFamily::ipv4 && address.bytes[0] == 127);
}

}  // namespace

SimListener* Machine::find_listener(const Endpoint& local, const SimNic& nic) const {
  for (SimListener* listener : listeners) {
    if (listener->serves(local, nic.options.name)) return listener;
  }
  return nullptr;
}

SimNic* Machine::nic_named(const std::string& nic_name) const {
  for (const auto& nic : nics) {
    if (nic->options.name == nic_name) return nic.get();
  }
  return nullptr;
}

SimNic* Machine::nic_with(const Address& address) const {
  for (const auto& nic : nics) {
    if (nic->has_address(address)) return nic.get();
  }
  return nullptr;
}

SimHost::SimHost(Network& network, Machine& machine, std::string name)
    : network_(network),
      machine_(machine),
      name_(std::move(name)),
      nic_events_poll_id_(poller_.attach(nic_events_)) {
  machine_.processes.push_back(this);
}

SimHost::~SimHost() {
  std::erase(machine_.processes, this);
}

int SimHost::next_operation_error() {
  if (!alive_) return EBADF;
  return ++operations_ == fail_at_ ? fail_error_ : 0;
}

Result<std::vector<Nic>> SimHost::nics() {
  if (const int error = next_operation_error()) return system_error("list interfaces", error);
  std::vector<Nic> all;
  for (const auto& nic : machine_.nics) {
    const bool hidden = nic->options.data && !only_nic_.empty() && nic->options.name != only_nic_;
    if (!hidden) all.push_back(nic->describe());
  }
  return all;
}

void SimHost::note_nic_change() {
  if (nic_events_.lost) return;
  nic_events_.pending = true;
  poller_.touch(nic_events_poll_id_);
}

bool SimHost::drain_nic_events() {
  const bool pending = nic_events_.pending;
  nic_events_.pending = false;
  return pending;
}

Address SimHost::address_of(const std::string& nic_name) const {
  const SimNic* nic = machine_.nic_named(nic_name);
  R2CCL_CHECK(nic != nullptr && !nic->addresses.empty());
  return nic->addresses.front();
}

Result<std::unique_ptr<Listener>> SimHost::listen(const Endpoint& local,
                                                  const std::string& device) {
  const std::string what = "listen on " + to_string(local);
  if (const int error = next_operation_error()) return system_error(what, error);
  if (!device.empty() && machine_.nic_named(device) == nullptr) return system_error(what, ENODEV);
  const bool any = any_address(local.address) || loopback_address(local.address);
  if (!any && machine_.nic_with(local.address) == nullptr) {
    return system_error(what, EADDRNOTAVAIL);
  }
  Endpoint bound = local;
  if (bound.port == 0) bound.port = machine_.take_port();
  for (const SimListener* other : machine_.listeners) {
    if (other->serves(bound, device)) return system_error(what, EADDRINUSE);
  }
  return std::unique_ptr<Listener>(std::make_unique<SimListener>(*this, network_, bound, device));
}

// Returns the NIC that a connection leaves by, as Linux would choose it.
SimHost::Route SimHost::route(const Address& remote, const ConnectOptions& options) const {
  SimNic* const loopback = machine_.nics.front().get();
  SimNic* nic = nullptr;
  if (options.source.family != AddressFamily::none) {
    nic = loopback_address(options.source) ? loopback : machine_.nic_with(options.source);
    if (nic == nullptr) return {loopback, EADDRNOTAVAIL};
  }
  if (!options.device.empty()) {
    nic = machine_.nic_named(options.device);
    if (nic == nullptr) return {loopback, ENODEV};
    if (!nic->carrier()) return {nic, ENETDOWN};
  }
  if (loopback_address(remote) || machine_.nic_with(remote) != nullptr) return {loopback, 0};
  if (nic != nullptr) return {nic, nic->up() ? 0 : ENETUNREACH};
  for (const auto& candidate : machine_.nics) {
    if (!candidate->up() || candidate->addresses.empty()) continue;
    if (same_subnet(candidate->addresses.front(), remote)) return {candidate.get(), 0};
  }
  return {loopback, ENETUNREACH};
}

Result<std::unique_ptr<Connection>> SimHost::connect(const Endpoint& remote,
                                                     const ConnectOptions& options) {
  int error = next_operation_error();
  if (error == 0 && !descriptors_left_) error = EMFILE;
  if (error != 0) return system_error("connect to " + to_string(remote), error);
  Route way = route(remote.address, options);
  if (remote.address.family == AddressFamily::local && !shares_memory_) way.error = ECONNREFUSED;
  FlowSpec spec;
  spec.from = way.nic;
  spec.to = spec.from->options.loopback ? spec.from : network_.nic_with(remote.address);
  const bool bound = options.source.family != AddressFamily::none;
  const Address source = spec.from->addresses.empty() ? Address{} : spec.from->addresses.front();
  spec.local = {bound ? options.source : source, machine_.take_port()};
  spec.remote = remote;
  spec.unsent_low_water = options.unsent_low_water;
  Flow& flow = network_.open(spec);
  way.error == 0 ? flow.start_connect() : flow.refuse(way.error);
  return std::unique_ptr<Connection>(std::make_unique<SimConnection>(*this, flow, 0));
}

void SimHost::kill() {
  alive_ = false;
  const std::vector<SimListener*> listeners = machine_.listeners;
  for (SimListener* listener : listeners) {
    if (&listener->process() == this) listener->shut();
  }
  for (const auto& [id, flow] : network_.flows()) {
    for (const int side : {0, 1}) {
      if (flow->attached_to(side, *this)) flow->orphan(side);
    }
  }
}

}  // namespace r2ccl::sim
