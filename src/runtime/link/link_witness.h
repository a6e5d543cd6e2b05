// Observes every step of the data path that a rule of the contract covers, so that an outside
// checker of the rules (the simulation) needs no second implementation of the steps. An observer
// changes nothing.
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

  // The rank is about to pass bytes of others on from this memory, which is its own.
  virtual void on_relayed(std::span<const std::byte> memory) = 0;

  // The link is about to hand a copy of a chunk to `path`.
  virtual void on_transmit(LinkEnd at, const Path& path, const DataHeader& header,
                           std::span<const std::byte> payload) = 0;
  // The link accepts the peer's report on a path.
  virtual void on_report(LinkEnd at, const Path& path, const PathReport& report) = 0;
  // The header of a copy has arrived. Its payload goes to `place`.
  virtual void on_place(LinkEnd at, const Path& path, const DataHeader& header,
                        const ReceiveLedger::Place& place) = 0;
  // The copy has arrived whole. `discarded`: its bytes were dropped. Otherwise `fresh` says whether
  // the ledger took it.
  virtual void on_arrive(LinkEnd at, const Path& path, const DataHeader& header, bool discarded,
                         bool fresh) = 0;
};

}  // namespace r2ccl
