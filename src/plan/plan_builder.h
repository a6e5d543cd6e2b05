// Builds the step list of one rank. An algorithm only names its sends and receives, in an order in
// which a sequential run would be correct. The builder finds the dependencies from the regions, so
// that no algorithm can forget one: read after write, write after read (a receive waits until every
// send from its target is acknowledged), write after write.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/holdings.h"
#include "plan/plan.h"

namespace r2ccl {

class PlanBuilder {
 public:
  // `wide_count`: the most elements of `wide` memory; 0 where partial results have no wide form.
  PlanBuilder(Rank rank, bool in_place, const Overlay& overlay, uint64_t wide_count = 0)
      : in_place_(in_place), overlay_(overlay), wide_count_(wide_count) {
    plan_.rank = rank;
  }

  Rank rank() const { return plan_.rank; }

  // Add a transfer. Both of its ends leave it out if it has no elements.
  // A send may wait for further steps.
  void send(Rank peer, const Region& source, std::vector<uint32_t> after = {});
  void receive(Rank peer, const Region& target);
  void receive_reduce(Rank peer, const Region& source, const Region& target, bool last_reduction,
                      Operands operands = Operands::own_first);
  // Add transfers of pieces of at most `piece_count` elements.
  void send_pieces(Rank peer, const Region& source, uint64_t piece_count);
  void receive_pieces(Rank peer, const Region& target, uint64_t piece_count);
  // Adds a reduction in this rank's memory.
  void reduce(const Region& source, const Region& addend, const Region& target,
              bool last_reduction);
  // Leaves the copy out when both are the same memory.
  void copy(const Region& source, const Region& target);
  // Add a message without bytes.
  void send_empty(Rank peer);
  void receive_empty(Rank peer);
  void set_scratch(uint64_t count) { plan_.scratch = count; }

  // Returns whether partial results that this rank reduces further belong into `wide` memory.
  bool widens() const { return wide_count_ > 0; }
  // Returns a place in `wide` memory. Places follow each other in a ring, so one may be given again
  // once wide_group() elements have been taken after it. That holds for places of one quarter of
  // the memory or less, and for those of wide_group() elements.
  Region take_wide(uint64_t count);
  uint64_t wide_group() const { return wide_count_ / 2; }

  // Messages without bytes. A rank sends the signal when everything that it awaited so far has
  // arrived.
  void signal(Rank peer);
  void await(Rank peer);

  // Returns the index of the last step; requires one.
  uint32_t last_step() const { return static_cast<uint32_t>(plan_.steps.size()) - 1; }

  RankPlan take() { return std::move(plan_); }

 private:
  // The last accesses to a range: the step that wrote it and the steps that have read it since.
  struct Access {
    uint64_t end = 0;
    uint32_t writer = kNobody;
    std::vector<uint32_t> readers{};
  };
  static constexpr uint32_t kNobody = UINT32_MAX;
  using Accesses = std::map<uint64_t, Access>;  // by first element; ranges do not overlap

  bool is_written(Buffer buffer) const { return buffer != Buffer::input || in_place_; }
  // Returns where the region begins in its piece of memory.
  uint64_t address_of(const Region& region) const;
  bool same_place(const Region& a, const Region& b) const;
  Accesses& accesses_to(const Region& region) {
    return region.buffer == Buffer::scratch ? scratch_accesses_
           : region.buffer == Buffer::wide  ? wide_accesses_
                                            : accesses_;
  }
  void add(Step step);
  void read(const Region& region, Step& step);
  void write(const Region& region, Step& step);
  void note_read(const Region& region, uint32_t step);
  void note_write(const Region& region, uint32_t step);
  static Accesses::iterator cut(Accesses& accesses, uint64_t position);

  const bool in_place_;
  const Overlay overlay_;
  RankPlan plan_;
  const uint64_t wide_count_;
  uint64_t wide_taken_ = 0;  // the end of the last place
  // Accesses to the memory that steps write: the output, in place also the input, the scratch and
  // the wide memory.
  Accesses accesses_;
  Accesses scratch_accesses_;
  Accesses wide_accesses_;
  std::vector<uint32_t> awaited_;
};

// Calls f(piece) for the pieces of `region`, each of `piece_count` elements but the last.
template <typename F>
void for_each_piece(Region region, uint64_t piece_count, F f) {
  while (region.count > 0) {
    Region piece = region;
    piece.count = piece.count < piece_count ? piece.count : piece_count;
    f(piece);
    region.offset += piece.count;
    region.count -= piece.count;
  }
}

}  // namespace r2ccl
