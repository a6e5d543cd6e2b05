// One connection between two other ranks, which this rank relays: it passes the bytes on, both
// ways, and reads none of them. The two ends have shaken hands through it and check every byte, so
// it needs no trust. Driving thread only.
//
// A pipe holds few bytes. Its kernel's queue towards each end is bounded by the time that the bytes
// take on the NIC, as the windows of this rank's own paths are, and counts in the NIC's account.
// Otherwise the kernel would fill the NIC's queue up to a loss, and the NIC would look bad. Bytes
// that have no room wait in the kernel of the end that sent them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/path/nic_queue.h"
#include "runtime/connection/reactor.h"
#include "runtime/link/link_witness.h"
#include "transport/transport.h"

namespace r2ccl {

// The surroundings of all pipes of a rank.
struct RelayHost {
  Reactor& reactor;
  std::span<std::byte> scratch;    // free while none of a pipe's functions runs
  LinkWitness* witness = nullptr;  // none in production
};

class RelayPipe {
 public:
  struct End {
    Rank rank;
    std::unique_ptr<Connection> connection;
    NicQueue* queue = nullptr;  // of the NIC by which bytes leave for it; must outlive the pipe
    TimeNs min_rtt = 0;         // to it; 0: not known
  };
  // An established connection, and one that may still be connecting. `early`: the first bytes of
  // `near`.
  RelayPipe(const RelayHost& host, End near, End far, std::vector<std::byte> early, TimeNs now);
  ~RelayPipe();
  RelayPipe(const RelayPipe&) = delete;
  RelayPipe& operator=(const RelayPipe&) = delete;

  // Does all work that is due.
  void progress(TimeNs now);
  TimeNs next_timeout() const { return over_ ? 0 : next_look_; }
  // Returns whether one of the connections has ended and the other has its last bytes, or they have
  // had their time.
  bool over() const { return over_; }
  bool serves(Rank rank) const { return sides_[0].rank == rank || sides_[1].rank == rank; }
  // Returns the bytes in the kernel's queue that count in that account.
  uint64_t outstanding(const NicQueue& queue) const;
  size_t busy(const NicQueue& queue) const;
  // Returns the number of bytes that it may have outstanding in the account: for tests.
  static uint64_t window(const NicQueue& queue, TimeNs min_rtt);

  void check_invariants() const;

 private:
  struct Side final : EventHandler {
    Side(RelayPipe& owner, End end)
        : pipe(owner),
          rank(end.rank),
          connection(std::move(end.connection)),
          queue(*end.queue),
          min_rtt(end.min_rtt) {}
    void on_ready(const PollEvent&) override { pipe.ready_ = true; }

    RelayPipe& pipe;
    const Rank rank;
    std::unique_ptr<Connection> connection;
    NicQueue& queue;
    const TimeNs min_rtt;
    std::vector<std::byte> held;  // read at the other side, and not yet written here
    uint64_t outstanding = 0;     // written here, and not acknowledged
    bool connecting = false;
    bool ended = false;                  // no byte comes from it any more
    bool broken = false;                 // no byte goes to it any more
    Reactor::Registration registration;  // last: ends before the connection
  };

  void connect(Side& side, TimeNs now);
  void settle(Side& side, TimeNs now);
  uint64_t room(const Side& side) const;
  void flush(Side& side, TimeNs now);
  bool write(Side& side, std::span<const std::byte> bytes, TimeNs now);
  void move(Side& from, Side& to, TimeNs now);
  bool is_served(const Side& side) const;
  void check_end(TimeNs now);
  void watch(Side& side, const Side& other);
  void check_silence(TimeNs now);

  const RelayHost host_;
  std::array<Side, 2> sides_;
  bool ready_ = true;
  bool over_ = false;
  TimeNs connect_by_;
  TimeNs ended_at_ = kNever;
  TimeNs next_look_ = 0;
  TimeNs next_silence_look_ = 0;
};

}  // namespace r2ccl
