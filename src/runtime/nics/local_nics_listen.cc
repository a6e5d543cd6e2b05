// The listeners: one on each data NIC, the out-of-band one, lo, and shared memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "runtime/nics/local_nics.h"
#include "transport/nic_choice.h"

namespace r2ccl {

Status LocalNics::open(const ListenOptions& options,
                       const std::function<std::array<std::byte, kNonceBytes>()>& name) {
  auto all = transport_.nics();
  if (!all.ok()) return all.status();
  (void)note_addresses(all.value());
  R2CCL_RETURN_IF_ERROR(listen_on_all(all.value()));
  R2CCL_RETURN_IF_ERROR(listen_out_of_band(all.value(), options));
  R2CCL_RETURN_IF_ERROR(listen_on_loopback());
  if (options.shm) listen_in_shared_memory(name());
  for (const Nic& nic : nics_) queues_.push_back(&all_queues_[nic.name]);
  // A gate of its own, so that a dead NIC does not hold up the dials of the others.
  const size_t gates = nics_.size() + 2;
  for (size_t i = 0; i < gates; ++i) {
    gates_.emplace_back(std::max<size_t>(limits::kFirstDialsMax / gates, 1));
  }
  return {};
}

// Returns the port of another NIC; 0: there is none. The host may answer for the address of one NIC
// on every other that is on the same switch (ARP flux): a connection that comes by the other one is
// then accepted, where the kernel of a living rank would refuse it for as long as it lives.
uint16_t LocalNics::port_of_another(const Nic& nic) const {
  for (size_t i = 0; i < nics_.size(); ++i) {
    if (nics_[i].name != nic.name && !bound_device(nics_[i].name).empty()) return ports_[i];
  }
  return 0;
}

// A peer may come to any address of the NIC, in any order, and the addresses may change; the device
// says which NIC it is. An address that acts as a NIC shares its device with others.
Result<uint16_t> LocalNics::listen_on(const Nic& nic, NicId id) {
  const std::string device = bound_device(nic.name);
  const Address local = device.empty() ? nic.addresses.front() : Address{};
  const uint16_t port = device.empty() ? 0 : port_of_another(nic);
  auto endpoint = acceptor_->listen(local, device, id, port);
  if (!endpoint.ok() && port != 0) endpoint = acceptor_->listen(local, device, id);
  if (!endpoint.ok()) return endpoint.status().with_context("listening on " + nic.name);
  return endpoint.value().port;
}

Status LocalNics::listen_on_all(const std::vector<Nic>& all) {
  for (const Nic& nic : all) {
    if (!nic.usable || nics_.size() == limits::kNicsMax) continue;
    if (nic.addresses.empty()) continue;
    const NicId id(static_cast<uint16_t>(nics_.size()));
    auto port = listen_on(nic, id);
    if (!port.ok()) return port.status();
    nics_.push_back(nic);
    ports_.push_back(port.value());
  }
  if (!nics_.empty()) return {};
  std::string seen;
  for (const Nic& nic : all) seen += "\n  " + nic.name + ": " + nic.reason;
  return {Code::system,
          "no network interface can be used; name some with R2CCL_SOCKET_IFNAME. Found:" + seen};
}

Status LocalNics::listen_out_of_band(const std::vector<Nic>& all, const ListenOptions& options) {
  const std::string& names = options.oob_ifname;
  const bool selects = !names.empty() && names.front() != '^';
  std::vector<Nic> candidates = all;
  if (!names.empty()) {
    auto chosen = choose_nics(all, {.text = names, .variable = options.oob_ifname_variable});
    if (!chosen.ok()) return chosen.status();
    candidates = std::move(chosen).value();
    std::erase_if(candidates, [](const Nic& nic) { return !nic.usable; });
  }
  for (const Nic& nic : candidates) {
    const bool carries_data =
        std::any_of(nics_.begin(), nics_.end(), [&](const Nic& n) { return n.name == nic.name; });
    if (carries_data || !nic.alive() || nic.addresses.empty() || !control_.empty()) continue;
    for (const Address& address : nic.addresses) {
      const bool wanted = selects || std::any_of(options.rendezvous.begin(),
                                                 options.rendezvous.end(), [&](const Endpoint& e) {
                                                   return same_subnet(e.address, address);
                                                 });
      if (!wanted || nic.kind == NicKind::loopback) continue;
      auto endpoint = acceptor_->listen(address, "", kNoNic);
      if (!endpoint.ok()) return endpoint.status().with_context("listening on " + nic.name);
      control_.push_back(endpoint.value());
      break;
    }
  }
  return {};
}

Status LocalNics::listen_on_loopback() {
  Address loopback;
  loopback.family = AddressFamily::ipv4;
  loopback.bytes = {127, 0, 0, 1};
  auto endpoint = acceptor_->listen(loopback, "", kNoNic);
  if (!endpoint.ok()) return endpoint.status().with_context("listening on lo");
  control_.push_back(endpoint.value());
  return {};
}

// Without it, ranks of one host use lo.
void LocalNics::listen_in_shared_memory(const std::array<std::byte, kNonceBytes>& name) {
  Address address;
  address.family = AddressFamily::local;
  static_assert(kNonceBytes >= sizeof address.bytes);
  std::memcpy(address.bytes.data(), name.data(), address.bytes.size());
  auto endpoint = acceptor_->listen(address, "", kNoNic);
  if (endpoint.ok()) {
    shm_ = endpoint.value();
  } else {
    R2CCL_LOG(info, "no shared memory between ranks: %s", endpoint.status().message().c_str());
  }
}

}  // namespace r2ccl
