#include "sim/fabric/fabric.h"

#include <algorithm>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr uint32_t kMachinesMax = 1000;  // leaves bits of the address for faults that change it
constexpr uint32_t kMachinesPerOctet = 250;
constexpr uint64_t kLoopbackBytesPerSecond = 5'000'000'000;

Address ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t prefix_bits) {
  Address address;
  address.family = AddressFamily::ipv4;
  address.bytes = {a, b, c, d};
  address.prefix_bits = prefix_bits;
  return address;
}

}  // namespace

Fabric::Fabric(uint64_t seed, VirtualClock& clock, const NetworkOptions& options)
    : clock_(clock), engine_(seed, clock), network_(engine_, options) {}

SimHost& Fabric::add_host(const std::string& name) {
  R2CCL_CHECK(machines_.size() < kMachinesMax);
  machines_.push_back(std::make_unique<Machine>());
  Machine& machine = *machines_.back();
  machine.name = name;
  machine.number = static_cast<uint32_t>(machines_.size() - 1);
  SimHost& host = add_process_on(machine, name);
  NicOptions loopback;
  loopback.name = "lo";
  loopback.rate_bytes_per_s = kLoopbackBytesPerSecond;
  loopback.mtu = 65536;
  loopback.speed_mbps = 0;
  loopback.data = false;
  loopback.loopback = true;
  add_nic(host, loopback).addresses = {ipv4(127, 0, 0, 1, 8)};
  return host;
}

SimHost& Fabric::add_process(SimHost& neighbour, const std::string& name) {
  return add_process_on(neighbour.machine(), name);
}

SimHost& Fabric::add_process_on(Machine& machine, const std::string& name) {
  hosts_.push_back(std::make_unique<SimHost>(network_, machine, name));
  if (waits_pass_time_) let_waits_pass_time();
  return *hosts_.back();
}

SimNic& Fabric::add_nic(SimHost& host, const NicOptions& options) {
  Machine& machine = host.machine();
  R2CCL_CHECK(options.rate_bytes_per_s > 0 && options.rail < 256);
  R2CCL_CHECK(machine.nic_named(options.name) == nullptr);
  const auto index = static_cast<uint32_t>(machine.nics.size() + 1);
  const auto number = static_cast<uint32_t>(network_.nics().size());
  machine.nics.push_back(std::make_unique<SimNic>(machine, options, index, number));
  SimNic& nic = *machine.nics.back();
  nic.addresses = {ipv4(10, static_cast<uint8_t>(options.rail),
                        static_cast<uint8_t>(machine.number / kMachinesPerOctet),
                        static_cast<uint8_t>(machine.number % kMachinesPerOctet + 1), 16)};
  network_.add_nic(nic);
  for (SimHost* process : machine.processes) process->note_nic_change();
  return nic;
}

void Fabric::at(TimeNs time, std::function<void()> action) {
  engine_.at(time, std::move(action));
}

void Fabric::run_for(TimeNs duration) {
  const TimeNs deadline = clock_.now() + duration;
  while (engine_.step(deadline)) {
  }
}

void Fabric::let_waits_pass_time() {
  waits_pass_time_ = true;
  for (const auto& host : hosts_) {
    host->sim_poller().set_driver([this](TimeNs deadline) { return engine_.step(deadline); },
                                  clock_);
  }
}

void Fabric::set_faults(SimNic& nic, const NicFaults& faults) {
  const bool was_up = nic.up();
  const bool had_carrier = nic.carrier();
  nic.faults = faults;
  engine_.trace(TraceKind::fault_changed, nic.number, faults.rate_bytes_per_s);
  if (nic.up() == was_up && nic.carrier() == had_carrier) return;
  for (SimHost* process : nic.machine.processes) process->note_nic_change();
}

void Fabric::down(SimNic& nic) {
  NicFaults faults = nic.faults;
  faults.admin_down = true;
  set_faults(nic, faults);
}

void Fabric::pull(SimNic& nic) {
  NicFaults faults = nic.faults;
  faults.pulled = true;
  set_faults(nic, faults);
}

void Fabric::hole(SimNic& nic) {
  hole_tx(nic);
  hole_rx(nic);
}

void Fabric::hole_tx(SimNic& nic) {
  NicFaults faults = nic.faults;
  faults.hole_tx = true;
  set_faults(nic, faults);
}

void Fabric::hole_rx(SimNic& nic) {
  NicFaults faults = nic.faults;
  faults.hole_rx = true;
  set_faults(nic, faults);
}

void Fabric::slow(SimNic& nic, uint64_t rate_bytes_per_s, uint64_t burst_bytes) {
  NicFaults faults = nic.faults;
  faults.rate_bytes_per_s = rate_bytes_per_s;
  faults.burst_bytes = burst_bytes;
  set_faults(nic, faults);
}

void Fabric::delay(SimNic& nic, TimeNs delay_ns, TimeNs jitter_ns) {
  NicFaults faults = nic.faults;
  faults.delay_ns = delay_ns;
  faults.jitter_ns = jitter_ns;
  set_faults(nic, faults);
}

void Fabric::lose(SimNic& nic, uint32_t loss_ppm) {
  NicFaults faults = nic.faults;
  faults.loss_ppm = loss_ppm;
  set_faults(nic, faults);
}

void Fabric::mtu_hole(SimNic& nic, uint32_t frame_bytes_max) {
  NicFaults faults = nic.faults;
  faults.frame_bytes_max = frame_bytes_max;
  set_faults(nic, faults);
}

void Fabric::set_addresses(SimNic& nic, std::vector<Address> addresses) {
  nic.addresses = std::move(addresses);
  for (const auto& [id, flow] : network_.flows()) {
    if (flow->nic(0) == &nic || flow->nic(1) == &nic) flow->look_at_addresses();
  }
  for (SimHost* process : nic.machine.processes) process->note_nic_change();
}

void Fabric::partition(std::span<SimHost* const> some) {
  const auto inside = [&](const SimNic& nic) {
    return std::ranges::any_of(some,
                               [&](SimHost* host) { return &host->machine() == &nic.machine; });
  };
  for (const SimNic* a : network_.nics()) {
    for (const SimNic* b : network_.nics()) {
      if (inside(*a) && !inside(*b)) network_.sever(*a, *b);
    }
  }
}

std::vector<FlowInfo> Fabric::flows() const {
  std::vector<FlowInfo> all;
  for (const auto& [id, flow] : network_.flows()) {
    FlowInfo info;
    info.id = id;
    info.from = flow->nic(0);
    info.to = flow->nic(1);
    info.established =
        flow->state(0) == SideState::established && flow->state(1) == SideState::established;
    info.delivered_from = flow->stream_from(0).delivered();
    info.delivered_to = flow->stream_from(1).delivered();
    all.push_back(info);
  }
  return all;
}

void Fabric::reset_flow(uint64_t flow_id) {
  if (Flow* flow = network_.find(flow_id)) flow->reset();
}

void Fabric::tamper(uint64_t flow_id, int side, const Tamper& tamper) {
  if (Flow* flow = network_.find(flow_id)) flow->tamper(side, tamper);
}

void Fabric::cut_flow(uint64_t flow_id, int side, uint64_t offset, CutKind kind) {
  if (Flow* flow = network_.find(flow_id)) flow->cut(side, offset, kind);
}

}  // namespace r2ccl::sim
