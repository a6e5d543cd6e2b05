// AllGather and ReduceScatter of few bytes where ranks share hosts. The first rank of each host is
// its leader.
//
//   AllGather      1. each rank sends its block to its leader
//                  2. the leaders gather the blocks of all hosts by Bruck's algorithm
//                     (distributions.cc), with a host in place of a rank
//                  3. each leader sends the whole vector to each rank of its host
//   ReduceScatter  1. each rank sends its whole input to its leader, who reduces
//                  2. the leaders run Bruck's algorithm backwards
//                  3. each leader sends each rank of its host its block
//
// A flat plan has log2 p rounds, and in each all ranks send through the NICs of their host. Here
// log2 H of the rounds, of H hosts, pass through NICs, and in these only one rank of each host
// acts. A leader handles all bytes of its host in turn, so plans of many bytes are rings.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "plan/algorithms.h"
#include "plan/holdings.h"

namespace r2ccl {
namespace {

class HierarchicalBlocks {
 public:
  HierarchicalBlocks(const PlanKey& key, const PlanLimits& limits, PlanBuilder& plan)
      : key_(key),
        plan_(plan),
        hosts_(key.hosts.hosts()),
        segment_(segment_count(limits.segment_bytes_max, key.type, limits)),
        whole_{0, key.count * static_cast<uint64_t>(key.rank_count)},
        own_(block_of(key, plan.rank())) {
    const auto is_own = [&](const std::vector<Rank>& ranks) {
      return std::ranges::find(ranks, plan.rank()) != ranks.end();
    };
    host_ = static_cast<size_t>(std::ranges::find_if(hosts_, is_own) - hosts_.begin());
    R2CCL_CHECK(host_ < hosts_.size());
  }

  void all_gather() {
    const Region input{Buffer::input, 0, key_.count};
    if (!leads()) {
      plan_.send_pieces(leader(), input, segment_);
      return plan_.receive_pieces(leader(), in(Buffer::output, whole_), segment_);
    }
    plan_.copy(input, in(Buffer::output, own_));
    for (const Rank other : others()) {
      plan_.receive_pieces(other, in(Buffer::output, block_of(key_, other)), segment_);
    }
    for (size_t distance = 1; distance < hosts_.size(); distance *= 2) gather_round(distance);
    for (const Rank other : others()) {
      plan_.send_pieces(other, in(Buffer::output, whole_), segment_);
    }
  }

  void reduce_scatter() {
    if (!leads()) {
      plan_.send_pieces(leader(), in(Buffer::input, whole_), segment_);
      return plan_.receive_pieces(leader(), {Buffer::output, 0, key_.count}, segment_);
    }
    plan_.set_scratch(whole_.count);
    partial_ = plan_.widens() ? plan_.take_wide(whole_.count) : in(Buffer::scratch, whole_);
    collect();
    size_t distance = 1;
    while (2 * distance < hosts_.size()) distance *= 2;
    for (; hosts_.size() > 1 && distance > 0; distance /= 2) scatter_round(distance);
    for (const Rank other : others()) {
      plan_.send_pieces(other, in(Buffer::scratch, block_of(key_, other)), segment_);
    }
    plan_.copy(in(Buffer::scratch, own_), {Buffer::output, 0, key_.count});
  }

 private:
  const std::vector<Rank>& host() const { return hosts_[host_]; }
  Rank leader() const { return host()[0]; }
  bool leads() const { return plan_.rank() == leader(); }
  std::vector<Rank> others() const { return {host().begin() + 1, host().end()}; }

  // The leader of the host `distance` further on.
  Rank leader_at(size_t distance) const { return hosts_[(host_ + distance) % hosts_.size()][0]; }

  // Elements of the whole vector lie at their numbers, because the blocks are equal.
  static Region in(Buffer buffer, const Range& range) { return {buffer, range.begin, range.count}; }

  // Returns the blocks of the ranks of `count` hosts, from the one `distance` further on, as few
  // ranges.
  std::vector<Range> blocks_of_hosts(size_t distance, size_t count) const {
    std::vector<Rank> ranks;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Rank>& host = hosts_[(host_ + distance + i) % hosts_.size()];
      ranks.insert(ranks.end(), host.begin(), host.end());
    }
    std::ranges::sort(ranks);
    std::vector<Range> ranges;
    for (const Rank rank : ranks) {
      const Range block = block_of(key_, rank);
      const bool continues =
          !ranges.empty() && ranges.back().begin + ranges.back().count == block.begin;
      if (continues) {
        ranges.back().count += block.count;
      } else {
        ranges.push_back(block);
      }
    }
    return ranges;
  }

  // In this round of Bruck's algorithm a leader has the blocks of `distance` hosts from its own on,
  // and gets those of the next ones.
  size_t hosts_in_round(size_t distance) const {
    R2CCL_CHECK(distance > 0 && distance < hosts_.size());
    return std::min(distance, hosts_.size() - distance);
  }
  void gather_round(size_t distance) {
    const size_t count = hosts_in_round(distance);
    for (const Range& range : blocks_of_hosts(0, count)) {
      plan_.send_pieces(leader_at(hosts_.size() - distance), in(Buffer::output, range), segment_);
    }
    for (const Range& range : blocks_of_hosts(distance, count)) {
      plan_.receive_pieces(leader_at(distance), in(Buffer::output, range), segment_);
    }
  }

  // The same round backwards.
  void scatter_round(size_t distance) {
    const size_t count = hosts_in_round(distance);
    for (const Range& range : blocks_of_hosts(distance, count)) {
      plan_.copy(partial(range), in(Buffer::scratch, range));
      plan_.send_pieces(leader_at(distance), in(Buffer::scratch, range), segment_);
    }
    for (const Range& range : blocks_of_hosts(0, count)) {
      reduce(leader_at(hosts_.size() - distance), partial(range), range, distance == 1);
    }
  }

  // The leader reduces the inputs of its host.
  void collect() {
    if (others().empty()) return plan_.copy(in(Buffer::input, whole_), partial_);
    for (const Rank other : others()) {
      const bool first = other == others().front();
      const bool last = hosts_.size() == 1 && other == others().back();
      reduce(other, first ? in(Buffer::input, whole_) : partial_, whole_, last);
    }
  }

  // Returns the place of this leader's partial result. A complete one is in `scratch`.
  Region partial(const Range& range) const {
    return {partial_.buffer, partial_.offset + range.begin, range.count};
  }

  void reduce(Rank from, const Region& own, const Range& range, bool last) {
    for_each_piece(own, segment_, [&](const Region& piece) {
      const Range part{range.begin + piece.offset - own.offset, piece.count};
      plan_.receive_reduce(from, piece, last ? in(Buffer::scratch, part) : partial(part), last);
    });
  }

  const PlanKey& key_;
  PlanBuilder& plan_;
  const std::vector<std::vector<Rank>>& hosts_;
  const uint64_t segment_;
  const Range whole_;
  const Range own_;
  size_t host_ = 0;  // this rank's
  Region partial_;   // of a leader: the partial results of the whole vector
};

}  // namespace

void build_hierarchical_all_gather(const PlanKey& key, const PlanLimits& limits,
                                   PlanBuilder& plan) {
  HierarchicalBlocks(key, limits, plan).all_gather();
}

void build_hierarchical_reduce_scatter(const PlanKey& key, const PlanLimits& limits,
                                       PlanBuilder& plan) {
  HierarchicalBlocks(key, limits, plan).reduce_scatter();
}

}  // namespace r2ccl
