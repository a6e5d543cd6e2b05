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
// Along a forest (plan/forest.h) the phases overlap chunk by chunk in the same way. When phase 2 is
// a ring, they overlap piece by piece: a column has a block for each host,
// and the steps of phase 1 for a piece stand directly before the step of the ring that needs it.
// Staging slots are given in the order of the list, so a slow NIC then holds back no more memory
// work than it must, and memory work delays the NICs only for the first piece.
//
// One rank computes each element of a host's partial result, so all ranks get the same bits. It
// adds 16-bit elements in wide memory, also those of the next host, and rounds before it sends.
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/check.h"
#include "plan/algorithms.h"
#include "plan/forest.h"
#include "plan/ring.h"
#include "plan/ring_order.h"

namespace r2ccl {
namespace {

class Hierarchy : private ChunkSource {
 public:
  Hierarchy(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan)
      : key_(key), limits_(limits), plan_(plan), hosts_(key.hosts.hosts()) {
    algorithm_ = reduction_among_leaders(key, limits);
    if (algorithm_ == Algorithm::ring) order_hosts(ring_order(key));
    find_self();
    const uint64_t columns = column_count(key, limits);
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
      if (leads(self_)) ring.emplace(among_hosts(columns_[self_].whole()), segment_, plan_);
      reduce_by_ring(ring ? &*ring : nullptr);
      gather_by_ring(ring ? &*ring : nullptr);
      return;
    }
    if (hosts_.size() > 1 && uses_forest(algorithm_)) return reduce_along_forest();
    const uint64_t turn =
        hands_over_wide() ? std::max<uint64_t>(plan_.wide_group() / segment_, 1) : pieces();
    for (uint64_t first = 0; first < pieces(); first += turn) {
      take_turn(first, std::min(first + turn, pieces()));
    }
  }

 private:
  void order_hosts(const std::vector<uint32_t>& order) {
    for (size_t at = 0; at < order.size(); ++at) hosts_[at] = key_.hosts.hosts()[order[at]];
  }

  void find_self() {
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      const auto found = std::ranges::find(hosts_[host], plan_.rank());
      if (found == hosts_[host].end()) continue;
      host_ = host;
      self_ = static_cast<uint32_t>(found - hosts_[host].begin());
    }
    R2CCL_CHECK(self_ < hosts_[host_].size() && hosts_[host_][self_] == plan_.rank());
  }

  const std::vector<Rank>& host() const { return hosts_[host_]; }
  uint32_t size() const { return static_cast<uint32_t>(host().size()); }
  uint64_t pieces() const { return columns_[0].pieces(); }
  bool leads(uint32_t position) const { return position < columns_.size(); }
  // Returns whether phase 2 takes partial results over in wide memory, which then bounds the pieces
  // of a turn.
  bool hands_over_wide() const { return plan_.widens() && hosts_.size() > 1; }

  // Returns the AllReduce of a part of this rank's column, in the output, among its leaders.
  GroupReduction among_hosts(const Region& part) const {
    R2CCL_CHECK(leads(self_));
    GroupReduction what;
    for (const std::vector<Rank>& ranks : hosts_) what.group.ranks.push_back(ranks[self_]);
    what.group.self = host_;
    what.result = part;
    what.partial = part;
    what.partial.buffer = size() > 1 ? Buffer::output : Buffer::input;
    what.type = key_.type;
    return what;
  }

  // Adds all phases of the pieces from `first` to before `end`.
  void take_turn(uint64_t first, uint64_t end) {
    GroupReduction what;
    if (leads(self_)) {
      what = among_hosts(columns_[self_].pieces_between(first, end));
      if (hands_over_wide() && size() > 1) what.partial = plan_.take_wide(what.result.count);
    }
    for (uint64_t piece = first; piece < end; ++piece) {
      if (what.partial.buffer != Buffer::wide) {
        collect_rounded(0, piece);
        continue;
      }
      Region part = columns_[self_].piece(0, piece, Buffer::wide);
      part.offset += what.partial.offset - what.result.offset;
      collect(0, piece, part, part);
    }
    if (hosts_.size() > 1 && what.result.count > 0) {
      build_reduction(what, algorithm_, limits_, plan_);
    }
    for (uint64_t piece = first; piece < end; ++piece) spread(0, piece);
  }

  // Returns a place for the partial results of a piece of this rank's column, to which it adds so
  // many times before it rounds.
  Region open_place(uint64_t block, uint64_t piece, uint64_t additions) {
    if (!leads(self_)) return {};
    const Region output = columns_[self_].piece(block, piece, Buffer::output);
    return plan_.widens() && additions > 1 ? plan_.take_wide(output.count) : output;
  }

  // Adds phase 1 of a piece whose partial result is sent or returned next.
  void collect_rounded(uint64_t block, uint64_t piece) {
    const Region open = open_place(block, piece, size() - 1);
    collect(block, piece, open,
            leads(self_) ? columns_[self_].piece(block, piece, Buffer::output) : Region{});
  }

  // A part of a column, in a buffer.
  using Part = std::function<Region(uint32_t column, Buffer buffer)>;
  Part piece_of(uint64_t block, uint64_t piece) const {
    return [=, this](uint32_t column, Buffer buffer) {
      return columns_[column].piece(block, piece, buffer);
    };
  }

  void collect(uint64_t block, uint64_t piece, const Region& open, const Region& target) {
    collect(piece_of(block, piece), open, target);
  }
  void spread(uint64_t block, uint64_t piece) { spread(piece_of(block, piece)); }

  // Adds phase 1 of a part of each column. Each rank begins with the rank after it, so that no two
  // of them send to the same leader at once. This rank's partial results of its column lie in
  // `open`, and the last one in `target`.
  void collect(const Part& part, const Region& open, const Region& target) {
    for (uint32_t distance = 1; distance < size(); ++distance) {
      const uint32_t to = (self_ + distance) % size();
      const uint32_t from = (self_ + size() - distance) % size();
      if (leads(to)) plan_.send(host()[to], part(to, Buffer::input));
      if (!leads(self_)) continue;
      const bool last = distance + 1 == size();
      plan_.receive_reduce(host()[from], distance == 1 ? part(self_, Buffer::input) : open,
                           last ? target : open, last && hosts_.size() == 1);
    }
  }

  // Adds phase 3 of a part of each column.
  void spread(const Part& part) {
    for (uint32_t distance = 1; distance < size(); ++distance) {
      const uint32_t to = (self_ + distance) % size();
      const uint32_t from = (self_ + size() - distance) % size();
      if (leads(self_)) plan_.send(host()[to], part(self_, Buffer::output));
      if (leads(from)) plan_.receive(host()[from], part(from, Buffer::output));
    }
  }

  void reduce_along_forest() {
    forest_.emplace(key_.view, hosts_.size(), host_, algorithm_, columns_[0].whole().count,
                    key_.type, forest_limits(key_, limits_));
    GroupReduction what;
    if (leads(self_)) what = among_hosts(columns_[self_].whole());
    build_along_forest(*forest_, leads(self_) ? &what : nullptr, *this, plan_);
  }

  Part chunk_of(uint64_t chunk) const {
    return [=, this](uint32_t column, Buffer buffer) {
      Region part = forest_->chunk_of(columns_[column].whole(), chunk);
      part.buffer = buffer;
      return part;
    };
  }
  Region take_input(uint64_t chunk, size_t additions) override {
    const Part part = chunk_of(chunk);
    if (!leads(self_)) {
      collect(part, {}, {});
      return {};
    }
    if (size() == 1) return part(self_, Buffer::input);
    const Region output = part(self_, Buffer::output);
    const bool widens = plan_.widens() && size() - 1 + additions > 1;
    const Region open = widens ? plan_.take_wide(output.count) : output;
    const Region target = additions > 0 ? open : output;
    collect(part, open, target);
    return target;
  }
  void give_result(uint64_t chunk) override { spread(chunk_of(chunk)); }

  // Step k of the ring on host h sends block h - k, and reduces block h - k - 1.
  void reduce_by_ring(Ring* ring) {
    R2CCL_CHECK((ring != nullptr) == leads(self_));
    const uint64_t hosts = hosts_.size();
    for (uint64_t k = 0; k + 1 < hosts; ++k) {
      for (uint64_t piece = 0; piece < pieces(); ++piece) {
        if (k == 0) collect_rounded(host_, piece);
        const uint64_t block = host_ + hosts - k - 1;
        const Region open = open_place(block, piece, size());
        collect(block, piece, open, open);
        if (ring == nullptr) continue;
        const Region input = columns_[self_].piece(block, piece, Buffer::input);
        ring->reduce_step(k, piece, size() > 1 ? open : input);
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
  std::vector<std::vector<Rank>> hosts_;   // a ring's order is its own
  uint32_t host_ = 0;                      // this rank's host
  uint32_t self_ = 0;                      // its position on the host
  Algorithm algorithm_ = Algorithm::ring;  // of phase 2
  bool pipelined_ = false;
  uint64_t segment_ = 0;
  std::vector<Blocks> columns_;
  std::optional<ForestPlan> forest_;
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
