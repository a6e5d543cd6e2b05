// Sums up the paths of links by the NICs of this host, as the answers to `r2ccl status` show them.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "runtime/admin/rank_summary.h"
#include "runtime/link/link.h"
#include "runtime/nics/local_nics.h"

namespace r2ccl {

class LinkTotals {
 public:
  explicit LinkTotals(const LocalNics& nics);

  // Adds the paths of the link to `peer`. `started`: when the job began.
  void add(Rank peer, const Link& link, TimeNs started, TimeNs now);
  // Fills in the NICs, the troubles, and the counts of bytes and corruptions. The lines of
  // the NICs come first, in their order.
  void put_into(RankSummary& summary) const;

 private:
  RankSummary sums_;  // of these fields
  std::vector<LossCount> losses_;
  RankSummary::Line shm_{.nic = kShmNic};
  RankSummary::Line loopback_{.nic = kNoNic};
};

}  // namespace r2ccl
