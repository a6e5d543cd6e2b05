// Told of every step of the data path that a rule of the contract speaks of, so that whoever checks
// the rules from outside (the simulation) needs no second implementation of them. Watches only.
#pragma once

#include <cstddef>
#include <span>

#include "base/ids.h"
#include "protocol/delivery/receive_ledger.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

class Path;

// One end of a link.
struct LinkEnd {
  Rank self;
  Rank peer;
  friend auto operator<=>(const LinkEnd&, const LinkEnd&) = default;
};

class LinkWitness {
 public:
  virtual ~LinkWitness() = default;

  // A copy of a chunk is about to be handed to `path`.
  virtual void on_transmit(LinkEnd at, const Path& path, const DataHeader& header,
                           std::span<const std::byte> payload) = 0;
  // The peer is told how many bytes in all it may have sent on the path's present connection.
  virtual void on_grant(LinkEnd at, const Path& path, uint64_t pace_total) = 0;
  // What the peer says of a path is taken for true.
  virtual void on_report(LinkEnd at, const Path& path, const PathReport& report) = 0;
  // The header of a copy has arrived, and its payload will go to `place`.
  virtual void on_place(LinkEnd at, const Path& path, const DataHeader& header,
                        const ReceiveLedger::Place& place) = 0;
  // The copy has arrived whole; `discarded`: it went nowhere. Otherwise the ledger took it, or not
  // (`fresh`).
  virtual void on_arrive(LinkEnd at, const Path& path, const DataHeader& header, bool discarded,
                         bool fresh) = 0;
};

}  // namespace r2ccl
