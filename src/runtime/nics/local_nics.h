// The data NICs of this host, as one rank uses them: their listeners and addresses, which may
// change during the job, their queues, the gates of their first dials, and those that an operator
// has taken out of service.
//
// Driving thread only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/admin/drain.h"
#include "protocol/path/nic_queue.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/wire.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/connection/acceptor.h"
#include "runtime/connection/dial_gate.h"
#include "transport/transport.h"

namespace r2ccl {

struct ListenOptions {
  // A NIC with an address in the subnet of one of these becomes the out-of-band NIC, unless it
  // carries data. `oob_ifname`, in the language of NicFilter, overrides the choice or excludes
  // NICs.
  std::vector<Endpoint> rendezvous;
  std::string oob_ifname;
  std::string oob_ifname_variable = "R2CCL_OOB_IFNAME";  // the variable that set oob_ifname
  // Listen in shared memory too, if the transport can, for ranks of this host.
  bool shm = false;
};

class LocalNics {
 public:
  // How a NIC has changed.
  struct Change {
    NicId nic;
    bool moved = false;                 // its addresses or its listener: the peers need info()
    std::optional<bool> alive;          // set when the NIC has come or gone
    DownCause cause = DownCause::none;  // why it went
  };
  struct Changes {
    std::vector<Change> nics;
    std::vector<Address> lost;  // addresses that this host had, and has no more
  };

  // `queues`: the process's, which all its ranks use. All references must outlive this.
  LocalNics(Transport& transport, NicQueues& queues, std::unique_ptr<Acceptor> acceptor);

  // Finds the NICs and listens on each. Fails when no NIC is usable. `name`: random bytes that name
  // the listener in shared memory.
  Status open(const ListenOptions& options,
              const std::function<std::array<std::byte, kNonceBytes>()>& name);
  // Fills in the NICs and listeners.
  void describe(RankInfo& info) const;
  // Accepts connections from now on.
  Status begin() { return acceptor_->begin(); }
  // Closes the listeners, for ever. After that only questions are legal.
  void close() noexcept { acceptor_.reset(); }
  // Reserves places and time for connections from these addresses, so that no flood takes them.
  void reserve(std::vector<Address> peers);

  size_t count() const { return nics_.size(); }
  // Returns the NICs in the order advertised: a NicId is an index.
  const std::vector<Nic>& all() const { return nics_; }
  // Returns the present addresses and port of a NIC, for the peers.
  NicInfo info(NicId nic) const;
  NicQueue& queue(NicId nic) { return nic == kNoNic ? no_nic_queue_ : *queues_[nic.value()]; }
  const NicQueue& queue(NicId nic) const {
    return nic == kNoNic ? no_nic_queue_ : *queues_[nic.value()];
  }
  // Returns the gate of first dials from that NIC; kNoNic: from none, in shared memory or not.
  DialGate& dial_gate(NicId nic, bool shm);
  // Returns whether this host has the address now, and not for itself alone as the loopback's.
  bool is_own(const Address& address) const;

  NicSet drained() const { return drained_; }
  void set_drained(NicId nic, bool drained);

  // --- changes ---
  // The state or an address of some NIC may have changed.
  void on_changed() { read_at_ = 0; }
  // The same, but reads them at most once in `interval`.
  void doubt(TimeNs interval) { read_at_ = std::min(read_at_, read_last_ + interval); }
  bool may_have_changed(TimeNs now) const { return now >= read_at_; }
  // Reads the NICs. Returns how they differ from the last time. Is due again soon if that fails.
  Changes read(TimeNs now);

  // Ends the pass of the listeners.
  void progress(TimeNs now) { acceptor_->progress(now); }
  TimeNs next_timeout() const { return std::min(acceptor_->next_timeout(), read_at_); }

 private:
  std::optional<Change> compare(NicId id, const std::vector<Nic>& all);
  bool move(NicId id, const Nic& now);
  std::vector<Address> note_addresses(const std::vector<Nic>& all);
  uint16_t port_of_another(const Nic& nic) const;
  Result<uint16_t> listen_on(const Nic& nic, NicId id);
  Status listen_on_all(const std::vector<Nic>& all);
  Status listen_out_of_band(const std::vector<Nic>& all, const ListenOptions& options);
  Status listen_on_loopback();
  void listen_in_shared_memory(const std::array<std::byte, kNonceBytes>& name);

  Transport& transport_;
  NicQueues& all_queues_;
  NicQueue& no_nic_queue_;
  std::unique_ptr<Acceptor> acceptor_;  // null: closed
  std::vector<Nic> nics_;
  std::vector<uint16_t> ports_;         // of the listener on each
  std::vector<NicQueue*> queues_;       // parallel to nics_
  std::deque<DialGate> gates_;          // of each NIC, then of dials without one: shm, others
  std::vector<Address> own_addresses_;  // of all NICs of this host
  std::vector<Endpoint> control_;       // out-of-band if any, then lo
  Endpoint shm_;                        // family none: not listening in shared memory
  NicSet drained_;
  TimeNs read_at_ = kNever;  // set when the NICs may have changed, or could not be read
  TimeNs read_last_ = 0;
};

}  // namespace r2ccl
