// Recursive doubling (Thakur, Rabenseifner, Gropp 2005): in round k each rank exchanges its whole
// partial result with the rank 2^k away, and reduces both. It has log2 q hops, half as many as
// halving-doubling, and moves log2 q times the vector: for vectors so small that only hops count.
//
// Both ranks of an exchange compute the same bits: the partial result of the lower positions is the
// left operand on both. So all ranks evaluate the same expression.
//
// In place an exchange overwrites what it sends, so a rank must not reduce before its send is
// complete. A send this small is complete when it is posted, because the link copies it; so the
// wait is never on the critical path.
//
// Each partial result is sent, so each is rounded to the type of the elements. A rank must add to
// the rounded one, because its peer gets no other.
#include <algorithm>

#include "plan/algorithms.h"

namespace r2ccl {
namespace {

class RecursiveDoubling {
 public:
  RecursiveDoubling(const GroupReduction& what, const PlanLimits& limits, PlanBuilder& plan)
      : plan_(plan),
        core_(what.group),
        segment_(segment_count(limits.segment_bytes_max, what.type, limits)),
        partial_(what.partial),
        result_(what.result) {}

  void build() {
    const bool adds_first = core_.in_pair() && !core_.in_excess();
    if (partial_.buffer == Buffer::wide && !adds_first) {
      plan_.copy(partial_, result_);
      partial_ = result_;
    }
    if (core_.in_excess()) {
      plan_.send_pieces(core_.partner(), partial_, segment_);
      plan_.receive_pieces(core_.partner(), result_, segment_);
      return;
    }
    // The rank in excess has the lower position.
    if (adds_first) reduce(core_.partner(), Operands::received_first, false);
    const uint32_t self = core_.position();
    for (uint32_t distance = 1; distance < core_.size(); distance *= 2) {
      const uint32_t peer = self ^ distance;
      plan_.send_pieces(core_.at(peer), partial_, segment_);
      reduce(core_.at(peer), peer < self ? Operands::received_first : Operands::own_first,
             2 * distance == core_.size());
    }
    if (core_.in_pair()) plan_.send_pieces(core_.partner(), result_, segment_);
  }

 private:
  void reduce(Rank peer, Operands operands, bool last) {
    for (uint64_t begin = 0; begin < result_.count; begin += segment_) {
      const uint64_t count = std::min(segment_, result_.count - begin);
      plan_.receive_reduce(peer, {partial_.buffer, partial_.offset + begin, count},
                           {Buffer::output, result_.offset + begin, count}, last, operands);
    }
    partial_ = result_;
  }

  PlanBuilder& plan_;
  const Core core_;
  const uint64_t segment_;
  Region partial_;
  const Region result_;
};

}  // namespace

void build_recursive_doubling(const GroupReduction& what, const PlanLimits& limits,
                              PlanBuilder& plan) {
  RecursiveDoubling(what, limits, plan).build();
}

}  // namespace r2ccl
