// Order: conflicting accesses of one rank are ordered by `after`. For each piece of memory the
// check needs only the last write and the reads since: these order everything before them.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "plan/analysis/checker_parts.h"

namespace r2ccl::checker {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

class RankOrder {
 public:
  RankOrder(const Subject& subject, size_t rank)
      : subject_(subject), rank_(rank), steps_(subject.plans[rank].steps), seen_(steps_.size()) {
    for (const Step& step : steps_) {
      if (reads(step)) memory_of(step.source).cut(range_of(step.source));
      if (adds(step)) memory_of(step.addend).cut(range_of(step.addend));
      if (writes(step)) memory_of(step.target).cut(range_of(step.target));
    }
    for (Memory& memory : memories_) memory.finish();
  }

  Status check() {
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (reads(step) && is_written(step.source)) R2CCL_RETURN_IF_ERROR(read(i, step.source));
      if (adds(step) && is_written(step.addend)) R2CCL_RETURN_IF_ERROR(read(i, step.addend));
      if (writes(step)) R2CCL_RETURN_IF_ERROR(write(i, step.target));
    }
    return Status::ok_status();
  }

 private:
  struct Piece {
    uint32_t writer = kNobody;
    std::vector<uint32_t> readers{};
  };

  // Addresses of a piece of memory, cut where regions begin and end.
  class Memory {
   public:
    void cut(const Range& range) {
      cuts_.push_back(range.begin);
      cuts_.push_back(range.begin + range.count);
    }
    void finish() {
      std::sort(cuts_.begin(), cuts_.end());
      cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
      pieces_.resize(cuts_.size());
    }
    std::span<Piece> pieces(const Range& range) {
      const size_t begin = index_of(range.begin);
      return std::span(pieces_).subspan(begin, index_of(range.begin + range.count) - begin);
    }

   private:
    size_t index_of(uint64_t address) const {
      return static_cast<size_t>(std::lower_bound(cuts_.begin(), cuts_.end(), address) -
                                 cuts_.begin());
    }
    std::vector<uint64_t> cuts_;
    std::vector<Piece> pieces_;  // pieces_[i]: from cuts_[i] to cuts_[i + 1]
  };

  // Returns whether steps may write the region. An input that is not the output as well is never
  // written, so nothing conflicts there.
  bool is_written(const Region& region) const {
    return region.buffer != Buffer::input || subject_.in_place(rank_);
  }
  // Only memory that is written counts.
  Memory& memory_of(const Region& region) {
    return memories_[region.buffer == Buffer::scratch ? 1 : region.buffer == Buffer::wide ? 2 : 0];
  }
  Range range_of(const Region& region) const {
    return {subject_.address_of(rank_, region), region.count};
  }

  Status read(uint32_t step, const Region& region) {
    for (Piece& piece : memory_of(region).pieces(range_of(region))) {
      R2CCL_RETURN_IF_ERROR(require(piece.writer, step, "reads what this step writes: "));
      piece.readers.push_back(step);
    }
    return Status::ok_status();
  }

  Status write(uint32_t step, const Region& region) {
    for (Piece& piece : memory_of(region).pieces(range_of(region))) {
      for (const uint32_t reader : piece.readers) {
        R2CCL_RETURN_IF_ERROR(require(reader, step, "overwrites what this step reads: "));
      }
      R2CCL_RETURN_IF_ERROR(require(piece.writer, step, "overwrites what this step writes: "));
      piece.writer = step;
      piece.readers.clear();
    }
    return Status::ok_status();
  }

  Status require(uint32_t first, uint32_t second, const std::string& conflict) {
    if (first == kNobody || first == second || comes_after(first, second)) {
      return Status::ok_status();
    }
    return subject_.wrong({rank_, second}, conflict + std::to_string(first));
  }

  // Searches back from `second`; in a plan that names its hazards directly this ends at once.
  bool comes_after(uint32_t first, uint32_t second) {
    const std::vector<uint32_t>& direct = steps_[second].after;
    if (std::find(direct.begin(), direct.end(), first) != direct.end()) return true;
    std::fill(seen_.begin() + first, seen_.begin() + second, false);
    std::vector<uint32_t> open{second};
    while (!open.empty()) {
      const std::vector<uint32_t>& after = steps_[open.back()].after;
      open.pop_back();
      if (std::find(after.begin(), after.end(), first) != after.end()) return true;
      for (const uint32_t before : after) {
        if (before > first && !seen_[before]) {
          seen_[before] = true;
          open.push_back(before);
        }
      }
    }
    return false;
  }

  const Subject& subject_;
  const size_t rank_;
  const std::vector<Step>& steps_;
  std::vector<bool> seen_;
  std::array<Memory, 3> memories_;
};

}  // namespace

Status check_order(const Subject& subject) {
  for (size_t rank = 0; rank < subject.plans.size(); ++rank) {
    R2CCL_RETURN_IF_ERROR(RankOrder(subject, rank).check());
  }
  return Status::ok_status();
}

}  // namespace r2ccl::checker
