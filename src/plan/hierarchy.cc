// The hierarchical AllReduce: ranks of a host reduce in memory, and hosts over the NICs. It is the
// reduce-scatter, AllReduce, all-gather of multi-lane collectives (Träff, Hunold 2020), pipelined.
//
// The vector has c columns. The first c ranks of each host lead one each. In three phases
//
//   1. each rank sends its input of each column to the column's leader on its host, who reduces,
//   2. the leaders of a column, one on each host, carry out an AllReduce of it,
//   3. each leader sends its column to the other ranks of its host.
//
// So the NICs of a host carry 2 (H - 1) / H of the vector, where H is the number of hosts: with n
// ranks on each host a flat ring over p = n H ranks sends 2 (p - 1) / p of it, though most hops are
// in memory. Hosts may have different numbers of ranks: those beyond c only contribute and receive.
// Vectors of few bytes have few columns, because messages cost more than bytes there.
//
// When phase 2 is a ring, the phases overlap piece by piece: a column has a block for each host,
// and the steps of phase 1 for a piece stand directly before the step of the ring that needs it.
// Staging slots are given in the order of the list, so a slow NIC then holds back no more memory
// work than it must, and memory work delays the NICs only for the first piece.
//
// One rank computes each element of a host's partial result, so all ranks get the same bits.
#include <algorithm>
#include <optional>
#include <vector>

#include "plan/algorithms.h"
#include "plan/ring.h"

namespace r2ccl {
namespace {

class Hierarchy {
 public:
  Hierarchy(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan)
      : key_(key), limits_(limits), plan_(plan), hosts_(key.hosts.hosts()) {
    find_self();
    const uint64_t columns = column_count(key, limits);
    const uint64_t bytes = key.count / columns * size_of(key.type);
    algorithm_ = choose_reduction(bytes, hosts_.size(), limits);
    pipelined_ = hosts_.size() > 1 && algorithm_ == Algorithm::ring;
    segment_ = pipelined_ ? ring_segment(key.count / columns, hosts_.size(), key.type, limits)
                          : segment_count(limits.segment_bytes_max, key.type, limits);
    for (uint64_t column = 0; column < columns; ++column) {
      columns_.emplace_back(part_of({Buffer::output, 0, key.count}, column, columns),
                            pipelined_ ? hosts_.size() : 1, segment_);
    }
  }

  void build() {
    if (pipelined_) {
      std::optional<Ring> ring;  // only the leaders are in one
      if (leads(self_)) ring.emplace(among_hosts(), segment_, plan_);
      reduce_by_ring(ring ? &*ring : nullptr);
      gather_by_ring(ring ? &*ring : nullptr);
      return;
    }
    for (uint64_t piece = 0; piece < pieces(); ++piece) collect(0, piece);
    if (leads(self_) && hosts_.size() > 1) {
      build_reduction(among_hosts(), algorithm_, limits_, plan_);
    }
    for (uint64_t piece = 0; piece < pieces(); ++piece) spread(0, piece);
  }

 private:
  void find_self() {
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      const auto found = std::ranges::find(hosts_[host], plan_.rank());
      if (found == hosts_[host].end()) continue;
      host_ = host;
      self_ = static_cast<uint32_t>(found - hosts_[host].begin());
    }
  }

  const std::vector<Rank>& host() const { return hosts_[host_]; }
  uint32_t size() const { return static_cast<uint32_t>(host().size()); }
  uint64_t pieces() const { return columns_[0].pieces(); }
  bool leads(uint32_t position) const { return position < columns_.size(); }
  // Returns the place of this rank's partial result of its column after phase 1.
  Buffer partial() const { return size() > 1 ? Buffer::output : Buffer::input; }

  // Returns the AllReduce of this rank's column among its leaders.
  GroupReduction among_hosts() const {
    GroupReduction what;
    for (const std::vector<Rank>& ranks : hosts_) what.group.ranks.push_back(ranks[self_]);
    what.group.self = host_;
    what.partial = columns_[self_].whole();
    what.partial.buffer = partial();
    what.type = key_.type;
    return what;
  }

  // Adds phase 1 of one piece of a block of each column. Each rank begins with the rank after it,
  // so that no two of them send to the same leader at once.
  void collect(uint64_t block, uint64_t piece) {
    for (uint32_t distance = 1; distance < size(); ++distance) {
      const uint32_t to = (self_ + distance) % size();
      const uint32_t from = (self_ + size() - distance) % size();
      if (leads(to)) plan_.send(host()[to], columns_[to].piece(block, piece, Buffer::input));
      if (!leads(self_)) continue;
      const Buffer own = distance == 1 ? Buffer::input : Buffer::output;
      const bool last = hosts_.size() == 1 && distance + 1 == size();
      plan_.receive_reduce(host()[from], columns_[self_].piece(block, piece, own),
                           columns_[self_].piece(block, piece, Buffer::output), last);
    }
  }

  // Adds phase 3 of one piece of a block of each column.
  void spread(uint64_t block, uint64_t piece) {
    for (uint32_t distance = 1; distance < size(); ++distance) {
      const uint32_t to = (self_ + distance) % size();
      const uint32_t from = (self_ + size() - distance) % size();
      if (leads(self_)) {
        plan_.send(host()[to], columns_[self_].piece(block, piece, Buffer::output));
      }
      if (leads(from)) {
        plan_.receive(host()[from], columns_[from].piece(block, piece, Buffer::output));
      }
    }
  }

  // Step k of the ring on host h sends block h - k, and reduces block h - k - 1.
  void reduce_by_ring(Ring* ring) {
    const uint64_t hosts = hosts_.size();
    for (uint64_t k = 0; k + 1 < hosts; ++k) {
      for (uint64_t piece = 0; piece < pieces(); ++piece) {
        if (k == 0) collect(host_, piece);
        collect(host_ + hosts - k - 1, piece);
        if (ring != nullptr) ring->reduce_step(k, piece);
      }
    }
  }

  // Step k of the ring on host h sends block h + 1 - k, and receives block h - k.
  void gather_by_ring(Ring* ring) {
    const uint64_t hosts = hosts_.size();
    for (uint64_t k = 0; k + 1 < hosts; ++k) {
      for (uint64_t piece = 0; piece < pieces(); ++piece) {
        if (ring != nullptr) ring->gather_step(k, piece);
        if (k == 0) spread(host_ + 1, piece);
        spread(host_ + hosts - k, piece);
      }
    }
  }

  const PlanKey& key_;
  const PlanLimits& limits_;
  PlanBuilder& plan_;
  const std::vector<std::vector<Rank>>& hosts_;
  uint32_t host_ = 0;                      // this rank's host
  uint32_t self_ = 0;                      // its position on the host
  Algorithm algorithm_ = Algorithm::ring;  // of phase 2
  bool pipelined_ = false;
  uint64_t segment_ = 0;
  std::vector<Blocks> columns_;
};

}  // namespace

uint64_t column_count(const PlanKey& key, const PlanLimits& limits) {
  size_t most = SIZE_MAX;
  for (const std::vector<Rank>& ranks : key.hosts.hosts()) most = std::min(most, ranks.size());
  const uint64_t bytes = key.count * size_of(key.type);
  return std::clamp<uint64_t>(bytes / limits.column_bytes_min, 1, most);
}

void build_hierarchical_all_reduce(const PlanKey& key, const PlanLimits& limits,
                                   PlanBuilder& plan) {
  Hierarchy(key, limits, plan).build();
}

}  // namespace r2ccl
