#include "runtime/nics/local_nics.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "runtime/connection/path_addresses.h"

namespace r2ccl {
namespace {

// The pause when the NICs cannot be read or listened on: descriptors may have run out.
constexpr TimeNs kNicsPause = 250 * kMillisecond;

}  // namespace

LocalNics::LocalNics(Transport& transport, NicQueues& queues, std::unique_ptr<Acceptor> acceptor)
    : transport_(transport),
      all_queues_(queues),
      no_nic_queue_(queues[""]),
      acceptor_(std::move(acceptor)) {}

void LocalNics::describe(RankInfo& info) const {
  for (size_t i = 0; i < nics_.size(); ++i) info.nics.push_back(make_nic_info(nics_[i], ports_[i]));
  info.control = control_;
  info.shm = shm_;
}

void LocalNics::reserve(std::vector<Address> peers) {
  // All peers of this host come by the name of this rank's listener.
  if (shm_.address.family != AddressFamily::none) peers.push_back(shm_.address);
  acceptor_->reserve(peers);
}

NicInfo LocalNics::info(NicId nic) const {
  return make_nic_info(nics_[nic.value()], ports_[nic.value()]);
}

DialGate& LocalNics::dial_gate(NicId nic, bool shm) {
  if (nic != kNoNic) return gates_[nic.value()];
  return gates_[nics_.size() + (shm ? 0 : 1)];
}

// Every host has the loopback's addresses; link-local ones mean nothing beyond one link.
bool LocalNics::is_own(const Address& address) const {
  if (is_loopback(address)) return false;
  return std::ranges::any_of(own_addresses_,
                             [&](const Address& own) { return same_address(own, address); });
}

void LocalNics::set_drained(NicId nic, bool drained) {
  if (drained_.contains(nic) != drained) {
    R2CCL_LOG(info, "%s is %s", nics_[nic.value()].name.c_str(),
              drained ? "taken out of service" : "back in service");
  }
  drained_.set(nic, drained);
}

// Returns the addresses that this host had before and has no more.
std::vector<Address> LocalNics::note_addresses(const std::vector<Nic>& all) {
  std::vector<Address> lost;
  lost.swap(own_addresses_);
  for (const Nic& nic : all) {
    own_addresses_.insert(own_addresses_.end(), nic.addresses.begin(), nic.addresses.end());
  }
  std::erase_if(lost, [&](const Address& each) { return has_address(own_addresses_, each); });
  return lost;
}

LocalNics::Changes LocalNics::read(TimeNs now) {
  read_at_ = kNever;
  read_last_ = now;
  Changes changes;
  auto all = transport_.nics();
  if (!all.ok()) {
    R2CCL_LOG(warn, "cannot read the state of the NICs: %s", all.status().message().c_str());
    read_at_ = now + kNicsPause;
    return changes;
  }
  changes.lost = note_addresses(all.value());
  for (size_t i = 0; i < nics_.size(); ++i) {
    const auto change = compare(NicId(static_cast<uint16_t>(i)), all.value());
    if (change) changes.nics.push_back(*change);
  }
  return changes;
}

std::optional<LocalNics::Change> LocalNics::compare(NicId id, const std::vector<Nic>& all) {
  Nic& known = nics_[id.value()];
  Change change;
  change.nic = id;
  const auto found = std::ranges::find(all, known.name, &Nic::name);
  const bool present = found != all.end();
  const bool was_alive = known.alive();
  const bool is_alive = present && found->alive();
  if (present) {
    known.up = found->up;
    known.carrier = found->carrier;
    const bool differs = known.addresses != found->addresses || known.index != found->index;
    if (differs && !found->addresses.empty()) {
      change.moved = move(id, *found);
      if (!change.moved) read_at_ = read_last_ + kNicsPause;
    }
    if (found->addresses.empty()) known.addresses.clear();  // the same one may come back
  } else {
    known.up = false;
  }
  if (was_alive != is_alive) {
    change.alive = is_alive;
    change.cause = known.up ? DownCause::carrier_lost : DownCause::interface_down;
    R2CCL_LOG(info, "%s is %s", known.name.c_str(), is_alive ? "up" : to_string(change.cause));
  }
  return change.moved || change.alive ? std::optional(change) : std::nullopt;
}

// A NIC's identity is not its address: after an outage it may return with another address, or as a
// new device of its name, to which the old listener is not bound. Returns false when this is not
// possible now.
bool LocalNics::move(NicId id, const Nic& now) {
  Nic& known = nics_[id.value()];
  if (known.index != now.index) {
    auto port = listen_on(now, id);
    if (!port.ok()) {
      R2CCL_LOG(warn, "%s", port.status().message().c_str());
      return false;
    }
    ports_[id.value()] = port.value();
    known.index = now.index;
  }
  known.addresses = now.addresses;
  return true;
}

}  // namespace r2ccl
